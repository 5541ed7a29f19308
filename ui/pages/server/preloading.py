"""Preloading, so that the first page is as quick as the others.

It covers modules that pages import; Streamlit's scripts and fonts, answered from memory; and parts of pages.
A page fetches about 90 files one after another. Streamlit's own handler opens each in another thread and
sends it in pieces, which takes longer, and the page stays empty until all have arrived. Code for tables,
charts, formulas and choices is loaded only when the first one is drawn; a script in the page (`AHEAD_SCRIPT`)
loads it while the browser is idle.
"""

import ast
import gc
import importlib
import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path, PurePosixPath

from service.web.asgi import Asgi, Message, Receive, Scope, Send, header, send_whole

TYPES = {
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".woff2": b"font/woff2",
}
CACHED = b"public, immutable, max-age=31536000"
"""Streamlit's static files: their names contain hashes of their contents."""

AHEAD = (
    "ArrowVegaLiteChart",
    "Selectbox",
    "Multiselect",
    "rehype-katex",
    "Metric",
    "Html",
    "Button",
    "ButtonGroup",
    "DownloadButton",
    "TextInput",
    "BidiComponent",
    "Json",
    "StreamlitSyntaxHighlighter",
)
"""Parts of Streamlit to preload, in the order of first use."""

FONTS_AHEAD = ("KaTeX_Main-Regular", "KaTeX_Math-Italic", "SourceCodeVF-Upright.ttf")
"""Fonts of formulas and code."""

AHEAD_PATH = "/tagrpo/ahead.js"
AHEAD_SCRIPT = """const parts = %s;
const idle = window.requestIdleCallback ?? ((then) => setTimeout(then, 200));
const next = () => {
  const part = parts.shift();
  const load = (file) => (file.endsWith(".js") ? import(file) : fetch(file));
  if (part) load(part).catch(() => {}).finally(() => idle(next));
};
const wait = () => {
  const drawn = document.querySelector('[data-testid="stApp"][data-test-script-state="notRunning"]');
  if (drawn) idle(next); else setTimeout(wait, 300);
};
wait();
"""
_TAG = f'<script type="module" src="{AHEAD_PATH}"></script></body>'.encode("ascii")


class Assets:
    """ASGI middleware that serves the files of Streamlit's folder `static`; other requests pass.

    Args:
        app: answers everything else.
        folder: Streamlit's folder of static files, with `index.html` and `static/`.
    """

    def __init__(self, app: Asgi, *, folder: Path) -> None:
        self._app = app
        self._files = {
            f"/{path.relative_to(folder).as_posix()}": path
            for path in (folder / "static").rglob("*")
            if path.suffix in TYPES
        }
        self._ahead = (AHEAD_SCRIPT % json.dumps(parts_ahead(self._files))).encode("ascii")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer from memory, or let the request pass; HTML pages get the script's tag."""
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        path = self._files.get(scope["path"])
        if scope["path"] == AHEAD_PATH:
            await send_whole(send, 200, self._ahead, _headers(TYPES[".js"], b"no-cache"))
        elif path is not None and not header(scope, b"range"):
            await send_whole(send, 200, _read(path), _headers(TYPES[path.suffix], CACHED))
        elif "text/html" in header(scope, b"accept"):  # a page, not a file that a page fetches
            plain = [pair for pair in scope["headers"] if pair[0] != b"accept-encoding"]
            await self._app({**scope, "headers": plain}, receive, _with_script(send))
        else:
            await self._app(scope, receive, send)


def parts_ahead(addresses: Iterable[str]) -> list[str]:
    """Return the addresses to preload; those that this Streamlit lacks are skipped."""
    paths = [PurePosixPath(address) for address in sorted(addresses)]
    wanted = [f"js/{part}.*.js" for part in AHEAD] + [f"media/{font}.*.woff2" for font in FONTS_AHEAD]
    return [str(path) for pattern in wanted for path in paths if path.match(pattern)]


@lru_cache(maxsize=512)
def _read(path: Path) -> bytes:
    return path.read_bytes()


def _headers(kind: bytes, cached: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"content-type", kind), (b"cache-control", cached)]


def _with_script(send: Send) -> Send:
    """Append the script's tag to an HTML page, which is held back until it is complete."""
    held: list[Message] = []

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start" and _is_html(message["headers"]):
            held.append(message)
        elif not held:
            await send(message)
        else:
            held.append(message)
            if not message.get("more_body"):
                start, *parts = held
                body = b"".join(part.get("body", b"") for part in parts).replace(b"</body>", _TAG)
                kept = [pair for pair in start["headers"] if pair[0].lower() not in _OF_THE_FILE]
                await send_whole(send, start["status"], body, kept)

    return sending


_OF_THE_FILE = (b"content-length", b"etag", b"last-modified")


def _is_html(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(name.lower() == b"content-type" and value.startswith(b"text/html") for name, value in headers)


MODULES = (
    "pandas",
    "pyarrow",
    "altair",
    "streamlit.elements.vega_charts",
    "scipy.special",
)


def preload(folder: Path) -> None:
    """Import what the page scripts in a folder import; on a failure, the page reports it later.

    Everything loaded by then stays for the lifetime of the server. Streamlit collects garbage after every
    script run, which blocks all threads for 100 ms if it scans all modules, so these are excluded.
    """
    for name in (*MODULES, *imported_modules(folder)):
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    gc.collect()
    gc.freeze()


def imported_modules(folder: Path) -> list[str]:
    """Return the modules that scripts import at the top, sorted."""
    names: set[str] = set()
    for path in folder.glob("*/view.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module)
    return sorted(names)
