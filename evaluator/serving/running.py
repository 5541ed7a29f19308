"""Running the grading server until a signal; what is in flight is answered first."""

import socket
from collections.abc import Callable
from dataclasses import dataclass

from evaluator.grading import Grader
from service.errors import PrerequisiteError
from service.web.listening import run_until_signal

_KEEP_ALIVE_S = 30
_GRACE_S = 10
"""For what is not graded by its deadline, when the server ends."""


@dataclass(frozen=True)
class Limits:
    """What the server takes in, and how long it takes.

    Attributes:
        deadline_s: seconds after which a request is answered; what is not compared by then is unknown.
        queue: cases of all requests together; beyond it the answer is 429.
        body_mb: megabytes of one body; all bodies together may have eight times as many.
    """

    deadline_s: float = 120.0
    queue: int = 16_384
    body_mb: int = 64


def check_installed() -> None:
    """Refuse to go on without what the server is made of.

    Raises:
        PrerequisiteError: it is not installed.
    """
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise PrerequisiteError(
            f"the grading server needs {error.name}. Install it with `pip install 'tagrpo[serve]'`."
        ) from error


def serve(
    listening: socket.socket,
    grader: Grader,
    limits: Limits,
    *,
    unknown_reward: float | None = None,
    boxed_only: bool = True,
    token: str | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Answer requests until Ctrl-C or SIGTERM; then answer what is in flight and return.

    `unknown_reward` and `boxed_only` are those of the routes for trainers; `token` lets in who sends it
    (None: everybody). `ready` is called when requests are answered from now on. At the end the grader is
    closed.

    Raises:
        PrerequisiteError: a package is not installed.
    """
    check_installed()
    import uvicorn

    from evaluator.serving.admission import Queue
    from evaluator.serving.app import Rewards, grading_app
    from evaluator.serving.desk import Desk

    body_bytes = limits.body_mb * 10**6
    queue = Queue(limits.queue, 8 * body_bytes, body_bytes)
    rewards = Rewards(unknown_reward, "boxed" if boxed_only else "all")
    desk = Desk(grader, limits.deadline_s)
    app = grading_app(desk, queue, rewards, token, ready)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        ws="none",
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=int(limits.deadline_s) + _GRACE_S,
    )
    try:
        run_until_signal(uvicorn.Server(config), listening)
    finally:
        desk.close()  # also after a second Ctrl-C, which waits for nobody
