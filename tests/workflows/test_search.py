"""`diskoop search`: a folder with all of it, the same command goes on, and workers may be killed."""

import contextlib
import json
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from diskoop.errors import InputError, Stopped
from diskoop.evaluation import classifiers
from diskoop.run import load
from diskoop.run_folder import RunFolder, read_metrics
from diskoop.search.plan import SearchPlan
from diskoop.search.results import SearchResults
from diskoop.search.storage import open_storage
from diskoop.search.trials import ClaimedTrial, TrialQueue
from diskoop.settings import Settings
from diskoop.tensor_files import read_record
from diskoop.workflows.search import Search
from tests.helpers.cli import answer, diskoop, start, wait_for
from tests.helpers.training import Quiet
from tests.search.conftest import either, postgres  # noqa: F401 - fixtures

PLAN: dict[str, Any] = {
    "settings": {
        "data": {"name": "oscillators", "limit": 200},
        "model": {"h": 8, "dropout": 0},
        "train": {"steps": 12, "save_every": 2, "device": "cpu"},
    },
    "space": {"model.k": [6, 10], "spectrum.static": [2, 7], "loss.eig": {"low": 0.1, "high": 10, "log": True}},
    "sampler": "random",
    "seed": 1,
    "trials": 4,
}
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")


def write_plan(path: Path, **changes: Any) -> Path:
    path.write_text(yaml.safe_dump(PLAN | changes, sort_keys=False))
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder in which a search was run, and what its command answered."""
    folder = tmp_path_factory.mktemp("search")
    write_plan(folder / "mine.yaml")
    return folder, answer("search", "-c", "mine.yaml", cwd=folder)


def test_a_folder_holds_all_of_it(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, facts = finished
    out = folder / "searches" / "mine"
    assert facts["folder"] == str(Path("searches/mine"))
    assert {Path(file).name for file in facts["files"]} == {
        "table.md", "table.json", "history.png", "settings.png", "importances.png", "best.yaml",
    }  # fmt: skip
    assert all((folder / file).stat().st_size > 0 for file in facts["files"])
    assert SearchPlan.load(out / "plan.yaml") == SearchPlan.of(PLAN)
    states = Counter(each["state"] for each in facts["trials"])
    impossible = [each for each in facts["trials"] if each["params"]["spectrum.static"] > each["params"]["model.k"]]
    assert states == {"complete": 4 - len(impossible), "failed": len(impossible)}
    assert len(impossible) == 1  # by the seed
    assert "spectrum.static = 7 exceeds model.k = 6" in impossible[0]["error"]
    best = facts["trials"][facts["best"]]
    assert best["value"] == max(each["value"] for each in facts["trials"] if each["value"] is not None)
    assert best["value"] == pytest.approx(sum(max(-1, value) for value in best["figures"].values()) / 4)
    assert sum(facts["importances"].values()) == pytest.approx(1)
    settings = Settings.load(out / "best.yaml")
    assert (settings.model.k, settings.loss.eig) == (best["params"]["model.k"], best["params"]["loss.eig"])
    stored = json.loads((out / "table.json").read_text())
    assert stored == {key: value for key, value in facts.items() if key not in ("folder", "files")}


def test_the_table_ranks_trials(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, facts = finished
    text = (folder / "searches" / "mine" / "table.md").read_text()
    assert "4 trials of 4: 3 complete, 1 failed" in text
    heading = next(line for line in text.splitlines() if line.startswith("| trial |"))
    assert heading == "| trial | state | objective | explained | steady | cycle | kept | k | static | eig | seconds |"
    rows = re.findall(r"^\| (\d{3}) \| (\w+) \| ([^|]*)\|", text, re.MULTILINE)
    assert int(rows[0][0]) == facts["best"]
    objectives = [float(row[2]) for row in rows if row[2].strip()]
    assert objectives == sorted(objectives, reverse=True)
    assert rows[-1][1] == "failed"


def test_settings_that_are_called_alike_have_their_full_names() -> None:
    space = {"loss.cycle": [1, 2], "model.k": [6], "model.noise": [0.1], "loss.rec": [1]}
    headings = SearchResults("mine", SearchPlan.of(PLAN | {"space": space}), [], {}).headings()
    assert headings[-5:] == ["loss.cycle", "k", "noise", "rec", "seconds"]
    assert len(set(headings)) == len(headings)


def test_a_finished_search_trains_nothing_and_a_longer_one_goes_on(
    finished: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, facts = finished
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    before = (tmp_path / "searches/mine/trials/000/settings.yaml").stat().st_mtime_ns
    result = diskoop("search", "-c", "mine.yaml", cwd=tmp_path)
    assert (result.returncode, "trial 0" in result.stderr) == (0, False)
    assert f"best: trial {facts['best']:03d}, model.k=" in result.stdout
    assert re.search(r"what mattered: [a-z.]+ \d+%", result.stdout)
    more = answer("search", "-c", "mine.yaml", "--trials", "5", cwd=tmp_path)
    assert more["trials"][:4] == facts["trials"]
    assert len(more["trials"]) == 5
    assert (tmp_path / "searches/mine/trials/000/settings.yaml").stat().st_mtime_ns == before
    (tmp_path / "searches/mine/search.db").unlink()
    result = diskoop("search", "-c", "mine.yaml", cwd=tmp_path)
    assert result.returncode == 2
    assert re.search(r"'searches/mine/trials' holds trials that the storage 'sqlite:.*' does not know", result.stderr)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-c", "oscilators"], "no settings file and no search plan 'oscilators'; did you mean 'oscillators'?"),
        (["-c", "oscillators", "model.kk=3"], "unknown setting 'model.kk'; did you mean 'model.k'?"),
        (["-c", "oscillators", "model.k=3"], "model.k stands in settings and in space; keep one of them"),
        (["-c", "oscillators", "--sampler", "tep"], "sampler should be 'tpe', 'random' or 'grid', got 'tep'"),
        (["-c", "oscillators", "--storage", "mysql://a"], "unknown storage 'mysql://a'; wanted sqlite:///FILE"),
        (["-c", "oscillators", "data.val_fraction=0"], "a search judges by 2 validation clips at least"),
    ],
)
def test_a_mistake_is_a_sentence(words: list[str], sentence: str, tmp_path: Path) -> None:
    result = diskoop("search", *words, cwd=tmp_path)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert sentence in result.stderr
    assert not list(tmp_path.glob("searches/*/trials/*"))


def test_a_search_by_labels_scores_the_factors_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a classifier of a hundred steps, which tells three labels of five."""
    monkeypatch.setenv("DISKOOP_CACHE", str(tmp_path))
    monkeypatch.setattr(classifiers, "train_classifier", partial(classifiers.train_classifier, steps=100))
    space = {"model.k": [8], "spectrum.static": [3]}
    write_plan(tmp_path / "mine.yaml", space=space, objective="score", trials=1)
    facts = answer("search", "-c", "mine.yaml", cwd=tmp_path)
    (trial,) = facts["trials"]
    assert list(trial["figures"]) == ["score"]
    assert 0.4 < trial["value"] == trial["figures"]["score"] < 1
    assert load(tmp_path / "searches" / "mine" / "trials" / "000").require_factors().names
    blind = partial(classifiers.train_classifier, steps=1)
    monkeypatch.setattr(classifiers, "train_classifier", blind)
    monkeypatch.setenv("DISKOOP_CACHE", str(tmp_path / "empty"))
    result = diskoop("search", "-c", "mine.yaml", "--out", "other", cwd=tmp_path)
    assert (result.returncode, (tmp_path / "other").exists()) == (2, False)  # before anything is trained
    assert "the classifier is too poor to score anything: level: its accuracy is" in result.stderr


