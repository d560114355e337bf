"""The page over HTTP, for one person: whatever comes from a browser is checked before it is used."""

import asyncio
import base64
import hashlib
import ipaddress
import json
import os
import re
import socket
from collections.abc import Awaitable, Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from ... import inputs
from .sitting import Sitting

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.datastructures import Headers
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"the page needs {error.name}: pip install 'lowregret[play]'", name=error.name) from error

_PAGE = Path(__file__).with_name("page.html")
_LONGEST = 500  # bytes of a request's body: all that is asked for fits in a hundred
_PATIENCE = 10.0  # seconds for a request to come once there is a connection, and for its body
_IDLE = 30  # seconds for the next one
_MOST = 32  # connections at a time: a browser opens six


@lru_cache(maxsize=1)
def page() -> tuple[str, str]:
    """The page, and the policy that lets its own script and style run and nothing else, nor anything be fetched."""
    text = _PAGE.read_text(encoding="utf-8")
    allowed = {}
    for kind in ("script", "style"):
        inside = re.findall(f"<{kind}>(.*?)</{kind}>", text, re.DOTALL)
        digests = (base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in inside)
        allowed[kind] = " ".join(f"'sha256-{digest}'" for digest in digests)
    policy = (
        f"default-src 'none'; script-src {allowed['script']}; style-src {allowed['style']}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text, policy


def application(sitting: Sitting, host: str = "127.0.0.1") -> ASGIApp:
    """The page and its three requests, for browsers that use one of this machine's own names.

    Parameters
    ----------
    host
        The address it listens on.
    """

    async def show(request: Request) -> Response:
        return HTMLResponse(page()[0])

    async def state(request: Request) -> Response:
        return JSONResponse(sitting.state())

    async def move(request: Request) -> Response:
        said = await _said(request, {"game": str, "round": int, "move": str})
        return JSONResponse(sitting.move(said["game"], said["round"], said["move"]))

    async def anew(request: Request) -> Response:
        said = await _said(request, {"game": str, "round": int, "what": str})
        return JSONResponse(sitting.anew(said["game"], said["round"], said["what"]))

    routes = [
        Route("/", show, methods=["GET"]),
        Route("/state", _answering(state), methods=["GET"]),
        Route("/move", _answering(move), methods=["POST"]),
        Route("/new", _answering(anew), methods=["POST"]),
    ]
    return _Door(Starlette(routes=routes), host)


def serve(sitting: Sitting, listening: socket.socket, host: str, ready: Callable[[], None]) -> None:
    """Answer until Ctrl-C; ``ready`` is called once it does."""
    config = uvicorn.Config(
        application(sitting, host),
        http=_Connection,
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=8 * _MOST,  # never seen: the oldest connections are given up before
        backlog=2 * _MOST,
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)

    async def run() -> None:
        answering = asyncio.create_task(server.serve(sockets=[listening]))
        while not server.started and not answering.done():
            await asyncio.sleep(0.01)
        if server.started:
            await asyncio.to_thread(ready)  # a browser may take its time to come back
        await answering

    asyncio.run(run())


def listen(host: str, port: int) -> socket.socket:
    """A socket at this address; port 0: any that is free."""
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET
    except ValueError:
        raise ValueError(f"--host must be an address of this machine, such as 127.0.0.1, got {host!r}") from None
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # elsewhere it would share the port with another program
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise OSError(error.errno, f"cannot listen on {host} port {port}: {error.strerror}") from error
    return listening


def _answering(ask: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Answer refusals, also those of the disk, with a sentence."""

    async def answer(request: Request) -> Response:
        try:
            return await ask(request)
        except ValueError as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        except OSError as error:
            return JSONResponse({"error": str(error.strerror or error)}, status_code=503)

    return answer


async def _said(request: Request, fields: dict[str, type]) -> dict[str, Any]:
    """The JSON object of a request, with these fields and no others."""
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/json":
        raise ValueError(f"the body must be application/json, got {inputs.shown(kind)}")
    body = b""
    try:
        async with asyncio.timeout(_PATIENCE):
            async for part in request.stream():
                body += part
                if len(body) > _LONGEST:
                    raise ValueError(f"the body must have at most {_LONGEST} bytes")
    except TimeoutError:
        raise ValueError(f"the body must come within {_PATIENCE:g} seconds") from None
    try:
        said = json.loads(body.decode(), object_pairs_hook=_once)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise ValueError("the body must be a JSON object in UTF-8") from None
    if not isinstance(said, dict):
        raise ValueError(f"the body must be a JSON object, got {inputs.shown(said)}")
    for name in said:
        if name not in fields:
            raise ValueError(f"{inputs.shown(name)} is not a field: they are {', '.join(fields)}")
    for name, wanted in fields.items():
        if name not in said:
            raise ValueError(f"{name} is missing")
        if wanted is int:
            inputs.whole(said[name], name)
        elif not isinstance(said[name], str):
            raise ValueError(f"{name} must be a text, got {inputs.shown(said[name])}")
    return said


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a field must be given once")
    return dict(pairs)


class _Connection(H11Protocol):
    """A connection that is closed if no request comes, or when there are too many and it was used least.

    A request must be complete in time: single bytes of it do not extend the wait.
    """

    uses = 0  # requests that were answered
    since = 0.0  # when it last did anything
    waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait(_PATIENCE)
        open_ = [one for one in self.connections if isinstance(one, _Connection) and not one.transport.is_closing()]
        if len(open_) > _MOST:
            least = min((one for one in open_ if one is not self), key=lambda one: (one.uses > 0, one.since))
            least.transport.abort()

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self._wait(None)

    def on_response_complete(self) -> None:
        self.uses += 1
        self._wait(_IDLE)  # also for what was sent to be taken
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait(None)
        super().connection_lost(exc)

    def _wait(self, seconds: float | None) -> None:
        """Set how long to wait for a request; None: stop waiting."""
        if self.waiting is not None:
            self.waiting.cancel()
        self.since = self.loop.time()
        self.waiting = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)


class _Door:
    """Which requests are let in, and the headers of every answer.

    A page elsewhere can send a browser here by a name of its own that points to this machine (DNS rebinding): such
    requests carry that name. Or it can post without asking: such requests carry its origin.
    """

    def __init__(self, app: ASGIApp, host: str) -> None:
        self.app, self.host = app, host
        self.headers = {
            "content-security-policy": page()[1],
            "x-content-type-options": "nosniff",
            "x-frame-options": "DENY",
            "referrer-policy": "no-referrer",
            "cross-origin-resource-policy": "same-origin",
            "cross-origin-opener-policy": "same-origin",
            "cache-control": "no-store",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [pair for pair in message["headers"] if pair[0].decode().lower() not in self.headers]
                message = {**message, "headers": kept + [(k.encode(), v.encode()) for k, v in self.headers.items()]}
            await send(message)

        if scope["type"] != "http":
            return
        refused = self._refused(scope["method"], scope["path"], Headers(scope=scope))
        app = self.app if refused is None else PlainTextResponse(f"{refused}\n", status_code=403)
        await app(scope, receive, sent)

    def _refused(self, method: str, path: str, headers: Headers) -> str | None:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or not self._ours(hosts[0]):
            return "Host must be an address of this machine"
        if method not in ("GET", "HEAD") and origins != [f"http://{hosts[0]}"]:
            return "Origin must be this page's own"
        # A link from elsewhere may lead to the page, and to nothing else here.
        foreign = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        if foreign and (path != "/" or method not in ("GET", "HEAD")):
            return "Sec-Fetch-Site must be same-origin"
        return None

    def _ours(self, said: str) -> bool:
        """Whether a Host is one of this machine's names: a number or localhost; any port, since there are tunnels."""
        found = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[0-9A-Za-z.-]+)(:[0-9]{1,5})?", said)
        if found is None:
            return False
        name = found[1].strip("[]").lower()
        if name == "localhost":
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        bound = ipaddress.ip_address(self.host)
        return address.is_loopback or address == bound or bound.is_unspecified
