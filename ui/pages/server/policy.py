"""Headers of every response: what a page may load, and where it may be shown."""

import base64
import hashlib
from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path

from ui.pages.server.asgi import Headers


def security_headers(inline_scripts: tuple[str, ...]) -> Headers:
    """Return the headers that every response carries.

    The Content-Security-Policy lets a page load from this server only: text that slips through the escaping
    reaches nothing. `blob:` scripts are how Streamlit loads components; the scripts in its own page are named
    by their hashes; styles are set at run time.
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
    """Return the scripts that stand in the page of the installed Streamlit."""
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
