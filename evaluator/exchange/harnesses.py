"""Files of evaluation harnesses: one row per problem with all responses to it.

Details of lighteval have a score of the responses together. Samples of lm-evaluation-harness have a row per
filter, and metrics of what the filter took out of a response.
"""

from collections.abc import Mapping
from typing import Any

from evaluator.exchange.responses import Parts, with_thought
from service.errors import InputError
from service.questions.columns import CANDIDATES, Columns, RowProblem, lacking_columns, usual_column
from service.questions.files import RawRow, Source

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
