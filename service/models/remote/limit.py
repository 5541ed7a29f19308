"""Adaptive concurrency: how many requests may be in flight, learnt from how they fare, and the gate there."""

import asyncio
import time
from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True)
class LimitSettings:
    """Additive increase, multiplicative decrease, with a doubling start.

    `largest` and `smallest` bound the limit, `start` is where it begins. Where the server says that it is
    overloaded, the limit is multiplied by `decrease`. Latency says nothing: hard problems take long on an
    idle server too.
    """

    largest: int = 64
    start: int = 16
    smallest: int = 1
    decrease: float = 0.5


class AdaptiveLimit:
    """The limit as a pure state: times are given, nothing is awaited."""

    def __init__(self, settings: LimitSettings) -> None:
        self.settings = settings
        self._value = float(max(settings.smallest, min(settings.start, settings.largest)))
        self._doubling = True
        self._decreased_at = self._overloaded_at = self._paused_until = float("-inf")

    @property
    def value(self) -> int:
        """The number of requests that may be in flight now."""
        return int(self._value)

    def pause_s(self, now: float) -> float:
        """Return how long no request may start, in seconds (0: at once)."""
        return max(0.0, self._paused_until - now)

    def pause_until(self, when: float) -> None:
        """Let no request start before `when`, as a server asked with Retry-After."""
        self._paused_until = max(self._paused_until, when)

    def on_success(self, in_flight: int) -> None:
        """Note an answer. The limit grows only where it was the limit that kept requests waiting."""
        if in_flight >= self._value / 2:
            step = 1.0 if self._doubling else 1.0 / self._value
            self._value = min(float(self.settings.largest), self._value + step)

    def on_overload(self, started: float, now: float) -> bool:
        """Note that the server refused a request for its load; return whether the limit was lowered.

        Requests that were under way before the last decrease say nothing new.
        """
        self._doubling = False
        self._overloaded_at = now
        if started <= self._decreased_at:
            return False
        self._value = max(float(self.settings.smallest), self._value * self.settings.decrease)
        self._decreased_at = now
        return True

    def on_time_out(self, started: float, now: float) -> bool:
        """Note a time-out: a sign of overload only where the server refused others in the meantime."""
        return self._overloaded_at >= started and self.on_overload(started, now)


class Gate:
    """Waiting around an `AdaptiveLimit`. One event loop only."""

    def __init__(self, limit: AdaptiveLimit) -> None:
        self.limit = limit
        self.in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self, stopping: asyncio.Event | None = None) -> None:
        """Wait until another request may start, or `stopping` is set; count it as in flight."""
        while not self._open() and not (stopping is not None and stopping.is_set()):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            self._wake_after_pause()
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._wake()  # the turn that came too late is somebody else's
                elif turn in self._waiting:
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

    def wake_all(self) -> None:
        """Let all that wait see whether they are to stop."""
        for turn in self._waiting:
            if not turn.done():
                turn.set_result(None)
        self._waiting.clear()

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