def test_what_is_no_plan_or_no_folder_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "tag.yaml").write_text("space: !!python/object:os.system {}\n")
    (tmp_path / "binary.yaml").write_bytes(bytes(range(128, 256)))
    (tmp_path / "folder.yaml").mkdir()
    for words, told in (
        (("-c", "tag.yaml"), "the tag !!python/object:os.system has no place in settings"),
        (("-c", "binary.yaml"), "cannot read settings from 'binary.yaml': 'utf-8' codec"),
        (("-c", "folder.yaml"), "'folder.yaml' is a folder, wanted a file"),
        (("-c", "oscillators", "--out", "tag.yaml"), "cannot write 'tag.yaml/trials': Not a directory"),
    ):
        result = diskoop("search", *words, cwd=tmp_path)
        assert (result.returncode, result.stderr.count("\n")) == (2, 1)
        assert told in result.stderr
    assert len(list(tmp_path.iterdir())) == 3


def test_trials_that_all_fail_are_an_error(tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "bad.yaml", space={"model.k": [4, 5], "spectrum.static": [9]}, trials=2)
    result = diskoop("search", "-c", str(plan), cwd=tmp_path)
    assert result.returncode == 2
    assert "every trial failed, the first one so: spectrum.static = 9 exceeds model.k = " in result.stderr
    assert "2 failed" in (tmp_path / "searches/bad/table.md").read_text()


