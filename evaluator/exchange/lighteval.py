"""Details of lighteval: one row per problem, with all responses to it, and a score of them together."""

from collections.abc import Mapping
from typing import Any

from evaluator.exchange.responses import Parts, with_thought
from service.questions.columns import RowProblem
from service.questions.files import RawRow, Source


def read_details(
    source: Source, present: tuple[str, ...], metric: str | None
) -> tuple[list[str], Parts, str | None]:
    """Return the columns to read, what returns the parts of a row, and the metric that is the score.

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
