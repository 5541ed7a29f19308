"""The gate in front of Streamlit: hosts, origins, the password and headers, for HTTP and WebSocket."""

import base64
import hashlib
import re
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.web import is_loopback
from ui.pages.server.signing_in import SESSION_S, TOKEN, Attempts, Lock, Sessions, login_page, logout_page

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")

LOGIN, LOGOUT = "/login", "/logout"

MAX_BODY = 8 * 1024

_REFUSED_SOCKET = 4403
_UNSAFE = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_NOT_STORED = {"cache-control": "no-store"}


def server_names(host: str, more: Iterable[str] = ()) -> frozenset[str]:
    """Return the names and addresses under which clients may reach a server on `host`."""
    names = {*LOOPBACK_NAMES, *more, host}
    if not is_loopback(host):
        import psutil

        own = socket.gethostname()
        names |= {own, own.split(".")[0], f"{own.split('.')[0]}.local"}
        names |= {
            address.address.split("%")[0]
            for addresses in psutil.net_if_addrs().values()
            for address in addresses
            if address.family in (socket.AF_INET, socket.AF_INET6)
        }
    return frozenset(_plain(name) for name in names if name not in ("0.0.0.0", "::", ""))


def name_of(host_header: str) -> str | None:
    """Return the name in a Host header without its port; None if it is malformed."""
    try:
        parts = urlsplit(f"//{host_header}")
        _ = parts.port  # raises ValueError if it is not a number
    except ValueError:
        return None
    plain = parts.netloc == host_header and "@" not in host_header
    return _plain(parts.hostname) if plain and parts.hostname else None


def _plain(name: str) -> str:
    return name.strip("[]").lower().rstrip(".")


def security_headers(inline_scripts: Iterable[str]) -> dict[str, str]:
    """Return the headers of every response.

    The Content-Security-Policy lets a page load from this server only, so text that slips through the
    escaping reaches nothing. Streamlit loads components by `blob:` scripts; the scripts in its own page are
    named by their hashes; styles are set at run time.
    """
    digests = (hashlib.sha256(script.encode("utf-8")).digest() for script in inline_scripts)
    hashes = "".join(f" 'sha256-{base64.b64encode(digest).decode('ascii')}'" for digest in digests)
    return {
        "content-security-policy": (
            f"default-src 'none'; script-src 'self' blob:{hashes}; style-src 'self' 'unsafe-inline'; "
            "img-src 'self' data: blob:; font-src 'self' data:; media-src 'self' data: blob:; "
            "connect-src 'self'; worker-src 'self' blob:; manifest-src 'self'; frame-src 'none'; "
            "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
        ),
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "same-origin",  # with no-referrer, forms are sent with the origin "null"
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    }


def streamlit_scripts() -> list[str]:
    from streamlit.file_util import get_static_dir

    page = Path(get_static_dir(), "index.html").read_text(encoding="utf-8")
    return re.findall(r"<script(?![^>]*\ssrc=)[^>]*>(.*?)</script>", page, re.DOTALL)