@POSIX
@pytest.mark.slow
def test_ctrl_c_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # which is ignored in the background
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, handler))
    values = PLAN | {"space": {"loss.eig": {"low": 0.1, "high": 10}}, "trials": 3}
    plan = SearchPlan.of(
        values | {"settings": PLAN["settings"] | {"model": {"k": 6, "h": 8}, "spectrum": {"static": 2}}}
    )
    validated, original = [], Search._on_validation

    def press_ctrl_c(self: Search, claim: ClaimedTrial, done: float, row: dict[str, Any]) -> None:
        original(self, claim, done, row)
        validated.append(row["step"])
        if len(validated) == 17:  # the fifth step of the second trial
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Search, "_on_validation", press_ctrl_c)
        with pytest.raises(Stopped, match=r"^stopped; 2 trials of 3: 1 complete, 1 waiting; the same command goes on$"):
            Search("mine", plan, tmp_path / "out", Quiet()).run()
    assert validated[-1] == 5
    assert "1 waiting" in (tmp_path / "out" / "table.md").read_text()
    again = Quiet()
    results, _ = Search("mine", plan, tmp_path / "out", again).run()
    assert [each.state for each in results.trials] == ["complete"] * 3
    assert [each.attempts for each in results.trials] == [1, 2, 1]
    to_go = [message.split()[0] for message in again.messages if "to go: " in message]
    assert to_go == ["7", "12"]  # from its checkpoint, and the third one
    whole, _ = Search("mine", plan, tmp_path / "whole", Quiet()).run()
    assert [each.value for each in whole.trials] == [each.value for each in results.trials]


def test_a_damaged_checkpoint_begins_anew(tmp_path: Path) -> None:
    plan = SearchPlan.of(
        PLAN | {"space": {"loss.eig": [1.0]}, "settings": PLAN["settings"] | {"spectrum": {"static": 2}}, "trials": 1}
    )
    plan = plan.model_copy(update={"settings": plan.settings | {"model": {"k": 6, "h": 8}}})
    first = Search("mine", plan, tmp_path / "out", Quiet())
    claim = first.queue.take()
    assert claim is not None
    claim.suggest()
    claim.release()
    results, _ = Search("mine", plan, tmp_path / "whole", Quiet()).run()
    broken = tmp_path / "out" / "trials" / "000-0"
    shutil.copytree(tmp_path / "whole" / "trials" / "000", broken)
    (broken / "model.safetensors").unlink()
    (broken / "checkpoint.safetensors").write_bytes(b"damaged")
    reporter = Quiet()
    again, _ = Search("mine", plan, tmp_path / "out", reporter).run()
    assert any("begins anew: " in message for message in reporter.messages)
    assert again.trials[0].value == results.trials[0].value
    assert [path.name for path in broken.parent.iterdir()] == ["000"]


