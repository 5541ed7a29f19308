"""The gate in front of Streamlit: hosts, origins, the password and headers, for HTTP and WebSocket."""

from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, parse_qsl, quote, urlencode

from service.web.asgi import Asgi, Headers, Message, Receive, Scope, Send, header, send_whole
from ui.pages.server.headers import name_of, same_origin
from ui.pages.server.signing_in import SESSION_S, Attempts, Password, Sessions, login_page, logout_page

LOGIN, LOGOUT = "/login", "/logout"
TOKEN = "token"
"""Address parameter that contains the token, if the server created one."""

MAX_BODY = 8 * 1024

_REFUSED_SOCKET = 4403
_UNSAFE = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Gate:
    """ASGI middleware around everything that the server answers.

    It refuses requests under a host name that is not this server's (DNS rebinding), sockets and writing
    requests from other origins, and, if there is a password, requests without it. A token is a password that
    may be in the address (`by_address`), as notebooks print it. Every response carries `headers`.
    """

    def __init__(
        self,
        app: Asgi,
        *,
        names: Iterable[str],
        headers: Headers,
        password: Password | None = None,
        by_address: bool = False,
        cookie: str = "tagrpo_ui",
        sessions: Sessions | None = None,
        attempts: Attempts | None = None,
    ) -> None:
        self._app = app
        self._names = frozenset(names)
        self._headers = headers
        self._password, self._by_address = password, by_address
        self._cookie = cookie
        self._sessions = sessions or Sessions()
        self._attempts = attempts or Attempts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request pass, ask for the password, or refuse."""
        if scope["type"] == "http":
            await self._http(scope, receive, self._with_headers(send))
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope, writing=scope["method"] in _UNSAFE)
        path = scope["path"]
        if refusal:
            await _respond(send, 403, refusal)
        elif self._password is None:
            await self._app(scope, receive, send)
        elif path == LOGIN:
            await self._login(self._password, scope, receive, send)
        elif path == LOGOUT:
            await self._logout(scope, send)
        elif scope["method"] == "GET" and (token := self._token(scope)) is not None:
            await self._enter(self._password, token, scope, send)
        elif self._signed_in(scope):
            await self._app(scope, receive, send)
        elif scope["method"] == "GET" and "text/html" in header(scope, b"accept"):
            await _redirect(send, f"{LOGIN}?next={quote(_here(scope), safe='')}")
        else:
            await _respond(send, 401, "Sign in first.")

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._refusal(scope, writing=True) or not (self._password is None or self._signed_in(scope)):
            await receive()  # websocket.connect
            await send({"type": "websocket.close", "code": _REFUSED_SOCKET})
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope, *, writing: bool) -> str | None:
        host = header(scope, b"host")
        if name_of(host) not in self._names:
            return "The server does not accept this host name. Start it with --allow-host NAME to add one."
        origin = header(scope, b"origin")
        if writing and origin and not same_origin(origin, host):
            return "This request comes from a page of another server."
        return None

    def _signed_in(self, scope: Scope) -> bool:
        token = _cookie(header(scope, b"cookie"), self._cookie)
        return token is not None and self._sessions.knows(token)

    def _token(self, scope: Scope) -> str | None:
        """Return the token in the address, if one is allowed there."""
        fields = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        return fields.get(TOKEN, [None])[0] if self._by_address else None

    async def _enter(self, password: Password, token: str, scope: Scope, send: Send) -> None:
        """Sign in a browser that opens the printed address, and remove the token from the address."""
        fields = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        query = urlencode([(name, value) for name, value in fields if name != TOKEN])
        following = _local(f"{scope['path']}?{query}" if query else str(scope["path"]))
        if self._signed_in(scope):
            await _redirect(send, following)
        else:
            await self._answer(password, token, following, scope, send)

    async def _login(self, password: Password, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            asked = parse_qs(scope["query_string"].decode("latin-1")).get("next", ["/"])[0]
            await _page(send, 200, self._form(_local(asked)))
            return
        form = await _form(receive)
        await self._answer(password, form.get("password", ""), _local(form.get("next", "/")), scope, send)

    async def _answer(self, password: Password, sent: str, following: str, scope: Scope, send: Send) -> None:
        """Let in browsers with the password; throttle addresses after failed attempts."""
        address = (scope.get("client") or ("unknown",))[0]
        # Tokens cannot be guessed: counting attempts would only let one user of a node lock out others.
        wait = 0.0 if self._by_address else self._attempts.wait_s(address)
        if wait > 0:
            message = f"Too many wrong {self._word}s. Try again in {wait:.0f} seconds."
            await _page(send, 429, self._form(following, message), [(b"retry-after", b"%d" % (wait + 1))])
        elif password.matches(sent):
            cookie = self._set_cookie(scope, self._sessions.new(), SESSION_S)
            await _redirect(send, following, [(b"set-cookie", cookie)])
        else:
            self._attempts.wrong(address)
            await _page(send, 401, self._form(following, f"This is not the {self._word}."))

    @property
    def _word(self) -> str:
        return "token" if self._by_address else "password"

    def _form(self, following: str, message: str = "") -> bytes:
        return login_page(LOGIN, following, message, by_address=self._by_address)

    async def _logout(self, scope: Scope, send: Send) -> None:
        if scope["method"] != "POST":  # a link from another site must not sign out
            await _page(send, 200, logout_page(LOGOUT))
            return
        token = _cookie(header(scope, b"cookie"), self._cookie)
        if token:
            self._sessions.end(token)
        await _redirect(send, LOGIN, [(b"set-cookie", self._set_cookie(scope, "", 0))])

    def _set_cookie(self, scope: Scope, token: str, max_age: int) -> bytes:
        secure = "; Secure" if scope.get("scheme") == "https" else ""
        text = f"{self._cookie}={token}; Path=/; Max-Age={max_age}; HttpOnly; SameSite=Lax{secure}"
        return text.encode("ascii")

    def _with_headers(self, send: Send) -> Send:
        names = {name for name, _ in self._headers}

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [pair for pair in message.get("headers", ()) if pair[0].lower() not in names]
                message = {**message, "headers": [*kept, *self._headers]}
            await send(message)

        return sending


def _cookie(header: str, name: str) -> str | None:
    try:
        morsel = SimpleCookie(header).get(name)
    except CookieError:
        return None
    return None if morsel is None else morsel.value


def _here(scope: Scope) -> str:
    query = scope["query_string"].decode("latin-1")
    return str(scope["path"]) + (f"?{query}" if query else "")


def _local(target: str) -> str:
    """Return a place on this server: never another one (`//elsewhere`), nor one that splits a header."""
    fine = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()
    return target if fine and len(target) < 2000 else "/"


async def _form(receive: Receive) -> dict[str, str]:
    body = b""
    while len(body) <= MAX_BODY:
        message = await receive()
        body += message.get("body", b"")
        if message["type"] == "http.disconnect" or not message.get("more_body"):
            break
    if len(body) > MAX_BODY:
        return {}
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=10)
    return {name: values[0] for name, values in fields.items()}


async def _respond(send: Send, status: int, words: str) -> None:
    await send_whole(send, status, words.encode("utf-8"), [(b"content-type", b"text/plain; charset=utf-8")])


async def _page(send: Send, status: int, body: bytes, headers: Headers | None = None) -> None:
    more: Headers = [(b"content-type", b"text/html; charset=utf-8"), (b"cache-control", b"no-store")]
    await send_whole(send, status, body, [*more, *(headers or [])])


async def _redirect(send: Send, target: str, headers: Headers | None = None) -> None:
    location = quote(target, safe="/?&=%:@!$'()*+,;~-._").encode("ascii")
    await send_whole(
        send, 303, b"", [(b"location", location), (b"cache-control", b"no-store"), *(headers or [])]
    )
