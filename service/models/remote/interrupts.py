"""Ctrl-C while requests are in flight: their answers are paid for, so they are awaited and stored first."""

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator


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
