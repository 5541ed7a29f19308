"""HTTP headers: accepted Host and Origin values, and the headers of every response."""

import base64
import hashlib
import socket
from collections.abc import Iterable
from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

from service.web.asgi import Headers
from service.web.listening import is_loopback

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def server_names(host: str, more: Iterable[str] = ()) -> frozenset[str]:
    """Return the names and addresses under which clients may reach a server on `host`."""
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
    """Return the name in a Host header without its port; None if it is malformed."""
    try:
        parts = urlsplit(f"//{host_header}")
        _ = parts.port  # raises ValueError if it is not a number
    except ValueError:
        return None
    if parts.hostname is None or parts.username or parts.password or parts.path or parts.query:
        return None
    return _plain(parts.hostname)


def same_origin(origin: str, host_header: str) -> bool:
    """Say whether a request with this Origin comes from a page of this server."""
    parts = urlsplit(origin)
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host_header.lower()


def _plain(name: str) -> str:
    return name.strip("[]").lower().rstrip(".")


def security_headers(inline_scripts: tuple[str, ...]) -> Headers:
    """Return the headers of every response.

    The Content-Security-Policy lets a page load from this server only, so text that slips through the
    escaping reaches nothing. Streamlit loads components by `blob:` scripts; the scripts in its own page are
    named by their hashes; styles are set at run time.
    """
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in inline_scripts)
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' blob: {hashes}".rstrip(),
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "media-src 'self' data: blob:",
            "connect-src 'self'",
            "worker-src 'self' blob:",
            "manifest-src 'self'",
            "frame-src 'none'",
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        )
    )
    return [
        (b"content-security-policy", policy.encode("ascii")),
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
        (b"referrer-policy", b"same-origin"),  # with no-referrer, forms are sent with the origin "null"
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    ]


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


@lru_cache(maxsize=1)
def streamlit_scripts() -> tuple[str, ...]:
    """Return the inline scripts in the installed Streamlit's page."""
    import streamlit

    page = Path(streamlit.__file__).parent / "static" / "index.html"
    reader = _Scripts()
    reader.feed(page.read_text(encoding="utf-8"))
    return tuple(reader.found)


class _Scripts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag == "script" and not any(name == "src" for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.found.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._inside = False
