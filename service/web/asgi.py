"""What middleware of the servers shares: the types of ASGI, reading a header, sending a whole response."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]


def header(scope: Scope, name: bytes) -> str:
    """Return a header of a request; "" where there is none, or several that may not be joined."""
    values = [value for key, value in scope["headers"] if key.lower() == name]
    return b"; ".join(values).decode("latin-1") if name == b"cookie" or len(values) == 1 else ""


async def send_whole(send: Send, status: int, body: bytes, headers: Headers) -> None:
    """Send a response with its length."""
    length = (b"content-length", str(len(body)).encode("ascii"))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})
