"""A browser's page that notices what users would: error boxes, console errors, requests to other servers."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
SUPPORT = Path(__file__).parent
WAIT_MS = 30_000
TABLE = ".table table"
IDLE = '[data-testid="stApp"][data-test-script-state="notRunning"]'
BUSY = '[data-testid="stSkeleton"], [data-testid="stSpinner"]'
ERRORS = '[data-testid="stException"], [data-testid="stAlertContentError"]'


def chromium() -> str | None:
    """Return the browser to test in."""
    return os.environ.get("TAGRPO_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")


@contextmanager
def served(command: Sequence[str], *, folder: Path | None = None, **environment: str) -> Iterator[str]:
    """Run a server (in `folder`) until the block ends; yield the address that it prints."""
    pipe, variables = subprocess.PIPE, {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=folder, env=variables)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        assert "http://" in line, f"no address was printed: {line!r}\n{process.stderr.read()}"
        yield next(word for word in line.split() if word.startswith("http://"))
    finally:
        process.terminate()
        try:
            process.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise


def tagrpo_ui(database: Path, *options: str) -> list[str]:
    """Return the command that serves a database on a free port to everybody on this machine."""
    return locked_ui(database, "--no-token", *options)


def locked_ui(database: Path, *options: str) -> list[str]:
    """Return the command that serves a database on a free port to who has the token or password."""
    return ui_command("--db", str(database), *options)


def ui_command(*options: str) -> list[str]:
    """Return the command `tagrpo ui` on a free port."""
    main = "import sys; from ui.cli.app import main; sys.argv[0] = 'tagrpo'; main()"
    return [sys.executable, "-c", main, "ui", "--port", "0", "--no-browser", *options]


def script_server(script: Path, database: Path) -> list[str]:
    """Return the command that serves a Streamlit script of the tests."""
    return [sys.executable, str(SUPPORT / "page_server.py"), str(script), str(database)]


class View:
    """A tab on a server of ours. `check()` fails on anything that a user would call broken."""

    def __init__(self, tab: Any, origin: str) -> None:
        self.tab, self.origin = tab, origin
        self.problems: list[str] = []
        self.elsewhere: list[str] = []
        tab.set_default_timeout(WAIT_MS)
        tab.on("console", self._said)
        tab.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))
        tab.on("request", self._asked)

    def _said(self, message: Any) -> None:
        where = str(message.location.get("url", ""))
        # Opened at /sets, Streamlit looks for its server there first: /sets/_stcore/health is not there.
        below = where.removeprefix(self.origin).removeprefix("/_stcore/")
        looking = "/_stcore/" in below and "404" in message.text
        if message.type == "error" and not looking:
            self.problems.append(f"console: {message.text} ({where})")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.origin, "data:", "blob:", "about:")):
            self.elsewhere.append(request.url)

    def open(self, path: str = "/") -> "View":
        """Go to a path and wait until it is drawn."""
        self.tab.goto(self.origin + path)
        return self.settle()

    def settle(self) -> "View":
        """Wait until the script has run and nothing is being loaded."""
        self.tab.wait_for_selector(IDLE, state="attached")
        ready = "([idle, busy]) => document.querySelector(idle) && !document.querySelector(busy)"
        self.until(ready, IDLE, BUSY)
        return self

    def draw_charts(self) -> "View":
        """Wait until every chart is drawn."""
        self.tab.wait_for_function(
            "() => [...document.querySelectorAll('[data-testid=stVegaLiteChart]')]"
            ".every(chart => chart.querySelector('svg.marks'))"
        )
        return self.settle()

    def check(self, *, errors: int = 0) -> None:
        """Fail on error boxes (but those expected), console errors and requests to other servers."""
        shown = self.tab.locator(ERRORS)
        assert shown.count() == errors, [shown.nth(at).inner_text() for at in range(shown.count())]
        assert not self.problems, self.problems
        assert not self.elsewhere, self.elsewhere

    def text(self) -> str:
        """Return all text on the page."""
        return str(self.tab.locator('[data-testid="stMain"]').inner_text())

    def until(self, condition: str, *arguments: Any) -> None:
        """Wait for a JavaScript condition, given as a function of an array."""
        self.tab.wait_for_function(condition, arg=list(arguments))

    def choose_first_row(self, table: int, named: str) -> None:
        """Click the first row of a table that is shown; the address then has the parameter `named`."""
        rows = self.tab.locator(TABLE).filter(visible=True).nth(table).locator("tbody tr")
        rows.first.locator("td").nth(1).click()
        self.tab.wait_for_function("name => new URLSearchParams(location.search).has(name)", arg=named)


class FetchCounter:
    """A server that answers and remembers who asked: hostile text must never make a browser ask it.

    Use as a context manager; `url` is where it listens, `fetched` the paths that were asked for.
    """

    def __init__(self) -> None:
        self.fetched: list[str] = []
        fetched = self.fetched

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fetched.append(self.path)
                self.send_response(200)
                self.send_header("content-type", "image/gif")
                self.send_header("access-control-allow-origin", "*")
                self.end_headers()
                self.wfile.write(b"GIF89a")

            do_POST = do_HEAD = do_OPTIONS = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "FetchCounter":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
