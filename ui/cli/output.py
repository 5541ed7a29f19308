"""How commands speak: tables or JSON on stdout, progress and errors on stderr, exit codes.

Texts of models, files and servers may contain terminal commands (to set a title, to fill a clipboard) and
marks that reverse the reading direction. All printed text passes through `visible`; JSON has its own escapes.
"""

import io
import json
import logging
import os
import re
import shlex
import sys
import time
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any, TextIO, TypeAlias

import typer

from evaluator.reports import document as documents
from service.errors import InputError
from service.stopping import deliver_signal
from service.telling import TellStage, tell_nobody
from ui.characters import one_line, visible
from ui.cli.lazy import lazy_imports

with lazy_imports():
    from rich import console, progress, text
    from rich import table as tables

PLAIN_PROGRESS_EVERY_S = 5.0
PIPED_WIDTH = 10_000

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_HIDDEN = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Beside C0, which JSON escapes itself."""

ITEMS_SHOWN = 20
WIDEST_TABLE = 180
LONGEST_MAPPING = 120
LONGEST_CELL = 50
_ID = re.compile("[a-z]+_[0-9a-f]{24}|[0-9a-f]{64}")
_NAME = re.compile(r"[\w.@:/-]{1,130}", re.ASCII)  # which other commands take
_ID_SHOWN = 12  # long enough for `show`
_STRONG = re.compile(r"\*\*([^*]+)\*\*")
EMPTY: tuple[object, ...] = (None, "", [], {})
RARE = (
    *("images", "new_images", "golds_that_are_solutions", "missing_for_good", "overruled", "missing"),
    *("suspects", "unpriced", "unreadable_questions", "final_questions", "doubtful_usd"),
)
"""Numbers that text leaves out if they are 0."""
LABELS = {
    "fewest_samples": "minimum samples per problem",
    "missing_for_good": "permanently missing samples",
    "most_samples": "maximum samples per problem",
    "overruled": "grades changed by people",
    "proposals": "proposed candidates",
    "spec": "config",
}
"""Labels of names that are not plain words."""

DONE, FAILED, USAGE, ATTENTION = range(4)
INTERRUPTED, TERMINATED = 130, 143  # as shells say it: 128 + the signal
EXIT_CODES = {
    DONE: "done",
    FAILED: "failure of a run, or a bug",
    USAGE: "invalid usage or input",
    ATTENTION: "finished, but something needs attention",
    INTERRUPTED: "interrupted (Ctrl-C)",
    TERMINATED: "terminated (SIGTERM)",
}
"""The exit codes of all commands; docs/concepts.md has them too."""

QUIET = "Print results and errors only."
VERBOSE = "Print the outcome of each request, and the traceback of an error."

ROOMS = logging.getLogger("tagrpo")
"""What rooms below say while they work; `--quiet` and `--verbose` set its level."""


def prepare_streams() -> None:
    """Make stdout and stderr take any text: nowhere if they are closed, escaped where they are not UTF-8."""
    ROOMS.handlers = [_OfRooms()]
    ROOMS.setLevel(logging.WARNING)
    sys.stdout, sys.stderr = (_usable(stream) for stream in (sys.stdout, sys.stderr))


class _OfRooms(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        (write_line if record.levelno < logging.WARNING else warn)(record.getMessage())


def _usable(stream: TextIO | None) -> TextIO:
    if stream is None:  # closed by the caller, as in `tagrpo ... >&-`
        return open(os.devnull, "w", encoding="utf-8")
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream


def forget_stdout() -> None:
    """Let what is still to be written vanish, so that the interpreter does not complain at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _console(*, stderr: bool = False) -> "console.Console":
    """Return a console on the current stdout or stderr (tests replace them); a piped table is not folded."""
    width = None if stderr or sys.stdout.isatty() else PIPED_WIDTH
    return console.Console(stderr=stderr, highlight=False, emoji=False, width=width)


def write_line(line: str) -> None:
    """Write a line of another program to stderr, without its colours."""
    sys.stderr.write(visible(_COLOURS.sub("", line)) + "\n")
    sys.stderr.flush()


