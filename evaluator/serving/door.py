"""Who may ask: the token, and the count of every request, before anything else."""

import base64
import binascii
import hmac
import time

from evaluator.serving.metrics import Metrics
from service.web.asgi import Asgi, Message, Receive, Scope, Send

OPEN = frozenset({"/health"})
"""Routes that ask for no token: whether a server is there is what load balancers look at."""

_REFUSAL = b'{"error":"give the token: Authorization: Bearer TOKEN, or http://tagrpo:TOKEN@HOST:PORT."}'


class Door:
    """ASGI middleware: refuses requests without the token (None lets everybody in) and counts the answers.

    A token may come as `Authorization: Bearer`, or as the password of an address (Basic), for trainers that
    take an address and no headers.
    """

    def __init__(self, app: Asgi, *, token: str | None, metrics: Metrics, routes: frozenset[str]) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._metrics = metrics
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let through or refuse."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500
        route = scope["path"] if scope["path"] in self._routes else "other"

        async def counting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            if self._may_enter(scope):
                await self._app(scope, receive, counting)
            else:
                headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Basic")]
                await counting({"type": "http.response.start", "status": 401, "headers": headers})
                await counting({"type": "http.response.body", "body": _REFUSAL})
        finally:
            self._metrics.answered(route, status, time.perf_counter() - began)

    def _may_enter(self, scope: Scope) -> bool:
        if self._token is None or scope["path"] in OPEN:
            return True
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, credentials = given.partition(b" ")
        if scheme.lower() == b"basic":
            try:
                credentials = base64.b64decode(credentials, validate=True).partition(b":")[2]
            except binascii.Error:
                return False
        return hmac.compare_digest(credentials.strip(), self._token)
