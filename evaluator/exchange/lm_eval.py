"""Samples of lm-evaluation-harness: one row per problem and filter, with all responses to it."""

from collections.abc import Mapping
from typing import Any

from evaluator.exchange.responses import Parts
from service.errors import InputError
from service.questions.columns import CANDIDATES, Columns, RowProblem, lacking_columns, usual_column
from service.questions.files import RawRow, Source

COLUMNS = {"doc_id", "doc", "resps", "filtered_resps", "filter"}


def read_samples(source: Source, scorer: str | None) -> tuple[list[str], Parts, str | None]:
    """Return the columns to read, what returns the parts of a row, and the metric and filter of the score.

    A filter takes the answer out of a response, and metrics are of what it took, so that a task of two
    filters has every response twice: the rows of one are read. `scorer` names metric and filter as the
    harness's results do (`exact_match,strict-match`); by default the first of each. A metric of several
    responses together is that of none of them.
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
        if lacking := COLUMNS - {*row}:
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

    wanted = [name for name in present if name in {*COLUMNS, "target", "arguments", metric}]
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
