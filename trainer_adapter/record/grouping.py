"""Counting the groups of a step, once, when it is imported: the responses to a question and its neighbors."""

from functools import cache
from typing import cast

from sqlalchemy import ColumnElement, Insert, Table, and_, bindparam, case, delete, func, insert, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from evaluator.grading import GradeValue
from service.runs.store import Run
from trainer_adapter.record.tables import RolloutGroupRow, RolloutPromptRow, RolloutRow, RolloutShardRow

MIXED, ALL_RIGHT, ALL_WRONG, UNCLEAR = "mixed", "all right", "all wrong", "unclear"
KINDS = (MIXED, ALL_RIGHT, ALL_WRONG, UNCLEAR)
"""Of a joint group by correctness: right and wrong ones, right only, wrong only, or one of both with unknown.

Where the reward is correctness, only mixed groups have a gradient; in unclear ones it depends on what unknown
grades count as, and the rewards of a group say whether they differ.
"""
_TIMEOUT = "timeout"


def store_groups(session: Session, run: Run, step: int) -> None:
    """Count the groups of a step whose rollouts were just written; the caller's transaction commits them."""
    session.execute(_counting(), {"counted_run": run.id, "counted_step": step})


@cache
def _counting() -> Insert:
    """Return the statement that counts a step; building it takes as long as running it."""
    correct, wrong, unknown = (_number(RolloutRow.grade == value) for value in GradeValue)
    original = RolloutPromptRow.variant == 0
    kind = case(
        (and_(correct > 0, wrong > 0), MIXED),
        (unknown > 0, UNCLEAR),
        (correct > 0, ALL_RIGHT),
        else_=ALL_WRONG,
    )
    counted = (
        select(
            RolloutShardRow.run_id,
            RolloutShardRow.step,
            RolloutPromptRow.question_id,
            func.count(),
            func.count(RolloutPromptRow.variant.distinct()),
            correct,
            wrong,
            unknown,
            *(_number(and_(original, RolloutRow.grade == value)) for value in GradeValue),
            _number(RolloutRow.truncated),
            _number(RolloutRow.reason == _TIMEOUT),
            func.sum(RolloutRow.tokens),
            func.sum(RolloutRow.reward),
            func.min(RolloutRow.reward),
            func.max(RolloutRow.reward),
            kind,
        )
        .select_from(RolloutShardRow)
        .join(RolloutRow, RolloutRow.shard_id == RolloutShardRow.id)
        .join(RolloutPromptRow, RolloutPromptRow.id == RolloutRow.prompt_id)
        .where(
            RolloutShardRow.run_id == bindparam("counted_run"),
            RolloutShardRow.step == bindparam("counted_step"),
        )
        .group_by(RolloutPromptRow.question_id)
    )
    table = cast(Table, RolloutGroupRow.__table__)
    return insert(table).from_select([column.name for column in table.columns], counted)


def remove_groups(session: Session, run_id: str, step: int) -> None:
    """Remove the groups of a step whose rollouts are being replaced."""
    session.execute(
        delete(RolloutGroupRow).where(RolloutGroupRow.run_id == run_id, RolloutGroupRow.step == step)
    )


def _number(condition: ColumnElement[bool] | InstrumentedAttribute[bool]) -> ColumnElement[int]:
    return func.sum(case((condition, 1), else_=0))
