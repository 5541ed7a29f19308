"""Exit codes, the same for all commands; `tagrpo --help` and docs/concepts.md say them too."""

from enum import IntEnum

import typer

from ui.cli import output


class Code(IntEnum):
    """The exit codes."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    ATTENTION = 3
    INTERRUPTED = 130  # as shells say it: 128 + SIGINT
    TERMINATED = 143  # 128 + SIGTERM


MEANINGS = {
    Code.DONE: "done",
    Code.FAILED: "failure of a run, or a bug",
    Code.USAGE: "invalid usage or input",
    Code.ATTENTION: "finished, but something needs attention",
    Code.INTERRUPTED: "interrupted (Ctrl-C)",
    Code.TERMINATED: "terminated (SIGTERM)",
}

ASKED_FOR = frozenset({"budget", "requests", "enough"})
"""Reasons to stop that were asked for: a run that reached its cap did what it was told."""


def needs_attention(message: str) -> typer.Exit:
    """Say on stderr what of a command that is done needs attention; return the exit to raise."""
    output.complain("warning: ", "bold yellow", message)
    return typer.Exit(Code.ATTENTION)


def failed(message: str) -> typer.Exit:
    """Say on stderr what failed; return the exit to raise."""
    output.print_error(message)
    return typer.Exit(Code.FAILED)


def end_if_interrupted(stopped: str | None) -> None:
    """End with the signal that stopped work, now that the requests in flight are stored."""
    if stopped == "interrupted":
        from service.models.stopping import deliver_signal

        deliver_signal()


def unfinished(reasons: "set[str | None]", message: str) -> typer.Exit:
    """Return the exit of runs that stopped for these reasons: a failure, unless these were asked for."""
    return (needs_attention if reasons - {None} <= ASKED_FOR else failed)(message)
