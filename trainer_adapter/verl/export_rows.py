"""The rows verl reads: their parquet schemas, and how a question with its neighbors becomes one or several.

Stock verl reads `data_source`, `prompt`, `reward_model` and `extra_info` and passes every other column to the
agent loop. It makes up a new `uid` for each row, so that a joint group has to be one row ("grouped").
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from evaluator.grading import AnswerKind, GradeValue
from evaluator.grading.compare import judge, read_tolerance
from evaluator.grading.types import NEEDS_ALGEBRA
from rephraser.sets.types import SetEntry
from rephraser.verdict.successes import COUNTS
from service.errors import InputError
from service.questions.images import Image
from trainer_adapter.verl.prompts import Message, PromptTemplate

Layout = Literal["grouped", "flat"]
Row = dict[str, Any]
ABILITY = "math"


@dataclass(frozen=True)
class AnswerForm:
    """How the answers of a set are graded in training: their kind, and how far a number may be off."""

    kind: AnswerKind = AnswerKind.LATEX
    tolerance: str | None = None

    def __post_init__(self) -> None:
        if self.tolerance is None:
            return
        if self.kind is not AnswerKind.TOLERANCE:
            raise InputError(f"tolerance {self.tolerance}: only the answer kind tolerance uses a tolerance.")
        read_tolerance(self.tolerance)

    def check(self, gold: str, place: str) -> None:
        """Raise unless `gold` is an answer of this kind."""
        if self.kind is AnswerKind.CODE:
            return  # tests are run where questions are imported
        outcome = judge(gold, gold, self.kind, self.tolerance)
        if outcome.value is not GradeValue.CORRECT and outcome is not NEEDS_ALGEBRA:
            raise InputError(f"{place}: its answer {gold!r} is not a valid {self.kind} ({outcome.reason}).")


def grouped_rows(entry: SetEntry, template: PromptTemplate, place: Mapping[str, str | None]) -> Iterator[Row]:
    """Yield one row: the question as `prompt`, its neighbors' prompts in `neighbors` (there may be none)."""
    template = template.asking_for(entry.question.kind)
    row = _row(entry, entry.question.text, template, place)
    row["neighbors"] = [template.messages(neighbor.text) for neighbor in entry.neighbors]
    row["neighbor_ids"] = [neighbor.candidate_id for neighbor in entry.neighbors]
    row["extra_info"] |= {
        "neighbor_strategies": [neighbor.strategy for neighbor in entry.neighbors],
        "neighbor_verdicts": [neighbor.verdict for neighbor in entry.neighbors],
        "neighbor_successes": [each.successes and vars(each.successes) for each in entry.neighbors],
    }
    yield row


def flat_rows(entry: SetEntry, template: PromptTemplate, place: Mapping[str, str | None]) -> Iterator[Row]:
    """Yield a row for the question (variant 0) and one for each neighbor (variants 1, 2, ...)."""
    template = template.asking_for(entry.question.kind)
    row = _row(entry, entry.question.text, template, place)
    row["extra_info"] |= {"variant": 0, **dict.fromkeys(("neighbor_id", "strategy", "verdict", "successes"))}
    yield row
    for variant, neighbor in enumerate(entry.neighbors, start=1):
        row = _row(entry, neighbor.text, template, place)
        row["extra_info"] |= {
            "variant": variant,
            "neighbor_id": neighbor.candidate_id,
            "strategy": neighbor.strategy,
            "verdict": neighbor.verdict,
            "successes": neighbor.successes and vars(neighbor.successes),
        }
        yield row


ROWS: dict[Layout, Callable[[SetEntry, PromptTemplate, Mapping[str, str | None]], Iterator[Row]]] = {
    "grouped": grouped_rows,
    "flat": flat_rows,
}


def read_rows(file: Path, at_once: int, *, images: bool = False) -> Iterator[list[Row]]:
    """Yield what the rows of a file ask, some at a time; a flat file has no column of neighbors."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as opened:
        names = ("prompt", "neighbors", "neighbor_ids", "extra_info", *(("images",) if images else ()))
        columns = [name for name in names if name in opened.schema_arrow.names]
        for batch in opened.iter_batches(at_once, columns=columns):
            yield batch.to_pylist()


def prompts_of(row: Row, neighbors: int) -> Iterator[tuple[str, list[Message]]]:
    """Yield name and messages of a row's prompts: its own, and those of so many neighbors."""
    about = row.get("extra_info") or {}
    question = f"question {about.get('question_id')}"
    own = about.get("neighbor_id")
    yield question if own is None else f"neighbor {own} of {question}", row["prompt"]
    around = zip(row.get("neighbors") or (), row.get("neighbor_ids") or (), strict=True)
    for _, (messages, identity) in zip(range(neighbors), around, strict=False):
        yield f"neighbor {identity} of {question}", messages


def held(image: Image) -> dict[str, Any]:
    """Return an image as a row holds it."""
    return {"bytes": image.data, "path": None}


def schema(layout: Layout, *, images: bool = False) -> Any:
    """Return the pyarrow schema of a layout; it is the same whether or not any question has neighbors.

    Where any question has images there is a column of them, empty for the others.
    """
    import pyarrow as pa

    text = pa.string()
    messages = pa.list_(pa.struct([("role", text), ("content", text)]))
    counts = pa.struct([("solver", text), *((name, pa.int64()) for name in COUNTS)])
    about = [
        ("index", pa.int64()),
        *(
            (name, text)
            for name in ("question_id", "set", "split", "level", "subject", "answer_kind", "tolerance")
        ),
    ]
    columns = [
        ("data_source", text),
        ("prompt", messages),
        ("ability", text),
        ("reward_model", pa.struct([("style", text), ("ground_truth", text)])),
    ]
    if layout == "grouped":
        columns += [("neighbors", pa.list_(messages)), ("neighbor_ids", pa.list_(text))]
        about += [("neighbor_strategies", pa.list_(text)), ("neighbor_verdicts", pa.list_(text))]
        about += [("neighbor_successes", pa.list_(counts))]
    else:
        about += [("variant", pa.int64()), ("neighbor_id", text), ("strategy", text), ("verdict", text)]
        about += [("successes", counts)]
    if images:
        columns += [("images", pa.list_(pa.struct([("bytes", pa.binary()), ("path", text)])))]
    return pa.schema([*columns, ("extra_info", pa.struct(about))])


def _row(entry: SetEntry, text: str, template: PromptTemplate, place: Mapping[str, str | None]) -> Row:
    question = entry.question
    return {
        "data_source": place["data_source"],
        "prompt": template.messages(text),
        "ability": ABILITY,
        "reward_model": {"style": "rule", "ground_truth": question.answer},
        "extra_info": {
            "question_id": question.id,
            "set": place["set"],
            "split": place["split"],
            "level": question.level,
            "subject": question.subject,
            "answer_kind": str(question.kind) if question.kind is AnswerKind.CODE else place["answer_kind"],
            "tolerance": place.get("tolerance"),
        },
    }