class Gate:
    """ASGI middleware around everything that the server answers.

    It refuses requests under a host name that is not this server's (DNS rebinding), sockets and writing
    requests from other origins, and, if there is a `lock`, requests without its secret. Every response
    carries `headers`.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        names: Iterable[str],
        headers: Mapping[str, str],
        lock: Lock | None = None,
        cookie: str = "tagrpo_ui",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._names = frozenset(names)
        self._headers = headers
        self._lock = lock
        self._by_address = lock is not None and lock.by_address
        self._word = "token" if self._by_address else "password"
        self._cookie = cookie
        self._sessions, self._attempts = Sessions(clock), Attempts(clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request pass, ask for the password, or refuse."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        if scope["type"] == "http":
            response = await self._respond(Request(scope, receive))
            await (response or self._app)(scope, receive, send_with_headers)
        elif scope["type"] == "websocket" and not self._admits_socket(HTTPConnection(scope)):
            await receive()  # websocket.connect
            await send({"type": "websocket.close", "code": _REFUSED_SOCKET})
        else:
            await self._app(scope, receive, send)

    def _admits_socket(self, request: HTTPConnection) -> bool:
        return not self._refusal(request, writing=True) and self._signed_in(request)

    async def _respond(self, request: Request) -> Response | None:
        """Return the gate's own response; None lets the request pass."""
        path, reads = request.scope["path"], request.method == "GET"
        if refusal := self._refusal(request, writing=request.method in _UNSAFE):
            return PlainTextResponse(refusal, 403)
        if self._lock is None:
            return None
        if path == LOGIN:
            return await self._login(request)
        if path == LOGOUT:
            return self._logout(request)
        if reads and self._by_address and TOKEN in request.query_params:
            return self._enter(request)
        if self._signed_in(request):
            return None
        if reads and "text/html" in request.headers.get("accept", ""):
            query = request.url.query
            return _redirect(f"{LOGIN}?{urlencode({'next': path + (f'?{query}' if query else '')})}")
        return PlainTextResponse("Sign in first.", 401)

    def _refusal(self, request: HTTPConnection, *, writing: bool) -> str | None:
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or name_of(hosts[0]) not in self._names:
            return "The server does not accept this host name. Start it with --allow-host NAME to add one."
        origin, host = request.headers.get("origin", "").lower(), hosts[0].lower()
        if writing and origin and origin not in (f"http://{host}", f"https://{host}"):
            return "This request comes from a page of another server."
        return None

    def _signed_in(self, request: HTTPConnection) -> bool:
        return self._lock is None or self._sessions.knows(request.cookies.get(self._cookie, ""))

    def _enter(self, request: Request) -> Response:
        """Sign in a browser that opens the printed address, and remove the token from the address."""
        fields = request.query_params.multi_items()
        query = urlencode([(name, value) for name, value in fields if name != TOKEN])
        following = _local(request.scope["path"] + (f"?{query}" if query else ""))
        if self._signed_in(request):
            return _redirect(following)
        return self._check(request, request.query_params[TOKEN], following)

    async def _login(self, request: Request) -> Response:
        if request.method != "POST":
            return self._form(_local(request.query_params.get("next", "/")))
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY:
                body = b""
                break
        form = dict(parse_qsl(body.decode("utf-8", "replace")))
        return self._check(request, form.get("password", ""), _local(form.get("next", "/")))

    def _check(self, request: Request, sent: str, following: str) -> Response:
        """Let in browsers with the password; throttle addresses after failed attempts."""
        address = request.client.host if request.client else "unknown"
        # Tokens cannot be guessed: counting attempts would only let one user of a node lock out others.
        wait = 0.0 if self._by_address else self._attempts.wait_s(address)
        if wait > 0:
            message = f"Too many wrong {self._word}s. Try again in {wait:.0f} seconds."
            response = self._form(following, message, 429)
            response.headers["retry-after"] = str(int(wait + 1))
        elif self._lock is not None and self._lock.opens(sent):
            response = _redirect(following)
            response.set_cookie(
                self._cookie,
                self._sessions.new(),
                max_age=SESSION_S,
                secure=request.url.scheme == "https",
                httponly=True,
                samesite="lax",
            )
        else:
            self._attempts.wrong(address)
            response = self._form(following, f"The {self._word} is wrong.", 401)
        return response

    def _form(self, following: str, message: str = "", status: int = 200) -> Response:
        page = login_page(LOGIN, following, message, by_address=self._by_address)
        return HTMLResponse(page, status, _NOT_STORED)

    def _logout(self, request: Request) -> Response:
        if request.method != "POST":  # a link from another site must not sign out
            return HTMLResponse(logout_page(LOGOUT), headers=_NOT_STORED)
        self._sessions.end(request.cookies.get(self._cookie, ""))
        response = _redirect(LOGIN)
        response.delete_cookie(self._cookie)
        return response


def _local(target: str) -> str:
    """Return a place on this server: never another one (`//elsewhere`), nor one that splits a header."""
    fine = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()
    return target if fine and len(target) < 2000 else "/"


def _redirect(target: str) -> Response:
    return RedirectResponse(target, 303, _NOT_STORED)
