"""Adaptive concurrency: how many requests may be in flight, learnt from how they fare, and the gate there."""

import asyncio
import time
from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True)
class LimitSettings:
    """Additive increase, multiplicative decrease, with a doubling start.

    `largest` and `smallest` bound the limit, `start` is where it begins. On congestion (429, time-out) it is
    multiplied by `decrease`. A window is as many answers as the limit; when its mean latency is beyond
    `latency_factor` times the lowest window's while its throughput is no better than the best one's, requests
    only queue at the server, and the limit is multiplied by `latency_decrease`.
    """

    largest: int = 64
    start: int = 16
    smallest: int = 1
    decrease: float = 0.5
    latency_factor: float = 3.0
    latency_decrease: float = 0.8
    forget: float = 0.05  # share by which the remembered best window fades with each new one
    shortest_window: int = 16


class AdaptiveLimit:
    """The limit as a pure state: times are given, nothing is awaited."""

    def __init__(self, settings: LimitSettings) -> None:
        self.settings = settings
        self._value = float(max(settings.smallest, min(settings.start, settings.largest)))
        self._doubling = True
        self._decreased_at = float("-inf")
        self._paused_until = float("-inf")
        self._latencies: list[float] = []
        self._window_load = 0
        self._lowest_latency: float | None = None
        self._best_throughput = 0.0

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

    def on_success(self, started: float, now: float, in_flight: int) -> None:
        """Note an answer. The limit grows only where it was the limit that kept requests waiting."""
        self._latencies.append(now - started)
        self._window_load += in_flight
        if in_flight >= self._value / 2:
            step = 1.0 if self._doubling else 1.0 / self._value
            self._value = min(float(self.settings.largest), self._value + step)
        if len(self._latencies) >= max(self._value, self.settings.shortest_window):
            self._close_window(now)

    def on_congestion(self, started: float, now: float) -> bool:
        """Note a 429 or a time-out; return whether the limit was lowered.

        Requests that were under way before the last decrease say nothing new.
        """
        self._doubling = False
        if started <= self._decreased_at:
            return False
        self._lower(self.settings.decrease, now)
        return True

    def _close_window(self, now: float) -> None:
        latency = sum(self._latencies) / len(self._latencies)
        load = self._window_load / len(self._latencies)
        throughput = load / max(latency, 1e-9)  # Little's law
        settings = self.settings
        lowest = latency if self._lowest_latency is None else min(self._lowest_latency, latency)
        queueing = latency > settings.latency_factor * lowest and throughput <= self._best_throughput
        self._lowest_latency = lowest * (1 + settings.forget)
        self._best_throughput = max(self._best_throughput * (1 - settings.forget), throughput)
        if queueing:
            self._doubling = False
            self._lower(settings.latency_decrease, now)
        self._latencies, self._window_load = [], 0

    def _lower(self, factor: float, now: float) -> None:
        self._value = max(float(self.settings.smallest), self._value * factor)
        self._decreased_at = now
        self._latencies, self._window_load = [], 0


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
