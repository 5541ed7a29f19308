"""`tagrpo ui`: the pages in the browser."""

import sys
from pathlib import Path

import typer

from service.errors import DatabaseError, InputError
from ui.cli import output
from ui.cli.settings import db

PASSWORD_VARIABLE = "TAGRPO_UI_PASSWORD"


def ui(
    *,
    demo: bool = False,
    review: bool = False,
    host: str = "127.0.0.1",
    port: int = 8501,
    allow_host: list[str] | None = None,
    password: bool = False,
    password_file: Path | None = None,
    no_token: bool = False,
    no_browser: bool = False,
) -> None:
    """Open the UI in a browser: questions, neighbors, sets, rollouts, curves.

    The printed address contains a token; only people who have this address get in. A password (--password,
    --password-file or TAGRPO_UI_PASSWORD) replaces the token. Press Ctrl-C to stop the server.

    Example: tagrpo ui

    Args:
        demo: Show the results of the demo in this folder, or of the one shipped with tagrpo.
        review: Allow the UI to store reviews. Otherwise it only reads the database.
        host: Address to listen on; the default accepts only connections from this machine.
        port: Port to listen on; 0 picks a free one.
        allow_host: Additional host name by which browsers reach the server.
        password: Ask for a password now, or read one line from a pipe.
        password_file: Read the password from the first line of this file.
        no_token: Admit anyone who can reach the address.
        no_browser: Print the address without opening a browser.
    """
    from service.database import Database
    from service.questions.store import count_members
    from service.runs.store import list_runs
    from service.web.listening import Address, bind, read_secret
    from ui.pages.server import serving
    from ui.pages.server.signing_in import Lock
    from ui.pages.state import settings
    from ui.shipped_demo.unpacking import demo_database

    if demo and db.name is not None:
        raise InputError("--demo opens the demo's own database; remove --db.")
    if password + (password_file is not None) + no_token > 1:
        raise InputError("give only one of --password, --password-file and --no-token.")
    address = Address(host, port, tuple(allow_host or ()))
    secret = None
    if password and sys.stdin.isatty():
        secret = str(typer.prompt("Password", hide_input=True, err=True))
    elif password:
        secret = sys.stdin.readline().rstrip("\r\n")
    elif not no_token:
        secret = read_secret(PASSWORD_VARIABLE, password_file)
    lock = Lock(secret) if secret is not None else None if no_token else Lock.token()
    serving.check_installed()
    database, words = demo_database() if demo else (db.place, "")
    listening = bind(address)
    address = Address(host, listening.getsockname()[1], address.more_names)
    settings.use(settings.PageSettings(database, review, words, address.is_private, lock is not None))

    def say() -> None:
        url = address.url if lock is None else lock.opened(address.url)
        output.say(f"tagrpo UI at {url} (Ctrl-C stops it)")
        sys.stdout.flush()

    if isinstance(database, Path):  # a server that does not answer would delay the pages
        try:
            with Database.open(database, read_only=True) as opened, opened.read() as session:
                if not (list_runs(session) or count_members(session)):
                    start = settings.command("questions import FILE --name NAME")
                    output.note(
                        f"{database}: the database is empty. Fill it with `{start}`, or see `--demo`."
                    )
        except DatabaseError as error:  # as the pages show it
            output.note(str(error))
    browser = not no_browser and sys.stdout.isatty() and serving.has_display()
    serving.serve(listening, address, lock, open_browser=browser, ready=say)
    output.note("ended")
