"""Telling how far long work is: the callables it takes, which commands fill with a bar."""

from collections.abc import Callable
from typing import Protocol

TellProgress = Callable[[int, int], None]
"""Told how much is done, and of how much."""


class TellStage(Protocol):
    """Told what is being done, how much of it is done, of how much (None: nobody knows), and a few words."""

    def __call__(self, stage: str, done: int, total: int | None, detail: str = "") -> None: ...


def tell_nobody(stage: str, done: int, total: int | None, detail: str = "") -> None:
    """A `TellStage` that shows nothing."""