def one_trial() -> SearchPlan:
    settings = PLAN["settings"] | {"spectrum": {"static": 2}, "model": {"k": 6, "h": 8}}
    return SearchPlan.of(PLAN | {"space": {"loss.eig": [1.0]}, "settings": settings, "trials": 1, "pruner": "none"})


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_who_comes_back_too_late_leaves_the_run_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker is suspended after its first validation, another one ends the trial, and the first trains on."""
    late, original = Search("mine", one_trial(), tmp_path / "out", Quiet()), Search._on_validation
    runs = tmp_path / "out" / "trials"
    whole: dict[str, bytes] = {}

    def fall_asleep(self: Search, claim: ClaimedTrial, done: float, row: dict[str, Any]) -> None:
        original(self, claim, done, row)
        if self is not late or whole:
            return
        late.queue.add_attempt(late.queue.frozen(claim.trial), 1)  # as who has waited for signs of life does
        other = Search("mine", one_trial(), tmp_path / "out", Quiet())
        results, _ = other.run()
        assert [(each.state, each.attempts) for each in results.trials] == [("complete", 2)]
        whole.update(contents(runs / "000"))

    monkeypatch.setattr(Search, "_on_validation", fall_asleep)
    late.run()
    assert "trial 000 has been taken over by another worker" in late.reporter.messages  # type: ignore[attr-defined]
    assert contents(runs / "000") == whole
    assert len(read_metrics(RunFolder(runs / "000"))) == 12
    assert [path.name for path in runs.iterdir()] == ["000"]


def test_a_run_gets_its_name_though_its_worker_is_killed_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / "out" / "trials"
    with monkeypatch.context() as patch:
        patch.setattr(Search, "_name_runs", lambda self: None)
        Search("mine", one_trial(), tmp_path / "out", Quiet()).run()
    assert [path.name for path in runs.iterdir()] == ["000-0"]
    whole = contents(runs / "000-0")
    Search("mine", one_trial(), tmp_path / "out", Quiet()).run()
    assert contents(runs) == {f"000/{name}": content for name, content in whole.items()}


def test_settings_are_those_that_the_search_began_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The base is edited while trials run."""
    base, path = tmp_path / "base.yaml", tmp_path / "mine.yaml"
    base.write_text(yaml.safe_dump(PLAN["settings"] | {"model": {"k": 6, "h": 8}, "spectrum": {"static": 2}}))
    path.write_text(yaml.safe_dump({"base": "base.yaml", "space": {"loss.eig": [1.0, 2.0]}, "sampler": "grid"}))
    original = Search._train

    def edit(self: Search, *arguments: Any) -> Any:
        base.write_text(base.read_text().replace("h: 8", "h: 5"))
        return original(self, *arguments)

    monkeypatch.setattr(Search, "_train", edit)
    Search("mine", SearchPlan.load(path), tmp_path / "out", Quiet()).run()
    files = [*(tmp_path / "out").glob("trials/*/settings.yaml"), tmp_path / "out" / "best.yaml"]
    assert [Settings.load(file).model.h for file in files] == [8, 8, 8]
    assert SearchPlan.load(tmp_path / "out" / "plan.yaml").settings["model"]["h"] == 8


def test_no_password_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = open_storage(f"sqlite:///{tmp_path}/search.db")
    monkeypatch.setattr("diskoop.workflows.search.open_storage", lambda name: database)
    url = "postgresql://host/db?user=ann&password=secret"
    Search("mine", one_trial().model_copy(update={"storage": url}), tmp_path / "out", Quiet())
    written = (tmp_path / "out" / "plan.yaml").read_text()
    assert "storage: postgresql://host/db?user=ann&password=***" in written


def test_a_trial_that_diverges_is_told_and_left(tmp_path: Path) -> None:
    values = PLAN["settings"] | {"spectrum": {"static": 2}, "model": {"k": 6, "h": 8}}
    plan = SearchPlan.of(
        PLAN | {"space": {"train.lr": [100.0], "loss.rec": [1e30, 1e38]}, "settings": values, "sampler": "grid"}
    )
    with pytest.raises(InputError, match="every trial failed, the first one so: training diverged at step"):
        Search("mine", plan, tmp_path / "out", Quiet()).run()


# --- workers that are killed


