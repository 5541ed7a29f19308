"""Run a server until it is stopped, for `tagrpo ui` and `tagrpo eval serve`."""

import signal
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import uvicorn


def run_until_signal(
    server: "uvicorn.Server", listening: socket.socket, ready: Callable[[], None] = lambda: None
) -> None:
    """Answer requests until Ctrl-C or SIGTERM, then return, with the socket closed.

    `ready` is called once these signals are handled. uvicorn raises the signal again when it has ended, which
    must not end us as a failure.
    """
    leave = signal.default_int_handler  # raises KeyboardInterrupt
    before = {number: signal.signal(number, leave) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        ready()
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()
        for number, handler in before.items():
            signal.signal(number, handler)
