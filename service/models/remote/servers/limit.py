"""Adaptive concurrency: how many requests may be in flight at a server, learnt from how they fare."""

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
