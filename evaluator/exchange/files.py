"""Files of responses: rows (JSON Lines, CSV, parquet), and those of evaluation tools.

Those of lighteval and lm-evaluation-harness have one row per problem with all responses to it. Details of
lighteval have a score of the responses together. Samples of lm-evaluation-harness have a row per filter, and
metrics of what the filter took out of a response.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from evaluator.exchange.responses import (
    Format,
    OutsideResponse,
    Parts,
    ResponseFile,
    choose_columns,
    read_responses,
    with_thought,
)
from evaluator.grading.extraction import open_thought
from service.errors import InputError, first_lines
from service.questions.columns import CANDIDATES, Columns, RowProblem, lacking_columns, usual_column, value_at
from service.questions.files import BadRow, RawRow, Source, open_file

LM_EVAL_COLUMNS = {"doc_id", "doc", "resps", "filtered_resps", "filter"}


def read_lighteval(
    source: Source, present: tuple[str, ...], metric: str | None
) -> tuple[list[str], Parts, str | None]:
    """Return the columns to read of details, what returns the parts of a row, and the metric of the score.

    The score of a row counts only if the row has one response.
    """
    mark = "__" if "__doc__" in present else ""  # in some versions
    columns = [f"{mark}{each}{mark}" for each in ("doc", "model_response", "metric")]
    first = next((row for row in source.rows if isinstance(row, RawRow)), None)
    metrics = first.values.get(columns[2]) or {} if first else {}
    chosen = metric or next((name for name, value in metrics.items() if value is not None), None)

    def parts(row: Mapping[str, Any]) -> dict[str, Any]:
        doc, replied, scores = map(row.get, columns)
        if not isinstance(doc, Mapping) or not isinstance(replied, Mapping):
            raise RowProblem(f'"{columns[0]}" or "{columns[1]}" is not an object')
        texts, thoughts = list(replied.get("text") or []), replied.get("reasonings") or []
        if not texts:
            raise RowProblem("it has no response text. Log-likelihood tasks cannot be imported")
        if len(thoughts) == len(texts):
            texts = [with_thought(thought, text) for thought, text in zip(thoughts, texts, strict=True)]
        tokens = replied.get("output_tokens") or []
        choices, gold = doc.get("choices") or [], doc.get("gold_index")
        gold = gold[0] if isinstance(gold, list) and gold else gold
        place = int(gold) if isinstance(gold, int | str) and str(gold).isdecimal() else len(choices)
        return {
            "response": texts,
            "question": doc.get("query"),
            "id": doc.get("id"),
            "answer": choices[place] if place < len(choices) else None,
            "images": doc.get("images"),
            "completion_tokens": [len(each) for each in tokens] if len(tokens) == len(texts) else None,
            "score": (scores or {}).get(chosen) if len(texts) == 1 else None,
        }

    return [name for name in columns if name in present], parts, chosen


def read_lm_eval(source: Source, scorer: str | None) -> tuple[list[str], Parts, str | None]:
    """Return the columns to read of samples, what returns a row's parts, and the metric and filter of scores.

    A task of two filters has every response twice: the rows of one are read. `scorer` names metric and filter
    as the harness's results do (`exact_match,strict-match`); by default the first of each. If a
    row has several responses, its metric is about all of them, so none of them gets a score.
    """
    rows = [row.values for row in source.rows if isinstance(row, RawRow)]
    present = dict.fromkeys(name for row in rows for name in row)
    filters = dict.fromkeys(str(row.get("filter")) for row in rows)
    listed = (row["metrics"] for row in rows if isinstance(row.get("metrics"), list))
    metrics = dict.fromkeys(str(name) for names in listed for name in names)
    metric, _, of_filter = (scorer or "").partition(",")
    metric, chosen = metric or next(iter(metrics), ""), of_filter or next(iter(filters), "")
    if chosen not in filters or (metric and metric not in present):
        raise InputError(
            f"{source.name}: no scorer {scorer!r}. Give METRIC,FILTER. Metrics: "
            f"{', '.join(metrics) or 'none'}. Filters: {', '.join(filters)}."
        )

    def parts(row: Mapping[str, Any]) -> dict[str, Any] | None:
        if lacking := LM_EVAL_COLUMNS - {*row}:
            raise RowProblem(f'it has no "{min(lacking)}", so it is not an lm-evaluation-harness sample')
        if row["filter"] != chosen:
            return None
        texts = _first(row["resps"])
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise RowProblem('"resps" has no text. Log-likelihood tasks cannot be imported')
        alone = len(texts) == 1
        return {
            "response": texts,
            "question": _asked(row),
            "id": row["doc_id"],
            "answer": _first(row.get("target")),
            "score": row.get(metric) if alone else None,
            "extracted": _first(row["filtered_resps"]) if alone else None,
        }

    wanted = [name for name in present if name in {*LM_EVAL_COLUMNS, "target", "arguments", metric}]
    return wanted, parts, f"{metric},{chosen}" if metric and chosen else metric or None


def _asked(row: Mapping[str, Any]) -> str | None:
    """Return a document's question, or the prompt if the question lacks other parts of the document."""
    doc = row["doc"] if isinstance(row.get("doc"), Mapping) else {}
    column = usual_column(CANDIDATES["question"], list(doc))
    text = doc.get(column) if column else None
    if isinstance(text, str) and not lacking_columns(doc, Columns(question=column), text):
        return text
    asked = row.get("arguments")
    first = next(iter(asked.values()), None) if isinstance(asked, Mapping) else _first(asked)
    prompt = _first(first.get("arg_0") if isinstance(first, Mapping) else _first(first))
    return prompt if isinstance(prompt, str) else None


def _first(value: Any) -> Any:
    return (value[0] if value else None) if isinstance(value, list) else value


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
