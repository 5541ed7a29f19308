"""How commands speak: tables or JSON on stdout, progress and errors on stderr, exit codes."""

import io
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Protocol, TextIO

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

DbOption = Annotated[
    Path | None,
    typer.Option("--db", help="Database file; else TAGRPO_DB, else ./tagrpo.db.", show_default=False),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]

PLAIN_PROGRESS_EVERY_S = 5.0
PIPED_WIDTH = 200


def prepare_streams() -> None:
    """Make stdout and stderr take any text: nowhere if they are closed, escaped where they are not UTF-8."""
    sys.stdout, sys.stderr = (_usable(stream) for stream in (sys.stdout, sys.stderr))


def _usable(stream: TextIO | None) -> TextIO:
    if stream is None:  # closed by the caller, as in `tagrpo ... >&-`
        return open(os.devnull, "w", encoding="utf-8")
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream


def forget_stdout() -> None:
    """Let what is still to be written vanish, so that the interpreter does not complain at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def console() -> Console:
    """Return a console on today's stdout (tests replace it), wide enough for tables when piped."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)


def say(text: str = "") -> None:
    """Print text as it is: no markup is read from it, no line is cut."""
    console().print(text, markup=False, soft_wrap=True)


def heading(text: str) -> None:
    """Print a heading."""
    console().print(text, markup=False, style="bold")


def print_json(result: Mapping[str, Any]) -> None:
    """Print the machine-readable result: one JSON object on stdout, all ASCII where stdout is not UTF-8."""
    unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    sys.stdout.write(json.dumps(result, ensure_ascii=not unicode, indent=2) + "\n")


def print_error(message: str) -> None:
    """Print `error: message` on stderr."""
    _complain("error: ", "bold red", message)


def note(message: str) -> None:
    """Print a remark on stderr, where it disturbs no pipe."""
    Console(stderr=True, highlight=False).print(message, markup=False, soft_wrap=True)


def needs_attention(message: str) -> typer.Exit:
    """Say on stderr what needs attention and return the exit (code 1) to raise."""
    _complain("attention: ", "bold yellow", message)
    return typer.Exit(1)


def _complain(label: str, style: str, message: str) -> None:
    Console(stderr=True, highlight=False).print(Text.assemble((label, style), message), soft_wrap=True)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str | None = None) -> None:
    """Print rows as a table; numbers stand on the right."""
    drawn = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        numeric = bool(rows) and all(
            isinstance(row[index], int | float) or row[index] is None for row in rows
        )
        drawn.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(_cell(value) for value in row))
    console().print(drawn)


def _cell(value: object) -> Text:
    """Return a cell as plain text: markup read into LaTeX would garble it."""
    if value is None:
        return Text("-")
    if isinstance(value, float):
        return Text(f"{value:.4g}")
    if isinstance(value, int):
        return Text(f"{value:,}")
    return Text(str(value))


class Progress(Protocol):
    """Long work reports here: how much is done of how much, and a few words on what happens now."""

    def update(self, done: int, total: int | None = None, detail: str = "") -> None: ...


@contextmanager
def progress(label: str, *, quiet: bool = False) -> Iterator[Progress]:
    """Show a bar on a terminal, a plain line now and then elsewhere, nothing when quiet; all on stderr."""
    if quiet:
        yield _Silent()
    elif sys.stderr.isatty():
        from rich import progress as bars

        columns = (
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TimeRemainingColumn(),
            bars.TextColumn("{task.fields[detail]}", markup=False),
        )
        with bars.Progress(*columns, console=Console(stderr=True), transient=True) as shown:
            yield _Bar(shown, shown.add_task(escape(label), total=None, detail=""))
    else:
        plain = _Plain(label)
        yield plain
        plain.finish()


class _Silent:
    def update(self, done: int, total: int | None = None, detail: str = "") -> None:
        pass


class _Bar:
    def __init__(self, shown: Any, task: Any) -> None:
        self._shown, self._task = shown, task

    def update(self, done: int, total: int | None = None, detail: str = "") -> None:
        self._shown.update(self._task, completed=done, total=total, detail=detail)


class _Plain:
    def __init__(self, label: str) -> None:
        self._label = label
        self._last = time.monotonic()
        self._line = ""
        self._printed = ""

    def update(self, done: int, total: int | None = None, detail: str = "") -> None:
        of = f"/{total:,}" if total is not None else ""
        self._line = f"{self._label}: {done:,}{of}" + (f"  {detail}" if detail else "")
        if time.monotonic() - self._last >= PLAIN_PROGRESS_EVERY_S:
            self._print()

    def finish(self) -> None:
        if self._line and self._line != self._printed:
            self._print()

    def _print(self) -> None:
        self._last = time.monotonic()
        self._printed = self._line
        sys.stderr.write(self._line + "\n")
        sys.stderr.flush()
