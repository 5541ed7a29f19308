"""`tagrpo ui`: the pages in the browser."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from ui.cli import output
from ui.cli.output import DbOption

DEMO_FOLDERS = ("tagrpo-demo", "tagrpo-demo-quick")
PASSWORD_VARIABLE = "TAGRPO_UI_PASSWORD"


def ui(
    db: DbOption = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Show the demo's results; runs the quick demo where there is none.")
    ] = False,
    review: Annotated[
        bool, typer.Option("--review", help="Let reviews be written; nothing else ever is.")
    ] = False,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; others than this machine's need a password.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port to listen on; 0 takes a free one.")] = 8501,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host", help="A further name under which the server is reached.", show_default=False
        ),
    ] = None,
    password: Annotated[
        bool, typer.Option("--password", help="Ask for a password now (or read a line from a pipe).")
    ] = False,
    password_file: Annotated[
        Path | None,
        typer.Option(
            "--password-file", help="Read the password from a file's first line.", show_default=False
        ),
    ] = None,
    no_password: Annotated[
        bool, typer.Option("--no-password", help="Let everybody in who can reach the address.")
    ] = False,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Do not open the browser; print the address only.")
    ] = False,
) -> None:
    """Open the pages in the browser: questions, neighbors, sets, rollouts, curves.

    The database is only read, unless --review lets reviews be added. The server listens on this machine only;
    with --host on another address it asks for a password, taken from --password, --password-file or
    TAGRPO_UI_PASSWORD. Ctrl-C ends it.

    Example: [bold]tagrpo ui[/bold]
    """
    from evaluator.database import locate_database
    from evaluator.errors import InputError
    from ui.pages.server import serving

    if demo and db is not None:
        raise InputError("--demo shows the demo's own database; leave out --db.")
    address = serving.Address(host, port, tuple(allow_host or ()))
    secret = read_password(ask=password, file=password_file, none=no_password)
    serving.check_password(secret, address, opted_out=no_password)
    serving.check_installed()
    shown = demo_database() if demo else locate_database(db)
    listening = serving.bind(address)
    address = serving.Address(host, listening.getsockname()[1], address.more_names)
    from ui.pages.kit import settings

    settings.use(settings.Settings(shown, review))

    def say() -> None:
        output.say(f"tagrpo is at {address.url} (Ctrl-C ends it)")
        sys.stdout.flush()

    browser = not no_browser and sys.stdout.isatty() and has_display()
    serving.serve(listening, address, secret, open_browser=browser, ready=say)
    output.note("ended")


def has_display() -> bool:
    """Say whether a browser could be seen: without a display one of the terminal's would take it over."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def demo_database() -> Path:
    """Return the database of the newest demo in this folder; where there is none, make the quick one.

    Raises:
        InputError: the demo did not reach its end.
    """
    from evaluator.errors import InputError

    found = [path for folder in DEMO_FOLDERS if (path := Path(folder, "tagrpo.db")).exists()]
    if found:
        return max(found, key=lambda path: path.stat().st_mtime)
    output.note("there is no demo here yet; `tagrpo demo --quick` makes one now, in some minutes")
    # A process of its own: what it imports (torch, verl) must not stay in the server's memory.
    main = "import sys; from ui.cli.app import main; sys.argv[0] = 'tagrpo'; main()"
    done = subprocess.run([sys.executable, "-c", main, "demo", "--quick"], check=False)
    if done.returncode not in (0, 1):  # 1: done, and something needs attention
        raise InputError("the demo did not reach its end; `tagrpo demo --quick` goes on where it stopped.")
    return Path(DEMO_FOLDERS[1], "tagrpo.db")


def read_password(*, ask: bool, file: Path | None, none: bool) -> str | None:
    """Return the password from the one place that was named, else from the environment; None for none.

    Raises:
        InputError: several places were named, or the file cannot be read or is empty.
    """
    from evaluator.errors import InputError

    if ask + (file is not None) + none > 1:
        raise InputError("give one of --password, --password-file and --no-password.")
    if none:
        return None
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{file}: the password cannot be read ({error}).") from error
        if not lines or not lines[0]:
            raise InputError(f"{file}: the first line is empty; write the password there.")
        return lines[0]
    if ask:
        if sys.stdin.isatty():
            return str(typer.prompt("Password", hide_input=True, err=True))
        return sys.stdin.readline().rstrip("\r\n")
    # Taken out of the environment, so that no child of this process inherits it.
    return os.environ.pop(PASSWORD_VARIABLE, None) or None
