"""Which names of this server a request may use: a page of elsewhere must not reach it under its own name."""

import ipaddress
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def is_loopback(host: str) -> bool:
    """Say whether an address to listen on can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def allowed_names(host: str, more: Iterable[str] = ()) -> frozenset[str]:
    """Return the names and addresses under which a server on `host` may be asked."""
    names = {*LOOPBACK_NAMES, *more, host}
    if not is_loopback(host):
        own = socket.gethostname()
        names |= {own, own.split(".")[0], f"{own.split('.')[0]}.local", *_addresses()}
    return frozenset(_plain(name) for name in names if name not in ("0.0.0.0", "::", ""))


def _addresses() -> set[str]:
    import psutil

    return {
        address.address.split("%")[0]
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family in (socket.AF_INET, socket.AF_INET6)
    }


def name_of(host_header: str) -> str | None:
    """Return the name in a Host header without its port; None where it is malformed."""
    try:
        parts = urlsplit(f"//{host_header}")
        _ = parts.port  # raises where it is no number
    except ValueError:
        return None
    if parts.hostname is None or parts.username or parts.password or parts.path or parts.query:
        return None
    return _plain(parts.hostname)


def same_origin(origin: str, host_header: str) -> bool:
    """Say whether a request with this Origin comes from a page of this very server."""
    parts = urlsplit(origin)
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host_header.lower()


def _plain(name: str) -> str:
    return name.strip("[]").lower().rstrip(".")
