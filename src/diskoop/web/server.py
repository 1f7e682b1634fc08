"""the explorer's web server: its API, its page, and who may talk to it"""

import hmac
import secrets
import signal
import socket
import threading
import webbrowser
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.resources import files
from ipaddress import ip_address
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

import uvicorn
from fastapi import FastAPI, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.exceptions import HTTPException

from diskoop.errors import InputError, ResourceError, quoted
from diskoop.memory import memory_sentence
from diskoop.stop_signals import stop_signals
from diskoop.web.edits import EditRequest
from diskoop.web.library import MAX_PAGE, without_options
from diskoop.web.media import KINDS, download, speech_wav, to_payload
from diskoop.web.session import Session

LOOPBACK = ("127.0.0.1", "localhost", "::1")
MAX_UPLOAD = 512 * 2**20  # bytes
MAX_STAGES = 12
PAGE_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
# A page may load what this server gives it and nothing else.
POLICY = "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"


class Renaming(BaseModel):
    """Names of factors: {old: new}."""

    model_config = ConfigDict(extra="forbid")

    names: dict[str, str]


def create_app(session: Session, token: str | None = None, hosts: tuple[str, ...] = LOOPBACK) -> FastAPI:
    """The explorer as an ASGI application.

    Args:
        session: the run that is explored.
        token: a secret that every request must know; None: requests come from this machine alone.
        hosts: names under which a browser may ask for it. Another name means that a foreign page has pointed its own
            at this machine.
    """
    app = FastAPI(title="diskoop explorer", docs_url=None, redoc_url=None, openapi_url=None)
    _add_guard(app, token, hosts)
    _add_errors(app)
    _add_pages(app, session)
    _add_edits(app, session)
    return app


