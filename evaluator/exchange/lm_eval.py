"""Samples of lm-evaluation-harness: one row per problem and filter, with all responses to it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from evaluator.exchange.response_file import ResponseFile, checked
from evaluator.exchange.responses import OutsideResponse, read_responses
from service.errors import InputError
from service.questions.columns import CANDIDATES, Columns, RowProblem, lacking_columns, usual_column
from service.questions.files import RawRow, Source

COLUMNS = {"doc_id", "doc", "resps", "filtered_resps"}
_READ = (*COLUMNS, "filter", "target", "arguments")
_TASK = re.compile(r"samples_(.+)_\d{4}-\d\d-\d\dT[\d.-]+")


def open_lm_eval(source: Source, stem: str, scorer: str | None) -> ResponseFile:
    """Open samples; of several filters those of one.

    A filter takes the answer out of a response, and metrics are of what it took, so that a task of two
    filters has every response twice: the rows of one are read. `scorer` names metric and filter as the
    harness's results do (`exact_match,strict-match`); by default the first of each. A metric of several
    responses together is that of none of them.
    """
    rows = [row.values for row in source.rows if isinstance(row, RawRow)]
    present = dict.fromkeys(name for row in rows for name in row)
    filters = dict.fromkeys(str(row.get("filter", "")) for row in rows)
    listed = (row["metrics"] for row in rows if isinstance(row.get("metrics"), list))
    metrics = dict.fromkeys(str(name) for names in listed for name in names)
    metric, _, of_filter = (scorer or "").partition(",")
    metric, chosen = metric or next(iter(metrics), ""), of_filter or next(iter(filters), "")
    if chosen not in filters or (metric and metric not in present):
        raise InputError(
            f"{source.name}: no scorer {scorer!r}. Give METRIC,FILTER. Metrics: "
            f"{', '.join(metrics) or 'none'}. Filters: {', '.join(filters)}."
        )

    def read() -> Iterator[OutsideResponse]:
        seen: set[str] = set()  # rows of older versions do not name their filter

        def responses(row: RawRow) -> Iterator[OutsideResponse]:
            values = row.values
            if str(values.get("filter", "")) != chosen or str(values.get("doc_id")) in seen:
                return iter(())
            seen.add(str(values.get("doc_id")))
            if "resps" not in values:
                raise RowProblem('it has no "resps", so it is not an lm-evaluation-harness sample')
            texts = _first(values["resps"])
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
            return read_responses(row.place, named)

        return checked(source, [name for name in present if name in _READ or name == metric], responses)

    task = _TASK.fullmatch(stem)
    return ResponseFile(
        source.name,
        "lm-eval",
        str(source.origin["sha256"]),
        read,
        scorer=f"{metric},{chosen}" if metric and chosen else metric or None,
        poses=task[1] if task else None,
    )


def _asked(values: Mapping[str, Any]) -> str | None:
    """Return a document's question, or the prompt if the question lacks other parts of the document."""
    doc = values["doc"] if isinstance(values.get("doc"), Mapping) else {}
    column = usual_column(CANDIDATES["question"], list(doc))
    text = doc.get(column) if column else None
    if isinstance(text, str) and not lacking_columns(doc, Columns(question=column), text):
        return text
    asked = values.get("arguments")
    first = next(iter(asked.values()), None) if isinstance(asked, Mapping) else _first(asked)
    prompt = _first(first.get("arg_0") if isinstance(first, Mapping) else _first(first))
    return prompt if isinstance(prompt, str) else None


def _first(value: Any) -> Any:
    return (value[0] if value else None) if isinstance(value, list) else value
