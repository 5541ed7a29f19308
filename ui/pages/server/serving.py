"""Start and stop the server: a configured Streamlit in this process, protected by the gate."""

import gc
import logging
import os
import socket
import sys
import tempfile
import threading
import traceback
import webbrowser
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from html import escape
from pathlib import Path

from service.errors import TagrpoError, missing_extra
from service.stopping import run_until_signal
from ui.charts.theme import page_theme
from ui.listening import Address
from ui.pages.server.gate import Gate, security_headers, server_names, streamlit_scripts
from ui.pages.server.signing_in import Lock

SCRIPT = Path(__file__).parent.parent / "app.py"
GRACE_S = 2
"""Seconds for open connections at shutdown."""


def check_installed() -> None:
    """Refuse to start without a Streamlit that the gate supports."""
    try:
        from streamlit.starlette import App  # noqa: F401
    except ImportError as error:
        raise missing_extra("the UI needs Streamlit 1.67 or newer", "ui") from error


def has_display() -> bool:
    """Say whether a browser could be seen: without a display one of the terminal's would take it over."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def serve(
    listening: socket.socket,
    address: Address,
    lock: Lock | None = None,
    *,
    open_browser: bool = False,
    ready: Callable[[], None] = lambda: None,
    script: Path = SCRIPT,
) -> None:
    """Answer requests until Ctrl-C or SIGTERM; then close connections and return.

    Without a `lock`, everyone is admitted. `ready` is called once requests are answered.
    """
    import uvicorn
    from starlette.middleware import Middleware
    from streamlit.starlette import App
    from streamlit.web.bootstrap import load_config_options

    names = server_names(address.host, address.more_names)
    options = _options(address, names).items()
    load_config_options({name.replace(".", "_"): value for name, value in options})

    @asynccontextmanager
    async def started(_app: App) -> AsyncIterator[None]:
        ready()
        if not open_browser:
            yield
            return
        with redirect_file(address.url if lock is None else lock.opened(address.url)) as page:
            threading.Thread(target=webbrowser.open, args=(page,), daemon=True).start()
            yield

    # Streamlit would log the same error with its message.
    logging.getLogger("streamlit.error_util").addFilter(lambda record: record.exc_info is None)
    app = App(
        script,
        lifespan=started,
        on_script_error=show_failure,
        middleware=[
            Middleware(
                Gate,
                names=names,
                headers=security_headers(streamlit_scripts()),
                lock=lock,
                cookie=f"tagrpo_ui_{address.port}",
            ),
        ],
    )
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=False,
            ws="websockets-sansio",
            ws_max_size=64 * 2**20,
            timeout_graceful_shutdown=GRACE_S,
            proxy_headers=False,
        )
    )
    run_until_signal(server, listening)


@contextmanager
def redirect_file(url: str) -> Iterator[str]:
    """Yield the address of a file, readable only by this user, that redirects to `url`.

    Every user of the machine can see the browser's arguments, so these must not contain the token.
    """
    with tempfile.TemporaryDirectory(prefix="tagrpo-ui-") as folder:
        page = Path(folder, "open.html")
        page.write_text(f'<meta http-equiv="refresh" content="0; url={escape(url)}">', encoding="utf-8")
        yield page.as_uri()


def show_failure(error: Exception) -> bool:
    """Show an error on its page, and tell Streamlit that it is handled.

    An error of ours explains itself. Any other one is a bug: its frames are printed in the terminal, without
    the message, which may quote a text.
    """
    from ui.pages.widgets import layout

    if isinstance(error, TagrpoError):
        layout.error_box("This page cannot be shown.", str(error))
        return True
    layout.error_box(
        "Something went wrong on this page.",
        f"{type(error).__name__}. Reload this page or open another one. The server's terminal shows the "
        "full error.",
    )
    frames = "".join(traceback.format_tb(error.__traceback__)[-6:])
    print(f"a page failed ({type(error).__name__}):\n{frames}", file=sys.stderr, end="", flush=True)
    return True


@cache
def spare_modules(_loaded: int) -> None:
    """Spare the modules loaded by now the garbage collection after every run, which would take 100 ms."""
    gc.collect()
    gc.freeze()


def _options(address: Address, names: Iterable[str]) -> dict[str, object]:
    """Return Streamlit's options; they override the user's own config files."""
    return {
        "server.address": address.host,
        "server.port": address.port,
        "server.headless": True,
        "server.allowedHosts": sorted(names),
        "server.enableCORS": True,
        "server.enableXsrfProtection": True,
        "server.enableStaticServing": False,
        "server.enableAgentApi": False,
        "server.fileWatcherType": "none",
        "server.runOnSave": False,
        "server.allowRunOnSave": False,
        "server.maxUploadSize": 1,
        "server.showEmailPrompt": False,
        "browser.gatherUsageStats": False,
        "browser.serverAddress": "localhost" if address.host in ("0.0.0.0", "::") else address.host,
        "browser.serverPort": address.port,
        "client.toolbarMode": "minimal",
        "client.disableDataExport": True,  # tables have their own CSV download, safe for spreadsheets
        "client.showErrorDetails": "none",
        "client.showErrorLinks": False,
        "global.developmentMode": False,
        "logger.hideWelcomeMessage": True,
        "logger.level": "warning",
        "logger.enableRich": False,  # it would print errors with their messages, bypassing the logger
        "runner.magicEnabled": False,
        "runner.fastReruns": True,
        **page_theme(),
    }
