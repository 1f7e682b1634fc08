"""The explorer's API: answers, refusals, and who may ask."""

import base64
import io
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import webbrowser
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from diskoop.errors import InputError
from diskoop.storage import TEMPORARY
from diskoop.web import server
from diskoop.web.server import Explorer, create_app
from diskoop.web.session import Session
from tests.helpers.cli import diskoop, start, wait_for
from tests.helpers.media import moving_square, write_film

HERE = "http://127.0.0.1:8137"
SWAP = {"kind": "swap", "receiver": "test/3", "donor": "test/8", "factors": ["static"]}


@contextmanager
def served(run: Path) -> Iterator[TestClient]:
    session = Session(run)
    with TestClient(create_app(session), base_url=HERE) as client:
        yield client
    session.close()


@pytest.fixture(scope="module")
def client(video_run: Path) -> Iterator[TestClient]:
    with served(video_run) as client:
        yield client


@pytest.fixture(scope="module")
def sound_client(sound_run: Path) -> Iterator[TestClient]:
    with served(sound_run) as client:
        yield client


def test_the_page_and_all_it_asks_for_are_here(client: TestClient) -> None:
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    folder = Path(server.__file__).parent / "page"
    for file in folder.iterdir():
        if file.suffix in server.PAGE_TYPES:
            text = client.get(f"/page/{file.name}").text
            for word in ("http://", "https://"):
                assert word not in text.replace("http://www.w3.org", "")  # nothing from anywhere else


@pytest.mark.parametrize("path", ["/page/..%2Fserver.py", "/page/%2Fetc%2Fpasswd", "/page/server.py", "/etc/passwd"])
def test_nothing_else_of_the_disk_is_readable(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_a_run_tells_its_spectrum_and_factors(client: TestClient) -> None:
    facts = client.get("/api/run").json()
    assert (facts["kind"], facts["k"], len(facts["modes"]), facts["frame"]) == ("video", 32, 32, [3, 32, 32])
    assert [factor["name"] for factor in facts["factors"]] == ["static", "dynamic"]
    assert sum(mode["static"] for mode in facts["modes"]) >= 14


def test_a_swap_is_a_picture_of_all_its_frames(client: TestClient) -> None:
    answer = client.post("/api/edit", json=SWAP).json()
    view = answer["view"]
    assert (view["kind"], view["frames"], view["columns"]) == ("video", 8, 8)
    content = view["image"].removeprefix("data:image/png;base64,")
    assert Image.open(io.BytesIO(base64.b64decode(content))).size == (8 * 32, 32)
    assert answer["shell"].startswith("diskoop swap ")


def test_stages_come_in_order(client: TestClient) -> None:
    stages = client.post("/api/stages?count=3", json=SWAP).json()["stages"]
    assert len(stages) == 3
    nothing = client.post("/api/edit", json={**SWAP, "amount": 0}).json()
    assert stages[0]["view"] == nothing["view"]


def test_clips_are_listed_by_label(client: TestClient) -> None:
    splits = client.get("/api/splits").json()
    assert next(iter(splits["splits"])) == "test"
    assert splits["problem"] is None
    value = splits["labels"]["test"]["hair"][1]
    page = client.get("/api/clips", params={"split": "test", "count": 2, "label.hair": value}).json()
    assert [clip["labels"]["hair"] for clip in page["clips"]] == [value, value]


@pytest.mark.parametrize(("suffix", "start"), [("webp", b"RIFF"), ("npz", b"PK"), ("mp4", b"\x00\x00\x00")])
def test_results_are_downloaded(client: TestClient, suffix: str, start: bytes) -> None:
    answer = client.get("/api/download", params={"edit": json.dumps(SWAP), "suffix": suffix})
    assert answer.content.startswith(start)
    assert answer.headers["content-disposition"].endswith(f".{suffix}")


def test_sound_is_heard(sound_client: TestClient, client: TestClient) -> None:
    swap = {**SWAP, "receiver": "train/0", "donor": "train/1"}
    answer = sound_client.get("/api/sound", params={"edit": json.dumps(swap)})
    assert answer.headers["content-type"] == "audio/wav"
    assert answer.content.startswith(b"RIFF")
    refused = client.get("/api/sound", params={"edit": json.dumps(SWAP)})
    assert (refused.status_code, refused.json()["error"]) == (422, "this run's sequences are no sound")


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("/api/edit", {**SWAP, "factors": ["stattic"]}, "unknown factor 'stattic'; did you mean 'static'?"),
        ("/api/edit", {**SWAP, "amount": 1e9}, "amount: input should be less than or equal to 10, got 1000000000.0"),
        ("/api/edit", {**SWAP, "kind": "steal"}, "kind: input should be 'original'"),
        ("/api/edit", {**SWAP, "path": "/etc"}, "path: extra inputs are not permitted"),
        ("/api/edit", [], "the request: input should be"),
        ("/api/rename", {"names": {"a": "b"}}, "has no factors yet"),
        ("/api/undo", {}, "nothing was renamed"),
        ("/api/stages?count=99", SWAP, "count: input should be less than or equal to 12"),
    ],
)
def test_mistakes_get_a_sentence(client: TestClient, path: str, body: Any, sentence: str) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code == 422
    assert sentence in answer.json()["error"]


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [("{", "invalid JSON"), (json.dumps(SWAP)[:-1] + f', "seed": {"9" * 5000}}}', "number out of range")],
    ids=["cut", "huge number"],
)
def test_an_edit_in_an_address_is_checked_too(client: TestClient, edit: str, sentence: str) -> None:
    answer = client.get("/api/download", params={"edit": edit, "suffix": "webp"})
    assert answer.status_code == 422
    assert sentence in answer.json()["error"]


