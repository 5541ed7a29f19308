"""Details of lighteval: one row per problem, with all responses to it, and a score of them together."""

from collections.abc import Iterator, Mapping
from typing import Any

from evaluator.exchange.response_file import ResponseFile, rows_file
from evaluator.exchange.responses import OutsideResponse, read_responses, with_thought
from service.questions.columns import RowProblem
from service.questions.files import RawRow, Source


def open_lighteval(source: Source, present: tuple[str, ...], metric: str | None) -> ResponseFile:
    """Open details; the score of a row counts only if the row has one response."""
    mark = "__" if "__doc__" in present else ""  # in some versions
    columns = [f"{mark}{each}{mark}" for each in ("doc", "model_response", "metric")]
    first = next((row for row in source.rows if isinstance(row, RawRow)), None)
    metrics = first.values.get(columns[2]) or {} if first else {}
    metric = metric or next((name for name, value in metrics.items() if value is not None), None)

    def responses(row: RawRow) -> Iterator[OutsideResponse]:
        doc, replied, scores = (row.values.get(column) for column in columns)
        if not isinstance(doc, Mapping) or not isinstance(replied, Mapping):
            raise RowProblem(f'"{columns[0]}" or "{columns[1]}" is not an object')
        texts, thoughts = list(replied.get("text") or []), replied.get("reasonings") or []
        if not texts:
            raise RowProblem("it has no response text. Log-likelihood tasks cannot be imported")
        if len(thoughts) == len(texts):
            texts = [with_thought(thought, text) for thought, text in zip(thoughts, texts, strict=True)]
        tokens = replied.get("output_tokens") or []
        values = {
            "response": texts,
            "question": doc.get("query"),
            "id": doc.get("id"),
            "answer": _gold(doc),
            "images": doc.get("images"),
            "completion_tokens": [len(each) for each in tokens] if len(tokens) == len(texts) else None,
            "score": (scores or {}).get(metric) if len(texts) == 1 else None,
        }
        return read_responses(row.place, values)

    return rows_file(source, "lighteval", [name for name in columns if name in present], responses, metric)


def _gold(doc: Mapping[str, Any]) -> Any:
    """Return the gold of a document: the choice at its index, the first of several."""
    choices, place = doc.get("choices") or [], doc.get("gold_index")
    place = place[0] if isinstance(place, list) and place else place
    index = int(place) if isinstance(place, int | str) and not isinstance(place, bool) else -1
    return choices[index] if 0 <= index < len(choices) else None