def write_json(value: Any) -> None:
    """Write a value to stdout, all ASCII where stdout is not UTF-8; a dataclass becomes an object."""
    unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(value, ensure_ascii=not unicode, indent=2, default=_plain)
    sys.stdout.write(_HIDDEN.sub(lambda hidden: f"\\u{ord(hidden[0]):04x}", text) + "\n")


def plain(value: Any) -> Any:
    """Return a value as JSON has it: mappings, lists, texts, numbers."""
    return json.loads(json.dumps(value, default=_plain))


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return dict(value) if isinstance(value, Mapping) else str(value)


Part: TypeAlias = str | documents.Block | documents.Document | None
"""What commands print: lines, parts of documents, documents; None is left out."""


def value_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> documents.Table:
    """Return a table of values; columns of numbers are aligned on the right."""
    return documents.Table(tuple(columns), rows, words=len(columns))


def say(*parts: Part) -> None:
    """Print parts one after the other, without any an empty line. No markup is read, no line is cut.

    An empty line precedes each heading but the first part.
    """
    for place, part in enumerate(parts or ("",)):
        match part:
            case str():
                _console().print(visible(part), markup=False, soft_wrap=True)
            case documents.Heading(heading):
                _console().print("\n" * bool(place) + visible(heading), markup=False, style="bold")
            case documents.Text(text):
                say(_STRONG.sub(r"\1", text))
            case documents.Points(texts):
                say(*("- " + _STRONG.sub(r"\1", text) for text in texts))
            case documents.Commands(lines):
                say(*(f"  {line}" for line in lines))
            case documents.Picture(name, alt, _):
                say(f"[{name}: {alt}]")
            case documents.Table():
                if part.title:
                    _console().print("\n" * bool(place) + visible(part.title), markup=False, style="bold")
                _print_table(part)
            case documents.Document(blocks, notes, title):
                begin = [documents.Heading(title)] if title else []
                end = ["" if blocks else None, *(f"- {note}" for note in notes)] if notes else []
                say(*begin, *blocks, *end)


def record_parts(record: Mapping[str, Any], title: str = "") -> Iterator[Part]:
    """Yield the values that fit on a line, then tables and sections; empty values are left out."""
    # keys that are data, such as names of models and findings, stay as they are
    data = title.rpartition(" ")[0].endswith("by") or title.endswith(("errors", "findings", "versions"))
    items = [(str(key), value) for key, value in record.items() if not _left_out(key, value)]
    named = {_label(key) if key.isidentifier() and not data else key: value for key, value in items}
    lines = {name: line for name, value in named.items() if (line := one_line_value(value)) is not None}
    if title and lines:
        yield documents.Heading(title)
    width = max(map(len, lines), default=0)
    for name, line in lines.items():
        yield f"{name:{width}}  {line}"
    for name in [name for name in named if name not in lines]:
        value, section = named[name], f"{title} > {name}" if title and name else title or name
        if isinstance(value, str):
            yield from (documents.Heading(section), value)
        elif isinstance(value, Mapping):
            yield from record_parts(value, section)
        else:
            yield from _list_parts(value, section)


def _label(name: str) -> str:
    return LABELS.get(name) or name.replace("_", " ")


def _left_out(name: object, value: Any) -> bool:
    return value in EMPTY or (value == 0 and name in RARE)


def list_table(rows: Sequence[Mapping[str, Any]], columns: str) -> documents.Table:
    """Return a table with these columns of the rows, as `Terminal.rows` has them; long texts are cut."""
    paths = {heading: name or heading for heading, _, name in (c.partition("=") for c in columns.split())}
    cells = [[_short(_value(row, path)) for path in paths.values()] for row in rows]
    return value_table([heading.replace("_", " ") for heading in paths], cells)


def _value(row: Any, path: str) -> Any:
    for name in path.split("."):
        row = (row or {}).get(name)
    return row


def _short(value: Any) -> object:
    if not isinstance(value, str):
        return value
    if not value:
        return None
    if _ID.fullmatch(value):
        return value[:_ID_SHOWN]
    return value if _NAME.fullmatch(value) else one_line(value, LONGEST_CELL)


