"""Details of lighteval: a row a problem, with all responses to it, and a score of them together."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from evaluator.exchange.readers.response_file import ResponseFile, RowFile, checked
from evaluator.exchange.responses import OutsideResponse, read_responses, with_thought
from service.questions.columns import RowProblem
from service.questions.files import RawRow


def fits(present: Collection[str]) -> bool:
    """Return whether these are columns of details; in some versions they stand between underscores."""
    return {"doc", "model_response"} <= {*present} or {"__doc__", "__model_response__"} <= {*present}


def open_rows(file: RowFile) -> ResponseFile:
    """Open details; the score of a row is that of a response only where the row has one."""
    mark = "__" if "__doc__" in file.present else ""
    doc_column, told_column, metric_column = (
        f"{mark}{each}{mark}" for each in ("doc", "model_response", "metric")
    )
    names = "response", "question", "id", "answer", "images", "completion_tokens", "score"
    parts = {name: name for name in names}
    metric = file.scorer or _first_metric(file, metric_column)

    def responses(row: RawRow) -> Iterator[OutsideResponse]:
        doc, replied = row.values.get(doc_column), row.values.get(told_column)
        if not isinstance(doc, Mapping) or not isinstance(replied, Mapping):
            raise RowProblem(f'"{doc_column}" or "{told_column}" is not an object')
        texts, thoughts = list(replied.get("text") or []), replied.get("reasonings") or []
        if not texts:
            raise RowProblem("it has no response text. Log-likelihood tasks cannot be imported")
        if len(thoughts) == len(texts):
            texts = [with_thought(thought, text) for thought, text in zip(thoughts, texts, strict=True)]
        tokens = replied.get("output_tokens") or []
        scores = row.values.get(metric_column) or {}
        values = {
            "response": texts,
            "question": doc.get("query"),
            "id": doc.get("id"),
            "answer": _gold(doc),
            "images": doc.get("images"),
            "completion_tokens": [len(each) for each in tokens] if len(tokens) == len(texts) else None,
            "score": scores.get(metric) if len(texts) == 1 else None,
        }
        return read_responses(row.place, values, parts)

    wanted = [name for name in (doc_column, told_column, metric_column) if name in file.present]
    return file.opened("lighteval", lambda: checked(file.source, wanted, responses), metric)


def _first_metric(file: RowFile, column: str) -> str | None:
    metrics = {} if file.first is None else file.first.values.get(column) or {}
    return next((name for name, value in metrics.items() if value is not None), None)


def _gold(doc: Mapping[str, Any]) -> Any:
    """Return the gold of a document: the choice at its index, the first where there are several."""
    choices, place = doc.get("choices") or [], doc.get("gold_index")
    place = place[0] if isinstance(place, list) and place else place
    index = int(place) if isinstance(place, int | str) and not isinstance(place, bool) else -1
    return choices[index] if 0 <= index < len(choices) else None
