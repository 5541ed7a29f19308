"""`tagrpo ui` and `tagrpo eval serve`: the pages in a browser, and the grader over HTTP for trainers."""

import math
import re
import secrets
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from service.errors import DatabaseError, InputError, missing_extra
from ui.cli import output
from ui.cli.lazy import lazy_imports
from ui.cli.settings import AnswersName, OwnGrader, db
from ui.listening import Address, bind, is_loopback, read_secret

with lazy_imports():
    from evaluator.grading import grader as graders
    from rephraser.questions import store as question_store
    from service.database import engine
    from service.runs import store as run_store
    from ui.pages.server import serving, signing_in
    from ui.pages.state import settings as page_settings
    from ui.shipped_demo import unpacking

PASSWORD_VARIABLE, TOKEN_VARIABLE = "TAGRPO_UI_PASSWORD", "TAGRPO_GRADE_TOKEN"
SHORTEST_TOKEN = 16
Port = Annotated[int, Option(min=0, max=65535)]


def ui(
    *,
    demo: bool = False,
    review: bool = False,
    host: str = "127.0.0.1",
    port: Port = 8501,
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
    if demo and db.name is not None:
        raise InputError("--demo opens the demo's own database; remove --db.")
    if password + (password_file is not None) + no_token > 1:
        raise InputError("give only one of --password, --password-file and --no-token.")
    secret = None
    if password and sys.stdin.isatty():
        secret = str(typer.prompt("Password", hide_input=True, err=True))
    elif password:
        secret = sys.stdin.readline().rstrip("\r\n")
    elif not no_token:
        secret = read_secret(PASSWORD_VARIABLE, password_file)
    lock = signing_in.Lock(secret) if secret is not None else None if no_token else signing_in.Lock.token()
    serving.check_installed()
    database, description = unpacking.demo_database() if demo else (db.place, "")
    listening, address = bind(Address(host, port, tuple(allow_host or ())))
    access = (address.is_private, lock is not None)
    page_settings.use(page_settings.PageSettings(database, review, description, *access))
    if isinstance(database, Path):  # a server that does not answer would delay the pages
        _note_if_empty(database, page_settings.command("questions import FILE --name NAME"))
    browser = not no_browser and sys.stdout.isatty() and serving.has_display()
    ready = partial(_announce, "UI", address.url if lock is None else lock.opened(address.url))
    serving.serve(listening, address, lock, open_browser=browser, ready=ready)
    output.note("ended")


def _note_if_empty(path: Path, start: str) -> None:
    try:
        with engine.Database.open(path, read_only=True) as opened, opened.read() as session:
            if not (run_store.list_runs(session) or question_store.list_sets(session)):
                output.note(f"{path}: the database is empty. Fill it with `{start}`, or see `--demo`.")
    except DatabaseError as error:  # as the pages show it
        output.note(str(error))


def _announce(what: str, address: str) -> None:
    output.say(f"tagrpo {what} at {address} (Ctrl-C stops it)")
    sys.stdout.flush()


def serve(
    host: str = "127.0.0.1",
    port: Port = 8600,
    token_file: Path | None = None,
    no_token: bool = False,
    workers: Annotated[int | None, Option(min=1)] = None,
    time_limit_s: Annotated[float, Option(min=0.1)] = 10.0,
    memory_limit_mb: Annotated[int, Option(min=64)] = 2048,
    deadline_s: Annotated[float, Option(min=1)] = 120.0,
    queue: Annotated[int, Option(min=1)] = 16_384,
    body_mb: Annotated[int, Option(min=1)] = 64,
    unknown_reward: float | None = None,
    answers: AnswersName = "boxed",
    grader: OwnGrader = None,
) -> None:
    """Grade responses over HTTP for OpenRLHF, NeMo Gym and any client that posts JSON.

    Routes: /grade (batches; correct, wrong or unknown), /openrlhf, /verify (NeMo Gym), /health and /docs.
    Requests from other machines need a token; if none is given, one is created and printed.

    Example: tagrpo eval serve --unknown-reward 0

    Args:
        host: Address to listen on; the default accepts only connections from this machine.
        port: Port to listen on; 0 picks a free one.
        token_file: Require the token in the first line of this file (or in TAGRPO_GRADE_TOKEN).
        no_token: Require no token, even for requests from other machines.
        workers: Number of comparison processes. Default: one per CPU, at most 8.
        time_limit_s: Time limit of one comparison, in seconds.
        memory_limit_mb: Memory limit of one comparison.
        deadline_s: Time limit of a request, in seconds; cases not graded by then are unknown.
        queue: Maximum cases in flight; further requests get HTTP 429.
        body_mb: Maximum size of a request in megabytes.
        unknown_reward: Reward for an unknown grade; required by the routes that return numbers.
        answers: Answers that earn a reward: only boxed ones, or any final answer.
    """
    if unknown_reward is not None and not math.isfinite(unknown_reward):
        raise InputError(f"--unknown-reward {unknown_reward}: give a number.")
    try:
        from evaluator import serving as grade_server
    except ImportError as error:
        raise missing_extra(f"the grading server needs {error.name}", "serve") from error
    if no_token and token_file is not None:
        raise InputError("give only one of --token-file and --no-token.")
    token = None if no_token else read_secret(TOKEN_VARIABLE, token_file)
    if token is not None and not re.fullmatch(rf"[\w.~-]{{{SHORTEST_TOKEN},}}", token := token.strip(), re.A):
        raise InputError(
            f"{token_file or TOKEN_VARIABLE}: the token is too short. Use at least {SHORTEST_TOKEN} letters "
            "and digits."
        )
    words = "; requests need the token" if token else ""
    if token is None and not no_token and not is_loopback(host):
        token = secrets.token_urlsafe(24)
        words = f"; token: {token}"
    own = graders.Grader(workers, time_limit_s, memory_limit_mb, own=grader)
    graded_by = graders.Desk(own, deadline_s)
    socket, address = bind(Address(host, port))
    served = grade_server.grading_app(
        graded_by,
        most_cases=queue,
        most_body_bytes=body_mb * 10**6,
        unknown_reward=unknown_reward,
        boxed_only=answers == "boxed",
        token=token,
    )
    grade_server.serve(socket, served, graded_by, partial(_announce, "grader", address.url + words))
    output.note("ended")
