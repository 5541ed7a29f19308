"""Stopping an engine between two steps, when the user or the machine asks for it."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = "interrupted"
"""Why a pass of filling stopped: see `service.runs.filling.Filled.stopped`."""


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """Give an event that SIGINT or SIGTERM sets; a second signal does what it did before.

    Outside the main thread, where Python delivers no signals, the event is only the caller's to set.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    earlier = {which: signal.getsignal(which) for which in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for which, handler in earlier.items():
            signal.signal(which, handler)

    def ask(_number: int, _frame: FrameType | None) -> None:
        stop.set()
        restore()

    for which in earlier:
        signal.signal(which, ask)
    try:
        yield stop
    finally:
        restore()