@pytest.mark.parametrize(
    ("method", "path", "content", "status"),
    [
        ("POST", "/api/edit", b"[" * 100_000, 400),
        ("POST", "/api/edit", b'{"seed": ' + b"9" * 5000 + b"}", 400),
        ("POST", "/api/edit", b'{"\\ud800": 1, "kind": "swap", "receiver": "test/0"}', 422),
        ("POST", "/api/edit", b"\xff", 400),
        ("POST", "/api/edit", b"{", 422),
        ("POST", "/api/rename", b'{"names": {"\\ud800": "a"}}', 422),
        ("POST", "/api/upload", b"", 422),
        ("GET", "/api/clips?split=%00", b"", 422),
        ("GET", "/api/nothing", b"", 404),
        ("DELETE", "/api/edit", b"", 405),
    ],
    ids=lambda value: str(value)[:24],
)
def test_every_refusal_is_a_sentence(client: TestClient, method: str, path: str, content: bytes, status: int) -> None:
    answer = client.request(method, path, content=content, headers={"Content-Type": "application/json"})
    assert (answer.status_code, list(answer.json())) == (status, ["error"])
    assert " " in answer.json()["error"]
    assert not answer.json()["error"][0].isdigit()  # not the place of a letter in the request


def test_a_mistake_of_ours_is_a_sentence_too(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "verdict", lambda _: 1 / 0)
    with TestClient(client.app, base_url=HERE, raise_server_exceptions=False) as calm:
        answer = calm.get("/api/verdict")
    assert answer.status_code == 500
    assert answer.json() == {"error": "/api/verdict failed with ZeroDivisionError; the terminal says more"}


def test_no_option_of_the_command_line_is_advised(sound_client: TestClient) -> None:
    answer = sound_client.post("/api/upload?name=a.wav", content=b"no sound")
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("a.wav")
    assert "--" not in answer.json()["error"]


def test_files_are_brought_and_refused(client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    film = write_film(tmp_path / "walk.gif", moving_square(8))
    clips = client.post("/api/upload?name=walk.gif", content=film.read_bytes()).json()["clips"]
    answer = client.post("/api/edit", json={**SWAP, "receiver": clips[0]})
    assert answer.status_code == 200
    refused = client.post("/api/upload?name=walk.txt", content=b"x")
    assert refused.status_code == 422
    assert "walk.txt holds 1 .txt, wanted" in refused.json()["error"]
    monkeypatch.setattr(server, "MAX_UPLOAD", 2**20)
    large = client.post("/api/upload?name=walk.npy", content=bytes(3 * 2**20))
    assert large.json()["error"] == "expected a file of at most 1 MB, got 3 MB"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:8137"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ],
)
def test_other_pages_are_refused(client: TestClient, headers: dict[str, str]) -> None:
    answer = client.get("/api/run", headers=headers)
    assert answer.status_code == 403
    assert "expected a request" in answer.json()["error"]


def test_the_explorer_s_own_page_is_not(client: TestClient) -> None:
    assert client.get("/api/run", headers={"Origin": HERE}).status_code == 200
    assert client.get("/api/run", headers={"Host": "localhost:8137"}).status_code == 200


