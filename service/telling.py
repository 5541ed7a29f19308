"""Telling how far long work is: the callables it takes, which commands fill with a bar, and durations."""

from collections.abc import Callable
from typing import Protocol

TellProgress = Callable[[int, int], None]
"""Told how much is done, and of how much."""


class TellStage(Protocol):
    """Told what is being done, how much of it is done, of how much (None: nobody knows), and a few words."""

    def __call__(self, stage: str, done: int, total: int | None, detail: str = "") -> None: ...


def tell_nobody(stage: str, done: int, total: int | None, detail: str = "") -> None:
    """A `TellStage` that shows nothing."""


def duration(minutes: float) -> str:
    """Return minutes in a readable form: 40 s, 12 min, 3 h 20 min, 2 days 4 h."""
    if minutes < 1:
        return f"{max(1, round(60 * minutes))} s"
    whole = round(minutes)
    if whole < 60:
        return f"{whole} min"
    if whole < 48 * 60:
        return f"{whole // 60} h {whole % 60} min"
    return f"{whole // 1440} days {whole % 1440 // 60} h"