def _add_guard(app: FastAPI, token: str | None, hosts: tuple[str, ...]) -> None:
    """Let only those in who may ask, and tell browsers what the page may load."""

    @app.middleware("http")
    async def guard(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        refusal = _refusal(request, hosts, token is not None)
        if refusal is not None:
            return _sentence(refusal, 403)
        if token is not None:
            given = request.query_params.get("token", "")
            if given and hmac.compare_digest(given.encode(), token.encode()) and request.method == "GET":
                answer: Response = RedirectResponse("/", 303)  # so that the token leaves the address
                answer.set_cookie(_cookie(request), token, httponly=True, samesite="lax")
                return answer
            if not hmac.compare_digest(request.cookies.get(_cookie(request), "").encode(), token.encode()):
                return _sentence("this explorer needs the token that it printed when it started", 401)
        answer = await call_next(request)
        answer.headers["Content-Security-Policy"] = POLICY
        answer.headers["X-Content-Type-Options"] = "nosniff"
        answer.headers.setdefault("Cache-Control", "no-store")
        return answer


def _add_errors(app: FastAPI) -> None:
    """Bad input, what the machine lacks, and mistakes of our own are answered with one sentence."""

    @app.exception_handler(InputError)
    async def bad_input(_: Request, error: InputError) -> Response:
        return _sentence(without_options(str(error)), 422)

    @app.exception_handler(ResourceError)
    async def lack(_: Request, error: ResourceError) -> Response:
        return _sentence(str(error), 507)

    @app.exception_handler(MemoryError)
    async def no_memory(_: Request, error: MemoryError) -> Response:
        return _sentence(memory_sentence(error), 507)

    @app.exception_handler(RequestValidationError)
    async def bad_request(_: Request, error: RequestValidationError) -> Response:
        return _sentence(_first_problem(error.errors()), 422)

    @app.exception_handler(HTTPException)  # no such page, another method, JSON that is nested too deeply
    async def refused(request: Request, error: HTTPException) -> Response:
        return _sentence(f"{request.method} {request.url.path}: {error.detail.lower()}", error.status_code)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        return _sentence(f"{request.url.path} failed with {type(error).__name__}; the terminal says more", 500)


def _add_pages(app: FastAPI, session: Session) -> None:
    """The page, and what there is to see: the run, its clips, maps and training."""

    @app.get("/")
    def index() -> Response:
        return _page_file("index.html")

    @app.get("/page/{name}")
    def page(name: str) -> Response:
        return _page_file(name)

    @app.get("/api/run")
    def run() -> dict[str, Any]:
        return session.facts()

    @app.get("/api/verdict")
    def verdict() -> dict[str, Any]:
        return session.verdict()

    @app.get("/api/splits")
    def splits() -> dict[str, Any]:
        sizes = session.library.splits()
        labels = {name: session.library.label_values(name) for name in sizes}
        return {"splits": sizes, "labels": labels, "problem": session.library.problem}

    @app.get("/api/clips")
    def clips(
        request: Request,
        split: str,
        first: Annotated[int, Query(ge=0)] = 0,
        count: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 24,
        text: str = "",
    ) -> dict[str, Any]:
        given = request.query_params.items()
        labels = {key.removeprefix("label."): value for key, value in given if key.startswith("label.")}
        return session.library.listing(split, first, count, labels, text)

    @app.get("/api/map")
    def map_(split: str, factor: str = "static") -> dict[str, Any]:
        return session.map(split, factor)

    @app.get("/api/training")
    def training() -> dict[str, Any]:
        return session.training()


def _add_edits(app: FastAPI, session: Session) -> None:
    """What can be made of clips and changed: edits, names, uploads."""

    @app.post("/api/edit")
    def edit(edit: EditRequest) -> dict[str, Any]:
        return _edited(session, edit)

    @app.post("/api/stages")
    def stages(edit: EditRequest, count: Annotated[int, Query(ge=2, le=MAX_STAGES)] = 5) -> dict[str, Any]:
        units = session.run.units
        made = session.editor.stages(edit, count)
        return {"stages": [{"caption": each.caption, "view": to_payload(each.x, units)} for each in made]}

    @app.get("/api/sound")
    def play(edit: str) -> Response:
        made = session.editor.apply(_parse_edit(edit))
        if session.run.units.rate is None:
            raise InputError("this run's sequences are no sound")
        return Response(speech_wav(made.x), media_type=KINDS["wav"])

    @app.get("/api/download")
    def save(edit: str, suffix: str) -> Response:
        made = session.editor.apply(_parse_edit(edit))
        content = download(made.x, session.run.units, suffix)
        name = quote(f"{made.caption[:120]}.{suffix}", safe="")
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
        return Response(content, media_type=KINDS[suffix], headers=headers)

    @app.post("/api/rename")
    def rename(renaming: Renaming) -> dict[str, Any]:
        return session.rename(renaming.names)

    @app.post("/api/undo")
    def undo() -> dict[str, Any]:
        return session.undo()

    @app.post("/api/upload")
    async def upload(request: Request, name: str) -> dict[str, Any]:
        declared = request.headers.get("content-length", "")
        too_large = f"expected a file of at most {MAX_UPLOAD // 2**20} MB"
        if declared.isdecimal() and int(declared) > MAX_UPLOAD:
            raise InputError(f"{too_large}, got {int(declared) // 2**20} MB")
        content = bytearray()
        async for piece in request.stream():
            content += piece
            if len(content) > MAX_UPLOAD:
                raise InputError(f"{too_large}, got more")
        return {"clips": await run_in_threadpool(session.library.upload, name, bytes(content))}


def _edited(session: Session, edit: EditRequest) -> dict[str, Any]:
    made = session.editor.apply(edit)
    return {
        "caption": made.caption,
        "view": to_payload(made.x, session.run.units),
        "shell": made.shell,
        "python": made.python,
        "forecast_from": made.forecast_from,
    }


def _parse_edit(text: str) -> EditRequest:
    """An edit in the address of a file."""
    try:
        return EditRequest.model_validate_json(text)
    except ValidationError as error:
        raise InputError(_first_problem(error.errors())) from None


def _first_problem(errors: Any) -> str:
    """The first of pydantic's errors as a sentence."""
    first = errors[0]
    message = first["msg"] if first["msg"][1].isupper() else f"{first['msg'][0].lower()}{first['msg'][1:]}"
    if first["type"] == "json_invalid":
        return f"the request: {message}"
    place = ".".join(str(part) for part in first["loc"] if part not in ("body", "query"))
    got = "" if first["type"] == "missing" else f", got {quoted(first.get('input'), 60)}"
    return f"{place or 'the request'}: {message}{got}"


def _refusal(request: Request, hosts: tuple[str, ...], is_exposed: bool) -> str | None:
    """Why a request is refused; None: it is not.

    A foreign page may have its own name point at this machine, but then it asks under that name, not under an address.
    """
    host = urlsplit(f"//{request.headers.get('host', '')}").hostname
    if host not in [name.lower() for name in hosts] and not (is_exposed and _is_address(host)):
        return f"expected a request to {' or '.join(hosts)}, got {host!r}"
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        return f"expected a request from this explorer's own page, got one from {origin!r}"
    return None


def _cookie(request: Request) -> str:
    """The name of the cookie that holds the token: one for each port, since browsers do not tell ports apart."""
    return f"diskoop-token-{request.url.port}"


def _is_address(host: str | None) -> bool:
    try:
        ip_address(host or "")
    except ValueError:
        return False
    return True


def _sentence(text: str, status: int) -> Response:
    return JSONResponse({"error": text}, status)


def _page_file(name: str) -> Response:
    """A file of the page, all of which are in the package; no path leads out of there."""
    known = {entry.name: entry for entry in files("diskoop.web").joinpath("page").iterdir()}
    suffix = f".{name.rpartition('.')[2]}"
    if name not in known or suffix not in PAGE_TYPES:
        return _sentence(f"there is no page {name!r}", 404)
    return Response(known[name].read_bytes(), media_type=f"{PAGE_TYPES[suffix]}; charset=utf-8")


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens on `port`, or on any free one where it is 0."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise InputError(f"cannot listen on {host}, port {port}: {error.strerror or error}") from None
    return listening


class Explorer:
    """A server that shows a session.

    Args:
        session: the run.
        host: the address to listen on.
        port: 0 takes a free one.
        is_exposed: whether other machines may ask; they need a token then.
    """

    def __init__(self, session: Session, host: str = LOOPBACK[0], port: int = 0, is_exposed: bool = False) -> None:
        if host not in LOOPBACK and not is_exposed:
            raise InputError(
                f"{host} can be reached from other machines; --expose allows that to whoever knows the token it prints"
            )
        self.token = secrets.token_urlsafe(24) if is_exposed else None
        self._socket = bind(host, port)
        self.host, self.port = host, int(self._socket.getsockname()[1])
        names = (*LOOPBACK, host, socket.gethostname())
        config = uvicorn.Config(create_app(session, self.token, names), log_level="warning", access_log=False)
        self._server = uvicorn.Server(config)

    @property
    def url(self) -> str:
        """The address to open, with the token where one is needed."""
        shown = socket.gethostname() if self.host in ("0.0.0.0", "::") else self.host
        address = f"http://{f'[{shown}]' if ':' in shown else shown}:{self.port}/"
        return address if self.token is None else f"{address}?token={self.token}"

    def serve(self, opens_browser: bool = False) -> None:
        """Answer requests until Ctrl-C or `stop`."""
        if opens_browser:
            # The socket listens already, so what the browser asks waits until it is answered.
            threading.Thread(target=webbrowser.open, args=[self.url], daemon=True).start()
        with suppress(ValueError):  # not in the main thread
            for number in set(stop_signals()) - {signal.SIGINT, signal.SIGTERM}:  # which the server handles itself
                signal.signal(number, lambda *_: self.stop())
        with suppress(KeyboardInterrupt):  # the usual way to end it
            self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """End `serve`, from another thread."""
        self._server.should_exit = True
