"""Files of responses: rows (JSON Lines, CSV, parquet), and those of evaluation tools."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from evaluator.exchange import lm_eval
from evaluator.exchange.lighteval import open_lighteval
from evaluator.exchange.response_file import Format, ResponseFile, rows_file, unusable
from evaluator.exchange.responses import OutsideResponse, choose_columns, read_responses
from evaluator.grading.extraction import open_thought
from service.errors import InputError
from service.questions.columns import RowProblem
from service.questions.files import BadRow, RawRow, Source, open_file

_ROWS_LOOKED_AT = 200
"""Columns of JSON Lines are taken from the first rows; a column that comes later is an error there."""


def open_responses(
    paths: Sequence[Path],
    form: Format | None = None,
    columns: Mapping[str, str] | None = None,
) -> ResponseFile:
    """Open files of one tool; the format follows from their content unless it is given.

    Args:
        columns: by part (see `COLUMNS`) the columns of rows whose names are not the usual ones; `score` is
            also a metric of details, or one of several scorers of an inspect_ai log.

    Raises:
        InputError: a file that cannot be read, columns that are missing, files of several formats, one twice.
    """
    if not paths:
        raise InputError("give at least one file of responses.")
    if len({path.resolve() for path in paths}) < len(paths):
        raise InputError("a file is given twice, so its responses would count twice. Remove one.")
    opened = [_open(path, form, columns or {}) for path in paths]
    first = opened[0]
    for path, other in zip(paths, opened, strict=True):
        for what in ("form", "model", "scorer", "settings"):
            if getattr(other, what) != getattr(first, what):
                words = {"form": "format"}.get(what, what)
                raise InputError(
                    f"{path}: the {words} is {getattr(other, what)}, but in {paths[0]} it is "
                    f"{getattr(first, what)}. Import the files one by one."
                )
    if len(opened) == 1:
        return first
    together = hashlib.sha256("".join(each.sha256 for each in opened).encode()).hexdigest()

    def read() -> Iterator[OutsideResponse]:
        for each in opened:
            yield from each.read()

    return replace(first, name=f"{first.name} and {len(opened) - 1} more", sha256=together, read=read)


def with_thoughts_opened(file: ResponseFile) -> ResponseFile:
    """Return a file whose prompts ended in `<think>`, as templates have it, with that in its responses."""

    def read() -> Iterator[OutsideResponse]:
        for response in file.read():
            text = response.text
            yield response if text is None else response.model_copy(update={"text": open_thought(text)})

    return replace(file, settings={**file.settings, "thoughts": "started in the prompt"}, read=read)


def _open(path: Path, form: Format | None, columns: Mapping[str, str]) -> ResponseFile:
    suffix, scorer = path.suffix.lower(), columns.get("score") or None
    if form == "inspect" or (form is None and (suffix == ".eval" or _is_json_log(path))):
        from evaluator.exchange.inspect_logs import open_log

        return open_log(path, scorer)
    source = open_file(path)
    present = source.columns or _columns_of(source)
    if form is None:
        if {"doc", "model_response"} <= {*present} or {"__doc__", "__model_response__"} <= {*present}:
            form = "lighteval"
        else:
            form = "lm-eval" if {*present} >= lm_eval.COLUMNS else "rows"
    if form == "lighteval":
        return open_lighteval(source, present, scorer)
    if form == "lm-eval":
        return lm_eval.open_lm_eval(source, path.stem, scorer)
    return _open_rows(source, present, columns)


def _open_rows(source: Source, present: tuple[str, ...], columns: Mapping[str, str]) -> ResponseFile:
    """Open rows of any origin by the names of their columns."""
    chosen = choose_columns(columns, present, source.name)

    def responses(row: RawRow) -> Iterator[OutsideResponse]:
        column = chosen["response"]
        if column.split(".")[0] not in row.values and column not in row.values:
            there = ", ".join(row.values) or "none"
            raise RowProblem(f'it has no "{column}". Available: {there}')
        return read_responses(row.place, row.values, chosen)

    names = (name if name in present else name.split(".")[0] for name in chosen.values())
    return rows_file(source, "rows", list(dict.fromkeys(names)), responses, chosen.get("score"))


def _is_json_log(path: Path) -> bool:
    """Say whether a file looks like an inspect_ai log in JSON: one object with `eval` in it."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return False
    with path.open("rb") as file:
        begin = file.read(4096)
    return b'"version"' in begin and b'"eval"' in begin and b'"run_id"' in begin


def _columns_of(source: Source) -> tuple[str, ...]:
    rows = list(islice(source.rows, _ROWS_LOOKED_AT))
    columns = tuple(dict.fromkeys(name for row in rows if isinstance(row, RawRow) for name in row.values))
    if not columns:
        bad = [
            f"{row.place}: {row.problem if isinstance(row, BadRow) else 'it has no columns'}" for row in rows
        ]
        which = (
            f"the first {len(rows)} rows"
            if len(rows) == _ROWS_LOOKED_AT
            else f"{len(rows)} of {len(rows)} rows"
        )
        raise unusable(source.name, bad, which)
    return columns