@POSIX
@pytest.mark.slow
@pytest.mark.parametrize("either", ["sqlite", "journal", "postgresql"], indirect=True)
def test_a_killed_worker_loses_no_trial(
    either: str,  # noqa: F811
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """Two processes; one is killed in the middle of a training, and the other ends the whole search alone."""
    settings = PLAN["settings"] | {"train": {"steps": 150, "save_every": 5, "device": "cpu"}, "spectrum": {"static": 2}}
    changes = {"name": "killed", "space": {"model.k": [6], "loss.eig": {"low": 0.1, "high": 10}}, "heartbeat": 3}
    path = write_plan(tmp_path / "search.yaml", **changes, storage=either, settings=settings, trials=3, pruner="none")
    words = ("search", "-c", str(path), "--out", str(tmp_path / "out"))
    workers = [start(*words, cwd=tmp_path) for _ in range(2)]
    for worker in workers:
        request.addfinalizer(worker.kill)  # where the test fails: they would go on for ever
    lines: dict[int, list[str]] = {worker.pid: [] for worker in workers}
    readers = [threading.Thread(target=lines[worker.pid].extend, args=(worker.stderr,)) for worker in workers]
    for reader in readers:
        reader.start()
    runs = tmp_path / "out" / "trials"
    wait_for(lambda: any(checkpointed(run) for run in runs.glob("0*")), workers[0])
    run, before = next((run, checkpointed(run)) for run in runs.glob("0*") if checkpointed(run))
    queue = TrialQueue(open_storage(either), "killed", SearchPlan.load(path))
    place, _, attempt = run.name.partition("-")
    assert attempt == "0"
    owner = queue.records()[int(place)].worker
    (doomed,) = (worker for worker in workers if f":{worker.pid}" in str(owner))
    (survivor,) = (worker for worker in workers if worker is not doomed)
    doomed.kill()
    assert survivor.wait(timeout=600) == 0
    assert doomed.wait() == -signal.SIGKILL
    for reader in readers:
        reader.join()
    text = "".join(lines[survivor.pid])
    found = queue.records()
    assert [each.state for each in found] == ["complete"] * 3
    assert [each.attempts for each in found] == [1 + (each.name == place) for each in found]
    complete = [each.user_attrs["place"] for each in queue.study.get_trials() if each.state.name == "COMPLETE"]
    assert sorted(complete) == [0, 1, 2]  # none twice
    assert sorted(path.name for path in runs.iterdir()) == ["000", "001", "002"]
    assert f"trial {place} of 3 once more: " in text
    steps = re.search(rf"goes on from the checkpoint in {run}\n(?:  .*\n)*?  (\d+) steps to go", text)
    assert steps is not None, text
    assert int(steps[1]) <= 150 - before
    begun = "".join("".join(each) for each in lines.values())
    assert len(re.findall(r"trial \d+ of 3: ", begun)) == 3


@POSIX
@pytest.mark.slow
def test_a_suspended_worker_spoils_nothing(tmp_path: Path) -> None:
    settings = PLAN["settings"] | {"train": {"steps": 400, "save_every": 5, "device": "cpu"}, "spectrum": {"static": 2}}
    space = {"model.k": [6], "loss.eig": {"low": 0.1, "high": 10}}
    write_plan(tmp_path / "mine.yaml", settings=settings, space=space, trials=1, pruner="none", heartbeat=1)
    runs = tmp_path / "searches" / "mine" / "trials"
    suspended = start("search", "-c", "mine.yaml", cwd=tmp_path)
    wait_for(lambda: checkpointed(runs / "000-0") > 0, suspended)
    suspend(suspended, tmp_path / "searches" / "mine" / "search.db")
    result = diskoop("search", "-c", "mine.yaml", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "trial 000 of 1 once more: " in result.stderr
    whole = contents(runs)
    assert {Path(name).parts[0] for name in whole} == {"000"}
    suspended.send_signal(signal.SIGCONT)
    _, errors = suspended.communicate(timeout=600)
    assert (suspended.returncode, "trial 000 has been taken over by another worker" in errors) == (0, True), errors
    assert contents(runs) == whole


def suspend(process: subprocess.Popen[str], database: Path) -> None:
    """Stop a process at a moment at which it does not hold the lock of its database; who holds that keeps all out."""
    while True:
        process.send_signal(signal.SIGSTOP)
        try:
            with contextlib.closing(sqlite3.connect(database, timeout=0.2)) as connection:
                connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError:
            process.send_signal(signal.SIGCONT)
            time.sleep(0.05)


def checkpointed(run: Path) -> int:
    """The step that a run's checkpoint has come to."""
    path = run / "checkpoint.safetensors"
    return int(read_record(path, "checkpoint")["step"]) if path.exists() else 0
