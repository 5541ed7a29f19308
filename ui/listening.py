"""Where a server listens, and the secret that protects it."""

import errno
import ipaddress
import os
import socket
from dataclasses import dataclass, replace
from pathlib import Path

from service.errors import InputError
from service.writing import read_text


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
    line = read_text(file).partition("\n")[0].rstrip("\r")
    if not line:
        raise InputError(f"{file}: the first line is empty. Write the password or token there.")
    return line


def bind(address: Address) -> tuple[socket.socket, Address]:
    """Return a socket that listens on the address, and the address with its port; port 0 takes a free one."""
    place = (address.host, address.port)
    try:
        if ":" in address.host:
            both = socket.has_dualstack_ipv6()  # `::` also takes IPv4
            created = socket.create_server(place, family=socket.AF_INET6, backlog=1024, dualstack_ipv6=both)
        else:
            created = socket.create_server(place, backlog=1024)
    except OSError as error:
        problem = f"--host {address.host}: cannot listen on it. {error.strerror or error}."
        if error.errno == errno.EADDRINUSE:
            problem = (
                f"port {address.port} is in use, perhaps by a running server ({address.url}). Choose another "
                "one with --port, or --port 0 for any free port."
            )
        elif error.errno == errno.EACCES:
            problem = f"port {address.port} is not allowed for this user. Choose 1024 or higher with --port."
        raise InputError(problem) from error
    # asyncio delays small answers (Nagle's algorithm) on a socket that does not name its protocol.
    listening = socket.socket(created.family, created.type, socket.IPPROTO_TCP, created.detach())
    return listening, replace(address, port=listening.getsockname()[1])
