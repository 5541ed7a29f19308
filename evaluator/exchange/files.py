"""Files of responses: rows (JSON Lines, CSV, parquet), and those of evaluation tools."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from evaluator.exchange.harnesses import LM_EVAL_COLUMNS, read_lighteval, read_lm_eval
from evaluator.exchange.responses import (
    Format,
    OutsideResponse,
    Parts,
    ResponseFile,
    choose_columns,
    read_responses,
)
from evaluator.grading.extraction import open_thought
from service.errors import InputError, first_lines
from service.questions.columns import RowProblem, value_at
from service.questions.files import BadRow, RawRow, Source, open_file

_ROWS_LOOKED_AT = 200
"""Columns of JSON Lines are taken from the first rows; a column that comes later is an error there."""

_LM_EVAL_TASK = re.compile(r"samples_(.+)_\d{4}-\d\d-\d\dT[\d.-]+")


def open_responses(
    paths: Sequence[Path],
    form: Format | None = None,
    columns: Mapping[str, str] | None = None,
) -> ResponseFile:
    """Open files of one tool; the format follows from their content unless it is given.

    Args:
        columns: by part (see `COLUMNS`) the columns of rows whose names are not the usual ones; `score` is
            also a metric of details, or one of several scorers of an inspect_ai log.
    """
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
    scorer = columns.get("score") or None
    if form == "inspect" or (form is None and (path.suffix.lower() == ".eval" or _is_json_log(path))):
        from evaluator.exchange.inspect_logs import open_log

        return open_log(path, scorer)
    source = open_file(path)
    rows = () if source.columns else islice(source.rows, _ROWS_LOOKED_AT)
    present = source.columns or tuple(
        dict.fromkeys(name for row in rows if isinstance(row, RawRow) for name in row.values)
    )
    if not present:
        list(_read(source, (), _refuse_row, None))  # says what is wrong with which rows
    if form is None:
        if {"doc", "model_response"} <= {*present} or {"__doc__", "__model_response__"} <= {*present}:
            form = "lighteval"
        else:
            form = "lm-eval" if {*present} >= LM_EVAL_COLUMNS else "rows"
    task, names = None, None
    parts: Parts
    if form == "lighteval":
        wanted, parts, scorer = read_lighteval(source, present, scorer)
    elif form == "lm-eval":
        wanted, parts, scorer = read_lm_eval(source, scorer)
        task = _LM_EVAL_TASK.fullmatch(path.stem)
    else:
        names = choose_columns(columns, present, source.name)
        wanted = [name if name in present else name.split(".")[0] for name in names.values()]
        parts, scorer = partial(_parts_of_row, names), names.get("score")
    return ResponseFile(
        source.name,
        form,
        str(source.origin["sha256"]),
        lambda: _read(source, list(dict.fromkeys(wanted)), parts, names),
        scorer=scorer,
        poses=task[1] if task else None,
    )


def _parts_of_row(columns: Mapping[str, str], row: Mapping[str, Any]) -> dict[str, Any]:
    column = columns["response"]
    if column.split(".")[0] not in row and column not in row:
        raise RowProblem(f'it has no "{column}". Available: {", ".join(row) or "none"}')
    return {part: value_at(row, name) for part, name in columns.items()}


def _read(
    source: Source, wanted: Sequence[str], parts: Parts, names: Mapping[str, str] | None
) -> Iterator[OutsideResponse]:
    """Yield the responses of a source's rows; at the end fail with those rows that cannot be used."""
    bad: list[str] = []
    number = 0
    for row in source.read(wanted):
        number += 1
        try:
            if isinstance(row, BadRow):
                raise RowProblem(row.problem)
            values = parts(row.values)
            read = [] if values is None else list(read_responses(row.place, values, names))
        except RowProblem as problem:
            bad.append(f"{row.place}: {problem}")
        else:
            if not bad:
                yield from read
    if not number:
        raise InputError(f"{source.name}: contains no rows.")
    if bad:
        raise InputError(
            f"{source.name}: {len(bad)} of {number} rows cannot be used:{first_lines(bad)}\nA file is "
            "imported completely or not at all; fix these rows."
        )


def _refuse_row(_row: Mapping[str, Any]) -> None:
    raise RowProblem("it has no columns")


def _is_json_log(path: Path) -> bool:
    """Say whether a file looks like an inspect_ai log in JSON: one object with `eval` in it."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return False
    with path.open("rb") as file:
        begin = file.read(4096)
    return b'"version"' in begin and b'"eval"' in begin and b'"run_id"' in begin
