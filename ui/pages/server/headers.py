"""HTTP headers: accepted Host values, and the headers of every response."""

import base64
import hashlib
import re
import socket
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from service.web.listening import is_loopback

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def server_names(host: str, more: Iterable[str] = ()) -> frozenset[str]:
    """Return the names and addresses under which clients may reach a server on `host`."""
    names = {*LOOPBACK_NAMES, *more, host}
    if not is_loopback(host):
        import psutil

        own = socket.gethostname()
        names |= {own, own.split(".")[0], f"{own.split('.')[0]}.local"}
        names |= {
            address.address.split("%")[0]
            for addresses in psutil.net_if_addrs().values()
            for address in addresses
            if address.family in (socket.AF_INET, socket.AF_INET6)
        }
    return frozenset(_plain(name) for name in names if name not in ("0.0.0.0", "::", ""))


def name_of(host_header: str) -> str | None:
    """Return the name in a Host header without its port; None if it is malformed."""
    try:
        parts = urlsplit(f"//{host_header}")
        _ = parts.port  # raises ValueError if it is not a number
    except ValueError:
        return None
    plain = parts.netloc == host_header and "@" not in host_header
    return _plain(parts.hostname) if plain and parts.hostname else None


def _plain(name: str) -> str:
    return name.strip("[]").lower().rstrip(".")


def security_headers(inline_scripts: Iterable[str]) -> dict[str, str]:
    """Return the headers of every response.

    The Content-Security-Policy lets a page load from this server only, so text that slips through the
    escaping reaches nothing. Streamlit loads components by `blob:` scripts; the scripts in its own page are
    named by their hashes; styles are set at run time.
    """
    digests = (hashlib.sha256(script.encode("utf-8")).digest() for script in inline_scripts)
    hashes = "".join(f" 'sha256-{base64.b64encode(digest).decode('ascii')}'" for digest in digests)
    return {
        "content-security-policy": (
            f"default-src 'none'; script-src 'self' blob:{hashes}; style-src 'self' 'unsafe-inline'; "
            "img-src 'self' data: blob:; font-src 'self' data:; media-src 'self' data: blob:; "
            "connect-src 'self'; worker-src 'self' blob:; manifest-src 'self'; frame-src 'none'; "
            "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
        ),
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "same-origin",  # with no-referrer, forms are sent with the origin "null"
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    }


def streamlit_scripts() -> list[str]:
    """Return the inline scripts in the installed Streamlit's page."""
    from streamlit.file_util import get_static_dir

    page = Path(get_static_dir(), "index.html").read_text(encoding="utf-8")
    return re.findall(r"<script(?![^>]*\ssrc=)[^>]*>(.*?)</script>", page, re.DOTALL)
