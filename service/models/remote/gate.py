"""Lets as many requests through at once as the adaptive limit allows."""

import asyncio
import time
from collections import deque

from service.models.remote.limit import AdaptiveLimit


class Gate:
    """Waiting around an `AdaptiveLimit`. One event loop only."""

    def __init__(self, limit: AdaptiveLimit) -> None:
        self.limit = limit
        self.in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> None:
        """Wait until another request may start, and count it as in flight."""
        while not self._open():
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            self._wake_after_pause()
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._wake()  # the turn that came too late is somebody else's
                else:
                    self._waiting.remove(turn)
                raise
        self.in_flight += 1

    def leave(self) -> None:
        """Count a request as no longer in flight."""
        self.in_flight -= 1
        self._wake()

    def pause(self, seconds: float) -> None:
        """Let no request start for some time."""
        self.limit.pause_until(time.monotonic() + seconds)

    def _open(self) -> bool:
        return self.in_flight < self.limit.value and self.limit.pause_s(time.monotonic()) == 0

    def _wake_after_pause(self) -> None:
        pause = self.limit.pause_s(time.monotonic())
        if pause > 0:
            asyncio.get_running_loop().call_later(pause + 0.001, self._wake)

    def _wake(self) -> None:
        room = self.limit.value - self.in_flight
        while self._waiting and room > 0:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                room -= 1
