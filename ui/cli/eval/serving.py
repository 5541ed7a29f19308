"""`tagrpo eval serve`: the grader over HTTP, for trainers."""

import math
import re
import secrets
import sys
from pathlib import Path
from typing import Annotated

from typer import Option

from evaluator.grading.types import Answers
from service.errors import InputError, PrerequisiteError
from ui.cli import output
from ui.cli.settings import OwnGrader

TOKEN_VARIABLE = "TAGRPO_GRADE_TOKEN"
SHORTEST_TOKEN = 16


def serve(
    host: str = "127.0.0.1",
    port: int = 8600,
    token_file: Path | None = None,
    no_token: bool = False,
    workers: Annotated[int | None, Option(min=1)] = None,
    time_limit_s: Annotated[float, Option(min=0.1)] = 10.0,
    memory_limit_mb: Annotated[int, Option(min=64)] = 2048,
    deadline_s: Annotated[float, Option(min=1)] = 120.0,
    queue: Annotated[int, Option(min=1)] = 16_384,
    body_mb: Annotated[int, Option(min=1)] = 64,
    unknown_reward: float | None = None,
    answers: Answers = "boxed",
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
    from evaluator.grading import Grader
    from service.web.listening import Address, bind, is_loopback, read_secret

    if unknown_reward is not None and not math.isfinite(unknown_reward):
        raise InputError(f"--unknown-reward {unknown_reward}: give a number.")
    try:
        from evaluator.serving.app import grading_app
        from evaluator.serving.app import serve as run_server
        from evaluator.serving.desk import Desk
    except ImportError as error:
        raise PrerequisiteError(
            f"the grading server needs {error.name}. Install it with `pip install 'tagrpo[serve]'`."
        ) from error
    if no_token and token_file is not None:
        raise InputError("give only one of --token-file and --no-token.")
    token = None if no_token else read_secret(TOKEN_VARIABLE, token_file)
    if token is not None and not re.fullmatch(rf"[\w.~-]{{{SHORTEST_TOKEN},}}", token := token.strip(), re.A):
        raise InputError(
            f"{token_file or TOKEN_VARIABLE}: the token is too short. Use at least {SHORTEST_TOKEN} letters "
            "and digits."
        )
    made = token is None and not no_token and not is_loopback(host)
    if made:
        token = secrets.token_urlsafe(24)
    graded_by = Grader(workers, time_limit_s, memory_limit_mb, own=grader)
    socket = bind(Address(host, port))
    address = Address(host, socket.getsockname()[1])

    desk = Desk(graded_by, deadline_s)
    app = grading_app(
        desk,
        most_cases=queue,
        most_body_bytes=body_mb * 10**6,
        unknown_reward=unknown_reward,
        boxed_only=answers == "boxed",
        token=token,
    )
    words = f"; token: {token}" if made else "; requests need the token" if token else ""
    output.say(f"tagrpo grader at {address.url}{words} (Ctrl-C stops it)")
    sys.stdout.flush()
    run_server(socket, app, desk)
    output.note("ended")
