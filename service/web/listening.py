"""Listening on a port: what `tagrpo ui` and `tagrpo eval serve` share."""

import errno
import ipaddress
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from service.errors import InputError

if TYPE_CHECKING:
    import uvicorn

MAX_PORT = 65535


@dataclass(frozen=True)
class Address:
    """Where the server listens, and under which further names it may be asked."""

    host: str = "127.0.0.1"
    port: int = 8501
    more_names: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """The address for a browser on this machine."""
        host = "localhost" if self.host in ("0.0.0.0", "::") else self.host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def is_private(self) -> bool:
        """Whether nobody but users of this machine can reach it, by whatever name."""
        return is_loopback(self.host) and not self.more_names


def is_loopback(host: str) -> bool:
    """Say whether an address to listen on can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def read_secret(variable: str, file: Path | None) -> str | None:
    """Return the first line of a file, else what the variable has; None if there is neither.

    The variable is removed, so that no child of this process inherits it.
    """
    if file is None:
        return os.environ.pop(variable, None) or None
    try:
        line = file.read_text(encoding="utf-8").partition("\n")[0].rstrip("\r")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read ({error}).") from error
    if not line:
        raise InputError(f"{file}: the first line is empty. Write the password or token there.")
    return line


def bind(address: Address) -> tuple[socket.socket, Address]:
    """Return a socket that listens on the address, and the address with its port; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # Where the protocol is not said, asyncio lets a small answer wait until the last one is acknowledged.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name != "nt":  # there it would share a port that is taken
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address.host, address.port))
        listening.listen(1024)
    except OSError as error:
        listening.close()
        raise _explained(error, address) from error
    except OverflowError as error:
        listening.close()
        raise InputError(f"--port {address.port}: give a port from 0 to {MAX_PORT}.") from error
    return listening, replace(address, port=listening.getsockname()[1])


def _explained(error: OSError, address: Address) -> InputError:
    if error.errno == errno.EADDRINUSE:
        return InputError(
            f"port {address.port} is in use, perhaps by a running server ({address.url}). Choose another "
            "one with --port, or --port 0 for any free port."
        )
    if error.errno == errno.EACCES:
        return InputError(
            f"port {address.port} is not allowed for this user. Choose port 1024 or higher with --port."
        )
    return InputError(f"--host {address.host}: cannot listen on it ({error.strerror or error}).")


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
