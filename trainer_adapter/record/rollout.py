"""One rollout as it is recorded, and the parquet schema of the shards that hold them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

SCHEMA_VERSION = "1"
VERSION_KEY = b"tagrpo.rollouts"
RUN_KEY = b"tagrpo.run"
STEP_KEY = b"tagrpo.step"
ROWS_PER_GROUP = 1024
"""Rows that are held at a time, in memory and in a row group of a shard."""


@dataclass(frozen=True)
class RolloutRecord:
    """A response drawn in training, with what training made of it.

    Attributes:
        step: the global step, from 1.
        question_id: of the original question.
        neighbor_id: of the neighbor whose prompt it was drawn for; None for the question itself.
        strategy: of that neighbor, where it is known.
        variant: 0 for the question's own prompt, k for its k-th neighbor's.
        group: number of the group within the step, against which the advantage is measured.
        session: number of the response among those of its question in the step.
        prompt: text it was drawn for; None where it is not kept.
        response: text, decoded without special tokens.
        tokens: tokens of the response.
        truncated: cut at the longest length.
        reward: what the advantage was computed from; shaped where the recipe shapes it.
        correct: None where the grader could not tell (its reward is 0).
        reason: why the grade is what it is, one of `evaluator.grading.REASONS`; "" where it is not known.
        extracted: the answer that was read.
        advantage: of the response, before token weights.
        old_log_prob: sum over its tokens before the update, on the prompt the recipe anchors on.
        sampling_log_prob: sum over its tokens on the prompt it was drawn for.
        ref_log_prob: sum over its tokens under the reference policy, on the anchor.
        entropy: mean over its tokens.
        weights_version: the step whose weights drew it.
        token_ratios: of single tokens, as `token_ratios.token_ratios_text` writes them; None where training
            did not record them.
    """

    step: int
    question_id: str
    neighbor_id: str | None
    strategy: str | None
    variant: int
    group: int
    session: int
    prompt: str | None
    response: str
    tokens: int
    truncated: bool
    reward: float
    correct: bool | None
    reason: str
    extracted: str | None
    advantage: float | None
    old_log_prob: float | None
    sampling_log_prob: float | None
    ref_log_prob: float | None
    entropy: float | None
    weights_version: int | None
    token_ratios: str | None = None

    @property
    def grade(self) -> str:
        """correct, wrong or unknown."""
        return grade_name(self.correct)


COLUMNS: tuple[str, ...] = tuple(field.name for field in fields(RolloutRecord))
REQUIRED: tuple[str, ...] = (
    *("step", "question_id", "variant", "group", "session", "response", "tokens", "truncated"),
    *("reward", "reason"),
)
"""Columns that hold no null."""

TOKENS = "token_ratios"
ADDED: tuple[str, ...] = (TOKENS,)
"""Columns that shards of earlier versions lack."""

_NUMBERS = (
    *("reward", "advantage", "old_log_prob", "sampling_log_prob", "ref_log_prob"),
    "entropy",
)


def grade_name(correct: bool | None) -> str:
    """Return correct, wrong or unknown (None)."""
    return "unknown" if correct is None else "correct" if correct else "wrong"


def schema() -> Any:
    """Return the pyarrow schema of a shard: the fields of a record, and the run's name in front."""
    import pyarrow as pa

    kinds = {
        **dict.fromkeys(("step", "variant", "group", "session", "tokens", "weights_version"), pa.int64()),
        **dict.fromkeys(("truncated", "correct"), pa.bool_()),
        **dict.fromkeys(_NUMBERS, pa.float64()),
    }
    columns = [
        pa.field(name, kinds.get(name, pa.string()), nullable=name not in REQUIRED) for name in COLUMNS
    ]
    return pa.schema([pa.field("run", pa.string(), nullable=False), *columns])


def to_table(run: str, records: Sequence[RolloutRecord], shape: Any) -> Any:
    """Return records as a pyarrow table. Numbers that are not finite become null, where null is allowed.

    Raises:
        ValueError: a reward that is not finite.
    """
    import pyarrow as pa

    columns: dict[str, list[Any]] = {name: [getattr(one, name) for one in records] for name in COLUMNS}
    for name in _NUMBERS:
        columns[name] = [value if value is None or math.isfinite(value) else None for value in columns[name]]
    if None in columns["reward"]:
        at = records[columns["reward"].index(None)]
        raise ValueError(f"step {at.step}, question {at.question_id}: the reward is {at.reward}")
    for name in ("question_id", "prompt", "response", "reason", "extracted"):
        columns[name] = [_encodable(text) for text in columns[name]]
    return pa.table({"run": [run] * len(records), **columns}, schema=shape)


def from_rows(columns: Mapping[str, Sequence[Any]]) -> Iterator[RolloutRecord]:
    """Yield the records of columns as pyarrow's `to_pydict` gives them; those of `ADDED` may be missing."""
    given = [name for name in COLUMNS if name in columns]
    for values in zip(*(columns[name] for name in given), strict=True):
        yield RolloutRecord(**dict(zip(given, values, strict=True)))


def _encodable(text: str | None) -> str | None:
    """Return text that UTF-8 can hold: a lone surrogate becomes a question mark."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")