def _list_parts(values: Sequence[Any], title: str) -> Iterator[Part]:
    first = plain(values[:ITEMS_SHOWN])
    if (table := _table(first)) is not None:
        yield from (documents.Heading(title), table)
    else:
        for number, value in enumerate(first, start=1):
            section = f"{title} {number}" if len(values) > 1 else title
            yield from record_parts(value if isinstance(value, Mapping) else {"": value}, section)
    if len(values) > ITEMS_SHOWN:
        yield f"and {len(values) - ITEMS_SHOWN:,} more (--json)"


def _table(rows: Sequence[Any]) -> documents.Table | None:
    """Return records as a table; None if a cell needs several lines or the table is too wide."""
    if not all(isinstance(row, Mapping) for row in rows):
        return None
    names = dict.fromkeys(name for row in rows for name, each in row.items() if not _left_out(name, each))
    lines = [[one_line_value(row.get(name)) for name in names] for row in rows]
    if any(line is None for row in lines for line in row):
        return None
    widths = [max(len(str(cell)) for cell in column) + 2 for column in zip(names, *lines, strict=True)]
    if sum(widths) > WIDEST_TABLE:
        return None
    cells = [[*map(row.get, names)] for row in rows]
    return value_table([_label(name) for name in names], cells)


def one_line_value(value: Any) -> str | None:
    """Return a value on one line; None if it needs more."""
    if value in EMPTY:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 1_000 else f"{value:.4g}"
    if isinstance(value, str):
        return None if "\n" in value else value
    if isinstance(value, Mapping):
        value = {key: each for key, each in value.items() if each not in EMPTY}
        if not value:
            return "-"
    items = list(value.values()) if isinstance(value, Mapping) else plain(value[:ITEMS_SHOWN])
    texts = [None if isinstance(each, Mapping | list) else one_line_value(each) for each in items]
    if None in texts:
        return None
    if isinstance(value, Mapping):
        line = ", ".join(f"{key}={text}" for key, text in zip(value, texts, strict=True))
        return line if len(line) <= LONGEST_MAPPING else None
    if len(items) == 2 and all(isinstance(each, float) for each in items):
        return " to ".join(map(str, texts))
    more = [f"and {len(value) - ITEMS_SHOWN:,} more (--json)"] if len(value) > ITEMS_SHOWN else []
    return ", ".join([*map(str, texts), *more])


def next_page(after: object, total: int | None = None) -> str | None:
    """Say how a list goes on after this page (None: it ends here), and how many rows there are."""
    if after is None:
        return None
    words = shlex.quote(str(after))
    return f"more: --after {words}" if total is None else f"{total:,} in total; see more with --after {words}"


