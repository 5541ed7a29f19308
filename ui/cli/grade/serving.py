"""`tagrpo grade serve`: the grader behind HTTP."""

import os
import re
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Option

from evaluator.grading.types import Answers
from ui.cli import output
from ui.cli.eval.settings import OwnGrader

TOKEN_VARIABLE = "TAGRPO_GRADE_TOKEN"
SHORTEST_TOKEN = 16


@dataclass(frozen=True)
class Listening:
    """Where the server listens, and whom it answers."""

    host: Annotated[str, Option(help="Address to listen on; the default admits only this machine.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, Option(help="Port to listen on; 0 picks a free one.")] = 8600
    token_file: Annotated[
        Path | None,
        Option(help=f"Ask for the token in this file's first line (or in {TOKEN_VARIABLE})."),
    ] = None
    no_token: Annotated[bool, Option(help="Answer anyone, beyond this machine too.")] = False


@dataclass(frozen=True)
class Capacity:
    """How much is graded at a time, and for how long."""

    workers: Annotated[
        int | None, Option(min=1, help="Processes that compare; by default one per CPU, at most 8.")
    ] = None
    time_limit_s: Annotated[float, Option(min=0.1, help="Seconds that one comparison may take.")] = 10.0
    memory_limit_mb: Annotated[int, Option(min=64, help="Memory that one comparison may take.")] = 2048
    deadline_s: Annotated[
        float, Option(min=1, help="Seconds after which a request is answered, the rest of it as unknown.")
    ] = 120.0
    queue: Annotated[int, Option(min=1, help="Cases at a time; more are told to come again (429).")] = 16_384
    body_mb: Annotated[int, Option(min=1, help="Megabytes that one request may have.")] = 64


def serve(
    *,
    listening: Listening,
    capacity: Capacity,
    unknown_reward: Annotated[
        float | None,
        Option(help="What an unknown grade is worth to trainers that know only numbers; no default."),
    ] = None,
    answers: Annotated[
        Answers, Option(help="Which answers trainers are paid for: boxed, or all that are found.")
    ] = "boxed",
    grader: OwnGrader = None,
) -> None:
    """Grade responses over HTTP: for OpenRLHF, NeMo Gym, and whatever else can post JSON.

    Routes: /grade (batches; correct, wrong or unknown), /openrlhf, /verify (NeMo Gym), /health, /metrics and
    /docs. Beyond this machine a token is asked for; one is made and printed where none is given. Ctrl-C and
    SIGTERM end it when what is in flight has been answered.

    Example: [bold]tagrpo grade serve --unknown-reward 0[/bold]
    """
    import math

    from evaluator.grading import Grader
    from evaluator.serving import running
    from service.errors import InputError
    from service.web.listening import Address, bind, is_loopback

    if unknown_reward is not None and not math.isfinite(unknown_reward):
        raise InputError(f"--unknown-reward {unknown_reward}: give a number.")
    running.check_installed()
    token = read_token(listening.token_file, none=listening.no_token)
    made = token is None and not listening.no_token and not is_loopback(listening.host)
    if made:
        token = secrets.token_urlsafe(24)
    graded_by = Grader(capacity.workers, capacity.time_limit_s, capacity.memory_limit_mb, own=grader)
    socket = bind(Address(listening.host, listening.port))
    address = Address(listening.host, socket.getsockname()[1])

    def say() -> None:
        words = f"; token: {token}" if made else "; it asks for the token" if token else ""
        output.say(f"tagrpo grades at {address.url}{words} (Ctrl-C ends it)")
        sys.stdout.flush()

    running.serve(
        socket,
        graded_by,
        running.Limits(capacity.deadline_s, capacity.queue, capacity.body_mb),
        unknown_reward=unknown_reward,
        boxed_only=answers == "boxed",
        token=token,
        ready=say,
    )
    output.note("ended")


def read_token(file: Path | None, *, none: bool) -> str | None:
    """Return the token from the file, else from the environment; None where none is given.

    Raises:
        InputError: both a file and none are asked for, the file cannot be read, or the token is short.
    """
    from service.errors import InputError

    if none and file is not None:
        raise InputError("give one of --token-file and --no-token.")
    # Taken out of the environment, so that no child of this process inherits it.
    token = os.environ.pop(TOKEN_VARIABLE, None)
    place = TOKEN_VARIABLE
    if none:
        return None
    if file is not None:
        try:
            token = file.read_text(encoding="ascii").partition("\n")[0]
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{file}: the token cannot be read ({error}).") from error
        place = str(file)
    token = token.strip() if token is not None else None
    if token is not None and (len(token) < SHORTEST_TOKEN or not re.fullmatch(r"[\w.~-]+", token, re.A)):
        raise InputError(f"{place}: take a token of {SHORTEST_TOKEN} or more letters and digits.")
    return token
