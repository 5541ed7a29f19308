"""Stopping when the user or the machine asks for it: between two steps, or after in-flight requests finish.

Ctrl-C is SIGINT; Slurm, Kubernetes and `kill` send SIGTERM, and SIGKILL after it (30 s by default).
"""

import contextlib
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import socket

    import uvicorn

SIGNALS = (signal.SIGINT, signal.SIGTERM)

_LOG = logging.getLogger("tagrpo.stopping")
_taken = signal.SIGINT
_is_watched = False


@contextlib.contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Let SIGTERM raise `SystemExit(143)`, as SIGINT raises `KeyboardInterrupt`: what is open is closed."""
    before = signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def deliver_signal() -> NoReturn:
    """Let the signal that stopped work do what it does otherwise, now that all that came is stored."""
    signal.raise_signal(_taken)
    raise KeyboardInterrupt  # where a handler returns


@contextlib.contextmanager
def finish_on_signals(interrupt: Callable[[], None], grace_s: float) -> Iterator[None]:
    """Within an event loop, let the first SIGINT or SIGTERM call `interrupt`; a second one acts as ever.

    SIGTERM waits `grace_s` for what is in flight, then acts as a second one would; Ctrl-C waits as long as it
    takes. Outside of the main thread, and inside of another such block, signals stay as they are.
    """
    global _is_watched
    if _is_watched or threading.current_thread() is not threading.main_thread():
        yield
        return
    import asyncio  # a tenth of a second: this file is read for `--help` too

    loop, timers = asyncio.get_running_loop(), list[asyncio.TimerHandle]()

    def give_back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def on_signal(number: signal.Signals) -> None:
        global _taken
        give_back()
        _taken = number
        interrupt()
        wait = f"for at most {grace_s:g} s" if number == signal.SIGTERM else "until they finish"
        _LOG.warning("%s: waiting for in-flight requests %s; a second signal drops them", number.name, wait)
        if number == signal.SIGTERM:
            timers.append(loop.call_later(grace_s, signal.raise_signal, number))

    def handle(number: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(on_signal, signal.Signals(number))

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    _is_watched = True
    try:
        yield
    finally:
        _is_watched = False
        give_back()
        for timer in timers:
            timer.cancel()


def run_until_signal(
    server: "uvicorn.Server", listening: "socket.socket", ready: Callable[[], None] = lambda: None
) -> None:
    """Answer requests until Ctrl-C or SIGTERM, then return, with the socket closed.

    `ready` is called once these signals raise `KeyboardInterrupt`. uvicorn raises the signal again when it
    has ended, which would exit with an error.
    """
    before = {number: signal.signal(number, signal.default_int_handler) for number in SIGNALS}
    try:
        with contextlib.closing(listening), contextlib.suppress(KeyboardInterrupt):
            ready()
            server.run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
