"""Stopping when the user or the machine asks for it: between two steps, or once what is paid for has come."""

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

INTERRUPTED = "interrupted"
"""Why a pass of filling stopped: see `service.runs.filling.Filled.stopped`."""


@contextlib.contextmanager
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


@contextlib.contextmanager
def finish_on_interrupt(interrupt: Callable[[], bool]) -> Iterator[None]:
    """Within an event loop, let the first Ctrl-C call `interrupt`; a second one ends the process as ever.

    So does the first where `interrupt` returns False: nothing was in flight. Outside of the main thread, and
    where the platform's loop takes no handlers, Ctrl-C stays as it is.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGINT)

    def give_back() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)

    def on_signal() -> None:
        give_back()
        if not interrupt():
            signal.raise_signal(signal.SIGINT)

    try:
        loop.add_signal_handler(signal.SIGINT, on_signal)
    except NotImplementedError:
        yield
        return
    try:
        yield
    finally:
        give_back()
