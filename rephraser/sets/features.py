"""The typed columns of an exported set, as Hugging Face `datasets` describes them."""

from typing import Any


def features() -> Any:
    """Return `datasets.Features` of an exported row: ids, texts, a list of neighbors with typed fields."""
    from datasets import Features, List, Value

    text, count = Value("string"), Value("int64")
    return Features(
        {
            "id": text,
            "question": text,
            "answer": text,
            "level": text,
            "subject": text,
            "neighbors": List(
                {
                    "id": text,
                    "text": text,
                    "proposer": text,
                    "strategy": text,
                    "strategy_hash": text,
                    "model": text,
                    "verdict": text,
                    "posterior": Value("float64"),
                    "reviewed": Value("bool"),
                    "likeness": Value("float64"),
                    "solver": text,
                    "question_right": count,
                    "question_drawn": count,
                    "neighbor_right": count,
                    "neighbor_drawn": count,
                }
            ),
        }
    )
