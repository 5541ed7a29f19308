"""Samples of lm-evaluation-harness: a row a problem and filter, with all responses to it."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from evaluator.exchange.readers.response_file import ResponseFile, RowFile, checked
from evaluator.exchange.responses import OutsideResponse, read_responses
from service.errors import InputError
from service.questions.columns import CANDIDATES, Columns, RowProblem, lacking_columns, usual_column
from service.questions.files import JsonNumber, RawRow

_COLUMNS = {"doc_id", "doc", "resps", "filtered_resps"}
_TASK = re.compile(r"samples_(.+)_\d{4}-\d\d-\d\dT[\d.-]+")
_DRAWN_WITH = ("temperature", "top_p", "top_k", "max_gen_toks", "do_sample")


def fits(present: Collection[str]) -> bool:
    """Return whether these are columns of samples."""
    return {*present} >= _COLUMNS


def open_rows(file: RowFile) -> ResponseFile:
    """Open samples; of several filters those of one.

    A filter takes the answer out of a response, and metrics are of what it took, so that a task of two
    filters has every response twice: the rows of one are read. `scorer` names metric and filter as the
    harness's results do (`exact_match,strict-match`); by default the first of each. A metric of several
    responses together is that of none of them.
    """
    metrics, filters, present = dict[str, None](), dict[str, None](), dict[str, None]()
    drawn: Mapping[str, Any] = {}
    for row in file.source.rows:
        if isinstance(row, RawRow):
            present |= dict.fromkeys(row.values)
            named = row.values.get("metrics")
            metrics |= dict.fromkeys(map(str, named if isinstance(named, list) else ()))
            filters[str(row.values.get("filter", ""))] = None
            drawn = drawn or _arguments(row.values)[1]
    metric, _, of_filter = (file.scorer or "").partition(",")
    metric = metric or next(iter(metrics), "")
    chosen = of_filter or next(iter(filters), "")
    if chosen not in filters or (metric and metric not in present):
        raise InputError(
            f"{file.source.name}: no scorer {file.scorer!r}. Give METRIC,FILTER: metrics are "
            f"{', '.join(metrics) or 'none'}, filters {', '.join(filters)}."
        )
    parts = {name: name for name in ("response", "question", "id", "answer", "score", "extracted")}

    def read() -> Iterator[OutsideResponse]:
        seen: set[str] = set()  # rows of older versions do not name their filter

        def responses(row: RawRow) -> Iterator[OutsideResponse]:
            values = row.values
            if str(values.get("filter", "")) != chosen or str(values.get("doc_id")) in seen:
                return iter(())
            seen.add(str(values.get("doc_id")))
            if "resps" not in values:
                raise RowProblem('it has no "resps", which samples of lm-evaluation-harness have')
            texts = _first(values.get("resps"))
            if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                raise RowProblem('"resps" has no text. Log-likelihood tasks cannot be imported')
            alone = len(texts) == 1
            named = {
                "response": texts,
                "question": _asked(values),
                "id": values.get("doc_id"),
                "answer": _first(values.get("target")),
                "score": values.get(metric) if alone else None,
                "extracted": _first(values.get("filtered_resps")) if alone else None,
            }
            return read_responses(row.place, named, parts)

        yield from checked(file.source, wanted, responses)

    wanted = [name for name in present if name in (*_COLUMNS, "filter", "target", "arguments", metric)]
    task = _TASK.fullmatch(file.path.stem)
    return file.opened(
        "lm-eval",
        read,
        f"{metric},{chosen}" if metric and chosen else metric or None,
        poses=task[1] if task else None,
        settings={name: _number(drawn[name]) for name in _DRAWN_WITH if drawn.get(name) is not None},
    )


def _asked(values: Mapping[str, Any]) -> str | None:
    """Return a document's question; where that lacks what else the document has of it, the prompt."""
    doc = values["doc"] if isinstance(values.get("doc"), Mapping) else {}
    column = usual_column(CANDIDATES["question"], list(doc))
    text = doc.get(column) if column else None
    if isinstance(text, str) and not lacking_columns(doc, Columns(question=column), text):
        return text
    prompt = _arguments(values)[0]
    return prompt if isinstance(prompt, str) else None


def _arguments(values: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """Return the prompt of a row of lm-evaluation-harness and how its responses were drawn."""
    asked = values.get("arguments")
    first = next(iter(asked.values()), None) if isinstance(asked, Mapping) else _first(asked)
    prompt, settings = (
        (first.get("arg_0"), first.get("arg_1"))
        if isinstance(first, Mapping)
        else (*first, None, None)[:2]
        if isinstance(first, list | tuple)
        else (None, None)
    )
    return _first(prompt), settings if isinstance(settings, Mapping) else {}


def _number(value: Any) -> Any:
    return json.loads(value) if isinstance(value, JsonNumber) else value


def _first(value: Any) -> Any:
    return (value[0] if value else None) if isinstance(value, list) else value
