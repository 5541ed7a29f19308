"""Stopping when the user or the machine asks for it: between two steps, or once what is paid for has come.

Ctrl-C is SIGINT; Slurm, Kubernetes and `kill` send SIGTERM, and SIGKILL after it (30 s by default).
"""

import contextlib
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import asyncio

GRACE_S = 25.0
"""How long SIGTERM waits for what is in flight: with time to store it before SIGKILL comes."""

HALT_AFTER = 20
"""How many failed requests in a row end a run."""

STALL_S = 300.0
"""After how many seconds without an answer a run says what it waits for."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)

_LOG = logging.getLogger("tagrpo.stopping")
_taken = signal.SIGINT
_interrupts: list[Callable[[], bool]] = []
_earlier: dict[signal.Signals, Any] = {}
_timers: list["asyncio.TimerHandle"] = []


@contextlib.contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Let SIGTERM raise `SystemExit(143)`, as SIGINT raises `KeyboardInterrupt`: what is open is closed."""
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def deliver_signal() -> NoReturn:
    """Let the signal that stopped work do what it does otherwise, now that all that came is stored."""
    signal.raise_signal(_taken)
    raise KeyboardInterrupt  # where a handler returns


@contextlib.contextmanager
def finish_on_signals(interrupt: Callable[[], bool], *, grace_s: float = GRACE_S) -> Iterator[None]:
    """Within an event loop, let the first SIGINT or SIGTERM call `interrupt`; a second one ends at once.

    So does the first where `interrupt` returns False: nothing was in flight. SIGTERM waits `grace_s` for what
    is, then ends as a second one would; Ctrl-C waits as long as it takes. Of several in one loop, all are
    called, and the first `grace_s` holds. Outside of the main thread, and where the platform's loop takes no
    handlers, signals stay as they are.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    import asyncio  # a tenth of a second: this file is read for `--help` too

    loop = asyncio.get_running_loop()

    def give_back() -> None:
        for which in tuple(_earlier):
            loop.remove_signal_handler(which)
            signal.signal(which, _earlier.pop(which))

    def on_signal(number: signal.Signals) -> None:
        give_back()
        _take(number)
        in_flight = [each() for each in _interrupts]
        if not any(in_flight):
            signal.raise_signal(number)
            return
        wait = f"for at most {grace_s:g} s" if number == signal.SIGTERM else "until they finish"
        _LOG.warning("%s: waiting for in-flight requests %s; a second signal drops them", number.name, wait)
        if number == signal.SIGTERM:
            _timers.append(loop.call_later(grace_s, signal.raise_signal, number))

    _interrupts.append(interrupt)
    try:
        if len(_interrupts) == 1:
            with contextlib.suppress(NotImplementedError):
                for which in SIGNALS:
                    before = signal.getsignal(which)
                    loop.add_signal_handler(which, on_signal, which)
                    _earlier[which] = before
        yield
    finally:
        _interrupts.remove(interrupt)
        if not _interrupts:
            give_back()
            while _timers:
                _timers.pop().cancel()


def _take(number: int) -> None:
    global _taken
    _taken = signal.Signals(number)