def test_other_machines_need_the_token(video_run: Path) -> None:
    session = Session(video_run)
    app = create_app(session, token="secret", hosts=("lab",))
    with TestClient(app, base_url="http://lab:1", follow_redirects=False) as visitor:
        assert visitor.get("/api/run").status_code == 401
        assert visitor.get("/?token=guess").status_code == 401
        assert visitor.post("/api/undo?token=secret").status_code == 401
        entered = visitor.get("/?token=secret")
        assert (entered.status_code, entered.headers["location"]) == (303, "/")
        assert "httponly" in entered.headers["set-cookie"].lower()
        assert visitor.get("/api/run").status_code == 200
        assert visitor.get("/api/run", headers={"Host": "evil.example"}).status_code == 403
    with TestClient(app, base_url="http://192.168.1.7:1") as visitor:  # an address cannot be another page's name
        assert visitor.get("/api/run").status_code == 401
        assert visitor.get("/?token=secret").status_code == 200
    session.close()


def test_another_address_needs_a_flag(video_run: Path) -> None:
    session = Session(video_run)
    with pytest.raises(InputError, match=r"0.0.0.0 can be reached from other machines; --expose allows that"):
        Explorer(session, "0.0.0.0")
    exposed = Explorer(session, "0.0.0.0", is_exposed=True)
    assert f"?token={exposed.token}" in exposed.url
    exposed._socket.close()
    session.close()


def test_a_port_that_is_taken_is_told(video_run: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        result = diskoop("explore", str(video_run), "--no-browser", "--port", port, cwd=tmp_path)
    assert result.returncode == 2
    assert f"cannot listen on 127.0.0.1, port {port}" in result.stderr


def test_a_folder_without_a_run_is_told(tmp_path: Path) -> None:
    result = diskoop("explore", str(tmp_path), "--no-browser", cwd=tmp_path)
    assert result.returncode == 2
    assert "no run at" in result.stderr


def test_several_browsers_at_once(series_run: Path, tmp_path: Path) -> None:
    session = Session(shutil.copytree(series_run, tmp_path / "run"))
    explorer = Explorer(session)
    thread = threading.Thread(target=explorer.serve)
    thread.start()

    def ask(index: int) -> Any:
        body = {"kind": "swap", "receiver": f"test/{index}", "donor": "test/50", "factors": ["static"]}
        request = Request(
            f"{explorer.url}api/edit", json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST"
        )
        with urlopen(request, timeout=600) as answer:
            return json.load(answer)["view"]["values"]

    try:
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(ask, range(24)))
        np.testing.assert_array_equal(together, [ask(index) for index in range(24)])
    finally:
        explorer.stop()
        thread.join(30)
        session.close()
    assert not thread.is_alive()


@pytest.mark.parametrize("opens", [True, False])
def test_the_browser_is_opened_unless_told_not_to(
    series_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opens: bool
) -> None:
    opened: list[str] = []
    explorers: list[Explorer] = []

    class Known(Explorer):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            explorers.append(self)
            timer = threading.Timer(10, self.stop) if opens else threading.Timer(0, see, [self.url])
            timer.daemon = True
            timer.start()

    def see(url: str) -> None:
        """What a browser does, and the end of it."""
        with urlopen(f"{url}api/run", timeout=600) as answer:
            assert json.load(answer)["kind"] == "series"
        explorers[0].stop()

    def open_page(url: str) -> bool:
        opened.append(url)
        see(url)
        return True

    monkeypatch.setattr(server, "Explorer", Known)
    monkeypatch.setattr(webbrowser, "open", open_page)
    result = diskoop("explore", str(series_run), "--port", "0", *([] if opens else ["--no-browser"]), cwd=tmp_path)
    assert result.returncode == 0
    assert f" at {explorers[0].url}\n" in result.stdout
    assert opened == ([explorers[0].url] if opens else [])


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_ends_it(series_run: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "diskoop", "explore", str(series_run), "--no-browser", "--port", "0"]
    process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    url = line.split(" at ")[1].strip()
    with urlopen(f"{url}api/run", timeout=600) as answer:
        assert json.load(answer)["kind"] == "series"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0
    assert errors == ""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
def test_an_explorer_whose_terminal_is_closed_ends_quietly_and_leaves_nothing(
    number: signal.Signals, series_run: Path, tmp_path: Path
) -> None:
    def begin() -> "subprocess.Popen[str]":
        before = set(tmp_path.glob(f"{TEMPORARY}*"))
        process = start("explore", str(series_run), "--no-browser", "--port", "0", cwd=tmp_path, TMPDIR=str(tmp_path))
        wait_for(lambda: bool(set(tmp_path.glob(f"{TEMPORARY}*")) - before), process)
        time.sleep(2)  # until it serves
        return process

    process = begin()
    process.send_signal(number)
    message = process.communicate(timeout=600)[1]
    assert "Traceback" not in message
    if number == signal.SIGKILL:  # what it left is removed by the next one
        process = begin()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=600)
    assert process.returncode == 0
    assert list(tmp_path.glob(f"{TEMPORARY}*")) == []