def plural(count: int, noun: str) -> str:
    """Return the count with its noun: `1 row`, `7,500 rows`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def confirm_removal(what: str, details: str = "") -> None:
    """Ask on stderr before something is removed, which cannot be undone; without a terminal, refuse."""
    if not sys.stdin.isatty():
        raise InputError(f"removing {what} cannot be undone. Pass --yes to confirm without a prompt.")
    typer.confirm(f"Remove {what}{details}? This cannot be undone.", err=True, abort=True)


def set_level(*, quiet: bool, verbose: bool) -> None:
    """Follow `--quiet` and `--verbose`."""
    if quiet or verbose:
        ROOMS.setLevel(logging.ERROR if quiet else logging.INFO)


def is_quiet() -> bool:
    """Return whether `--quiet` was given."""
    return ROOMS.level > logging.WARNING


def is_verbose() -> bool:
    """Return whether `--verbose` was given."""
    return ROOMS.level == logging.INFO


class Terminal:
    """Prints what the running command has to report, as text or as JSON."""

    as_json = False

    def emit(self, record: Mapping[str, Any] | object, *parts: Part) -> None:
        """Print the record as one JSON object, if JSON is wanted; else the parts, which say the same."""
        if self.as_json:
            write_json(record)
        else:
            say(*parts)

    def show(self, record: Mapping[str, Any], *notes: Part, hidden: Collection[str] = ()) -> None:
        """Print the record as one JSON object, or as text with the same names except `hidden`, then notes."""
        if self.as_json:
            write_json(record)
            return
        values = {  # of a list only the first items are shown, and so made plain
            name: value if isinstance(value, list) else plain(value)
            for name, value in record.items()
            if name not in hidden
        }
        say(*record_parts(values), *notes)

    def rows(
        self, key: str, rows: Sequence[Any], columns: str, *notes: Part, empty: str | None = None, **more: Any
    ) -> None:
        """Print rows as a table, or as the list `key` of a JSON object with the values `more`.

        `columns` are names in the rows' JSON, separated by blanks; HEADING=NAME gives a column a heading.
        `empty` is printed instead of a table without rows. With `after` a note says how the list continues.
        """
        if self.as_json:
            write_json({**more, key: rows})
        elif rows or empty is None:
            page = next_page(more.get("after"), more.get("total"))
            say(list_table(plain(rows), columns), *notes, page)
        else:
            say(empty)

    @contextmanager
    def progress(self, label: str, *, quiet: bool = False) -> Iterator[TellStage]:
        """Show on stderr how far long work is: a bar on a terminal, elsewhere a line now and then."""
        if quiet or self.as_json or is_quiet():
            yield tell_nobody
        elif sys.stderr.isatty():
            columns = (
                progress.TextColumn("{task.description}", markup=False),
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
                progress.TimeRemainingColumn(),
                progress.TextColumn("{task.fields[detail]}", markup=False),
            )
            with progress.Progress(*columns, console=_console(stderr=True), transient=True) as bar:
                task = bar.add_task(visible(label), total=None, detail="")

                def move(stage: str, done: int, total: int | None, detail: str = "") -> None:
                    bar.update(task, completed=done, total=total, detail=visible(f"{stage} {detail}".strip()))

                yield move
        else:
            line = printed = ""
            last = time.monotonic()

            def write(stage: str, done: int, total: int | None, detail: str = "") -> None:
                nonlocal line, printed, last
                of = "" if total is None else f"/{total:,}"
                line = f"{label}: {done:,}{of}  {f'{stage} {detail}'.strip()}".rstrip()
                if line != printed and time.monotonic() >= last + PLAIN_PROGRESS_EVERY_S:
                    write_line(line)
                    printed, last = line, time.monotonic()

            yield write
            if line != printed:
                write_line(line)


terminal = Terminal()


def print_error(message: str) -> None:
    """Print `error: message` on stderr; with `--verbose` the traceback of what is being handled before it."""
    if is_verbose() and isinstance(sys.exception(), Exception):
        write_line(traceback.format_exc().rstrip())
    _print_labeled("error: ", "bold red", message)


def warn(message: str) -> None:
    """Print `warning: message` on stderr."""
    _print_labeled("warning: ", "bold yellow", message)


def needs_attention(message: str) -> typer.Exit:
    """Print a warning; return the exit to raise."""
    warn(message)
    return typer.Exit(ATTENTION)


def failed(message: str) -> typer.Exit:
    """Print an error; return the exit to raise."""
    print_error(message)
    return typer.Exit(FAILED)


def unfinished(reasons: "set[str | None]", message: str) -> typer.Exit:
    """Return the exit of runs that stopped for these reasons: a failure, unless the user asked for them."""
    return (needs_attention if reasons <= {None, "budget", "requests", "enough"} else failed)(message)


def end_if_interrupted(stopped: str | None) -> None:
    """End with the signal that stopped work, now that the requests in flight are stored."""
    if stopped == "interrupted":
        deliver_signal()


def note(*messages: str) -> None:
    """Print remarks on stderr, where they disturb no pipe; none with `--quiet`."""
    for message in messages if not is_quiet() else ():
        _console(stderr=True).print(visible(message), markup=False, soft_wrap=True)


def _print_labeled(label: str, style: str, message: str) -> None:
    _console(stderr=True).print(text.Text.assemble((label, style), visible(message)), soft_wrap=True)


def _print_table(table: documents.Table) -> None:
    drawn = tables.Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(table.columns):
        numeric = all(type(row[index]) in (int, float, type(None)) for row in table.rows)
        right = index >= table.words or (numeric and bool(table.rows))
        drawn.add_column(text.Text(visible(column)), justify="right" if right else "left", overflow="fold")
    for row in table.rows:
        cells = (each if isinstance(each, str) else one_line_value(each) or str(each) for each in row)
        drawn.add_row(*(text.Text(visible(cell)) for cell in cells))  # markup read into LaTeX would garble it
    _console().print(drawn)
