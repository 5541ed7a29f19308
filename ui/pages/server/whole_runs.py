"""Send what a run of a page draws at once: the browser walks through the whole page for every message."""

import asyncio
from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

HOLD_S = 0.15
"""Seconds after which a page that takes longer is shown as far as it is, such as a spinner."""


class WholeRuns:
    """ASGI middleware that holds the WebSocket messages of a run until it has ended."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, _HeldMessages(send) if scope["type"] == "websocket" else send)


class _HeldMessages:
    """The messages to one browser: those between the start and the end of a run wait."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._held: list[Message] = []
        self._running = False
        self._in_order = asyncio.Lock()
        self._timer: asyncio.Task[None] | None = None

    async def __call__(self, message: Message) -> None:
        """Hold a message, or send it after those that were held."""
        self._held.append(message)
        if self._holds(message):
            self._timer = self._timer or asyncio.create_task(self._release_later())
        else:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            await self._release()

    def _holds(self, message: Message) -> bool:
        if message["type"] != "websocket.send":
            return False
        content = ForwardMsg.FromString(message["bytes"])
        match content.WhichOneof("type"):
            case "new_session":
                self._running = True
            case "session_status_changed":
                self._running = content.session_status_changed.script_is_running
            case _:
                return self._running
        return False

    async def _release(self) -> None:
        async with self._in_order:
            while self._held:
                await self._send(self._held.pop(0))

    async def _release_later(self) -> None:
        await asyncio.sleep(HOLD_S)
        self._timer = None
        with suppress(OSError):  # the browser has gone
            await self._release()
