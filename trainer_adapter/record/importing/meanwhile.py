"""Importing the record of a training while it runs, beside what waits for it."""

import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from service.database import Database
from service.errors import InputError
from trainer_adapter.record.importing.watching import watch_rollouts

_AGAIN_S = 30.0


class ImportMeanwhile:
    """Imports new rollouts of a folder in a thread, and what is left at the end.

    What goes wrong is told once, at the end, and stops nothing: the folder can be imported later.
    """

    def __init__(
        self, open_database: Callable[[], Database], folder: Path, tell: Callable[[str], None]
    ) -> None:
        self._open, self._folder, self._tell = open_database, folder, tell
        self._ended = threading.Event()
        self._problem: Exception | None = None
        # A daemon: whoever does not wait for the end, as at a second Ctrl-C, loses nothing but time.
        self._thread = threading.Thread(target=self._import, name="import of rollouts", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        if self._problem is not None:
            self._tell(
                f"not all rollouts were imported ({self._problem}); `tagrpo rollouts import {self._folder}` "
                "does it"
            )

    def _import(self) -> None:
        while not self._ended.is_set():
            self._take_in(idle_s=None)
            self._ended.wait(_AGAIN_S)  # where it ended before its time
        self._take_in(idle_s=0.0)

    def _take_in(self, *, idle_s: float | None) -> None:
        """Import until the training has ended, or what is there; keep what went wrong last."""
        self._problem = None
        try:
            with self._open() as database:
                for outcome in watch_rollouts(database, self._folder, idle_s=idle_s, stop=self._ended):
                    if isinstance(outcome, InputError):
                        self._problem = outcome
        except Exception as error:  # a full disk, a server that is gone: training goes on
            self._problem = error
