"""Tables of training runs: their steps, the shards they were read from, rollouts and their texts.

Headers stand apart from texts, and what all responses to a prompt share stands once, so that lists stay fast.
The run itself is a row of `runs` of the kind `train`.
"""

from typing import Any

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from service.database.base import BY_KEY_ALONE, Base, CompressedText
from service.database.triggers import on_creation, statement_trigger
from service.runs import tables as _runs  # noqa: F401  (foreign keys)

TRAIN = "train"
"""The kind of a training run among `runs`."""


class TrainStepRow(Base):
    """The metrics that training logged at a step."""

    __tablename__ = "train_steps"
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    step: Mapped[int] = mapped_column(primary_key=True)
    metrics: Mapped[dict[str, Any]]

    __table_args__ = (BY_KEY_ALONE,)


class RolloutShardRow(Base):
    """A file of rollouts, all of one step. A step that was trained again replaces its rollouts.

    Rows of the file have rollouts whose ids follow one another, from the least on.
    """

    __tablename__ = "rollout_shards"
    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"))
    step: Mapped[int]
    content: Mapped[str]  # hash of the file's footer: sizes, places and bounds of all columns
    rows: Mapped[int]
    imported_at: Mapped[str]
    path: Mapped[str | None]  # of the file, which holds the texts unless they stand in the database

    __table_args__ = (Index(None, "run_id", "step", unique=True),)


class RolloutPromptRow(Base):
    """A prompt that responses of a run were drawn for."""

    __tablename__ = "rollout_prompts"
    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"))
    key: Mapped[bytes]  # hash of all that follows
    question_id: Mapped[str]
    variant: Mapped[int]
    neighbor_id: Mapped[str | None]
    strategy: Mapped[str | None]
    text: Mapped[str | None] = mapped_column(CompressedText)

    __table_args__ = (
        Index(None, "run_id", "key", unique=True),
        Index(None, "run_id", "question_id", "variant"),
    )


class RolloutRow(Base):
    """A response drawn in training, without its text."""

    __tablename__ = "rollouts"
    id: Mapped[int] = mapped_column(primary_key=True)
    shard_id: Mapped[int] = mapped_column(ForeignKey("rollout_shards.id"), index=True)
    prompt_id: Mapped[int] = mapped_column(ForeignKey("rollout_prompts.id"))
    group: Mapped[int]  # within the step
    session: Mapped[int]  # within the question
    tokens: Mapped[int]
    truncated: Mapped[bool]
    reward: Mapped[float]
    grade: Mapped[str]  # correct, wrong, unknown
    reason: Mapped[str]
    extracted: Mapped[str | None]
    advantage: Mapped[float | None]
    old_log_prob: Mapped[float | None]  # sums over tokens
    sampling_log_prob: Mapped[float | None]
    ref_log_prob: Mapped[float | None]
    entropy: Mapped[float | None]  # mean over tokens
    weights_version: Mapped[int | None]

    __table_args__ = (Index(None, "prompt_id", "shard_id"),)


class RolloutTextRow(Base):
    """The text of a rollout, where an import was asked to keep it here beside the file."""

    __tablename__ = "rollout_texts"
    rollout_id: Mapped[int] = mapped_column(ForeignKey("rollouts.id"), primary_key=True)
    text: Mapped[str] = mapped_column(CompressedText)


class RolloutTokensRow(Base):
    """Log-ratios of a rollout's tokens (`rollout.token_ratios_text`), kept where its text is."""

    __tablename__ = "rollout_tokens"
    rollout_id: Mapped[int] = mapped_column(ForeignKey("rollouts.id"), primary_key=True)
    ratios: Mapped[str] = mapped_column(CompressedText)


class RolloutGroupRow(Base):
    """The responses to a question and its neighbors at a step, counted when the step is imported.

    `kind` is that of the joint group: mixed (right and wrong ones), all right, all wrong, or unclear (known
    grades are equal and others unknown).
    """

    __tablename__ = "rollout_groups"
    run_id: Mapped[str] = mapped_column(primary_key=True)
    step: Mapped[int] = mapped_column(primary_key=True)
    question_id: Mapped[str] = mapped_column(primary_key=True)
    responses: Mapped[int]
    prompts: Mapped[int]  # the original and its neighbors
    correct: Mapped[int]
    wrong: Mapped[int]
    unknown: Mapped[int]
    original_correct: Mapped[int]
    original_wrong: Mapped[int]
    original_unknown: Mapped[int]
    truncated: Mapped[int]
    timeouts: Mapped[int]  # grades unknown because the grader ran out of time
    tokens: Mapped[int]
    reward_sum: Mapped[float]
    reward_least: Mapped[float]
    reward_most: Mapped[float]
    kind: Mapped[str]

    __table_args__ = (
        Index(None, "run_id", "kind", "step", "question_id"),
        Index(None, "run_id", "question_id", "step"),
        BY_KEY_ALONE,
    )


class TrainMetricNameRow(Base):
    """A metric that a run has logged at some step. Kept by triggers."""

    __tablename__ = "train_metric_names"
    run_id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)

    __table_args__ = (BY_KEY_ALONE,)


on_creation(
    TrainStepRow,
    *(
        f"""
    CREATE TRIGGER train_steps_named_{verb.lower()} AFTER {verb} ON train_steps BEGIN
        INSERT INTO train_metric_names (run_id, name)
        SELECT NEW.run_id, key FROM json_each(NEW.metrics) WHERE true ON CONFLICT DO NOTHING;
    END"""
        for verb in ("INSERT", "UPDATE")
    ),
)
for verb in ("INSERT", "UPDATE"):
    statement_trigger(
        TrainStepRow,
        f"train_steps_named_{verb.lower()}",
        verb,
        """
        INSERT INTO train_metric_names (run_id, name)
        SELECT DISTINCT run_id, json_object_keys(metrics) FROM new_rows ON CONFLICT DO NOTHING;
        """,
    )
# `rollout_groups` has no trigger: rollouts come and go by whole steps, in one place (`importing`).
