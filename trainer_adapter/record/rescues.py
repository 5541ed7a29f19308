"""Whom neighbors rescued, in a training that samples in stages (recipes with `sampling=rescue`).

Half of a question's responses are drawn for the question itself; where none of them is right, the others go
to its neighbors. Where a neighbor's response is right, the group has a gradient again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

from sqlalchemy import ColumnElement, and_, case, func, select
from sqlalchemy.orm import Session

from evaluator.grading import GradeValue
from service.errors import InputError
from service.runs.store import Run
from trainer_adapter.record.joint_groups import question_texts
from trainer_adapter.record.tables import RolloutGroupRow, RolloutPromptRow, RolloutRow, RolloutShardRow

RESCUED, NEVER = "rescued", "never rescued"
OUTCOMES = (RESCUED, NEVER)
"""Of a question that was dead at least once: a neighbor's response was right at some step, or at none."""


@dataclass(frozen=True)
class RescueTotals:
    """What the stages of a training did, over all steps.

    Attributes:
        groups: questions, each counted at every step it is in.
        dead: those without a right response to the question itself.
        asked: those of them whose neighbors were asked.
        revived: those of these to which a neighbor's response is right.
        first: responses of the first stage, all to questions.
        more: responses of the second stage to questions that had a right one.
        to_neighbors: responses of the second stage to neighbors.
        weighed: wrong responses of neighbors that the anchor weighs (`tapered`), in groups with a gradient.
        weight: their mean weight, min(1, pi_old(o | question) / pi(o | neighbor)); None where none is known.
        effective: their effective share, (sum w)^2 / (n sum w^2).
    """

    groups: int
    dead: int
    asked: int
    revived: int
    first: int
    more: int
    to_neighbors: int
    weighed: int
    weight: float | None
    effective: float | None

    @property
    def dead_share(self) -> float | None:
        return self.dead / self.groups if self.groups else None

    @property
    def revived_share(self) -> float | None:
        """Of the dead questions whose neighbors were asked."""
        return self.revived / self.asked if self.asked else None

    def sentences(self) -> list[str]:
        """Return what happened in words: groups, responses by stage, weights."""
        dead = f"{self.dead:,} of {self.groups:,} groups were dead ({_percent(self.dead_share)})"
        revived = f"in {self.asked:,} neighbors were asked, {self.revived:,} of these were revived"
        first = f"responses: {self.first:,} first ones, {self.more:,} more to questions"
        lines = [
            f"{dead}; {revived} ({_percent(self.revived_share)})",
            f"{first}, {self.to_neighbors:,} to neighbors",
        ]
        if self.weight is not None:
            wrong = f"{self.weighed:,} wrong responses of neighbors weigh {self.weight:.3f} on average"
            lines.append(f"{wrong}, an effective {_percent(self.effective)} of them")
        return lines


@dataclass(frozen=True)
class Rescuer:
    """A neighbor that a dead question's second stage was drawn for: its responses, and the right ones."""

    variant: int
    neighbor_id: str | None
    strategy: str | None
    right: int
    drawn: int


@dataclass(frozen=True)
class RescuedQuestion:
    """A question that was dead at `dead` of its `visits`; neighbors revived it at `revived` of them.

    `text` is None where the question is not in the database; `last_step` is the last at which it was dead.
    """

    question_id: str
    text: str | None
    visits: int
    dead: int
    revived: int
    last_step: int
    neighbors: tuple[Rescuer, ...]

    @property
    def outcome(self) -> str:
        return RESCUED if self.revived else NEVER

    @property
    def place(self) -> str:
        """Where the list goes on behind this question; `place_of` reads it."""
        return f"{self.dead}:{self.question_id}"

    def in_words(self) -> str:
        """Return the right responses of each neighbor, those first that had any."""
        order = sorted(self.neighbors, key=lambda neighbor: (-neighbor.right, neighbor.variant))
        return ", ".join(
            f"{neighbor.strategy or f'neighbor {neighbor.variant}'} {neighbor.right}/{neighbor.drawn}"
            for neighbor in order
        )


def place_of(text: str) -> tuple[int, str]:
    """Return (dead, question_id) of `RescuedQuestion.place`.

    Raises:
        InputError: the text is none.
    """
    dead, colon, question_id = text.partition(":")
    if not (colon and dead.isascii() and dead.isdigit() and len(dead) < 10):
        raise InputError(f'{text!r} is no place in the list of rescues; take it from "more: --after".')
    return int(dead), question_id


def samples_in_stages(run: Run) -> bool:
    """Say whether a training's recipe asks neighbors only where a question needs them."""
    recipe = run.spec.get("recipe")
    return isinstance(recipe, dict) and recipe.get("sampling") == "rescue"


def check_stages(run: Run) -> None:
    """Refuse a training that does not sample in stages.

    Raises:
        InputError: it does not.
    """
    if not samples_in_stages(run):
        raise InputError(
            f"run {run.name!r} asks neighbors of every question, or of none; only a recipe with "
            "sampling=rescue, such as ta_rescue, rescues some."
        )


def rescue_totals(session: Session, run: Run) -> RescueTotals:
    """Return what the stages of a training did.

    Raises:
        InputError: as `check_stages`.
    """
    check_stages(run)
    row = RolloutGroupRow
    original = row.original_correct + row.original_wrong + row.original_unknown
    sums = (row.responses, row.responses - original, row.responses // 2)
    counted: Any = session.execute(
        select(func.count(), *map(_number, _outcomes()), *map(_sum, sums)).where(row.run_id == run.id)
    ).one()
    groups, dead, asked, revived, responses, to_neighbors, first = counted
    weights = _weights(session, run)
    total, squares = sum(weights), sum(weight**2 for weight in weights)
    return RescueTotals(
        groups,
        dead,
        asked,
        revived,
        first=first,
        more=responses - to_neighbors - first,
        to_neighbors=to_neighbors,
        weighed=len(weights),
        weight=total / len(weights) if weights else None,
        effective=total**2 / (len(weights) * squares) if squares else None,
    )


def page_rescues(
    session: Session,
    run: Run,
    *,
    outcome: str | None = None,
    after: tuple[int, str] | None = None,
    limit: int = 25,
) -> list[RescuedQuestion]:
    """Return up to `limit` questions that were dead and had their neighbors asked, most often dead first.

    Args:
        outcome: one of `OUTCOMES`; None for both.
        after: (dead, question_id) of the question to go on behind.

    Raises:
        InputError: no such outcome, or as `check_stages`.
    """
    check_stages(run)
    if outcome is not None and outcome not in OUTCOMES:
        raise InputError(f"{outcome!r} is no outcome; ask for {' or '.join(OUTCOMES)}.")
    row = RolloutGroupRow
    _, is_asked, is_revived = _outcomes()
    dead, revived = map(_number, (is_asked, is_revived))
    conditions: list[ColumnElement[bool]] = [dead > 0]
    if outcome is not None:
        conditions.append(revived > 0 if outcome == RESCUED else revived == 0)
    if after is not None:
        conditions.append((dead < after[0]) | ((dead == after[0]) & (row.question_id > after[1])))
    rows = session.execute(
        select(
            row.question_id,
            func.count(),
            dead,
            revived,
            func.max(case((is_asked, row.step), else_=None)),
        )
        .where(row.run_id == run.id)
        .group_by(row.question_id)
        .having(and_(*conditions))
        .order_by(dead.desc(), row.question_id)
        .limit(limit)
    ).all()
    ids = [row[0] for row in rows]
    texts, neighbors = question_texts(session, ids), _rescuers(session, run, ids)
    return [
        RescuedQuestion(id, texts.get(id), visits, dead, revived, last, tuple(neighbors.get(id, ())))
        for id, visits, dead, revived, last in rows
    ]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"


def _outcomes() -> tuple[ColumnElement[bool], ...]:
    """Return which groups are dead, which of these had neighbors asked, and which of those were revived."""
    row = RolloutGroupRow
    dead = row.original_correct == 0
    asked = and_(dead, row.prompts > 1)
    return dead, asked, and_(asked, row.correct > 0)


def _sum(values: Any) -> Any:
    return func.coalesce(func.sum(values), 0)


def _number(condition: ColumnElement[bool]) -> Any:
    return _sum(case((condition, 1), else_=0))


def _rescuers(session: Session, run: Run, ids: Sequence[str]) -> dict[str, list[Rescuer]]:
    prompt = RolloutPromptRow
    rows = session.execute(
        select(
            prompt.question_id,
            prompt.variant,
            func.max(prompt.neighbor_id),
            func.max(prompt.strategy),
            _number(RolloutRow.grade == GradeValue.CORRECT),
            func.count(),
        )
        .join(RolloutRow, RolloutRow.prompt_id == prompt.id)
        .where(prompt.run_id == run.id, prompt.question_id.in_(ids), prompt.variant > 0)
        .group_by(prompt.question_id, prompt.variant)
        .order_by(prompt.question_id, prompt.variant)
    )
    rescuers: dict[str, list[Rescuer]] = {}
    for id, variant, neighbor_id, strategy, right, drawn in rows:
        rescuers.setdefault(id, []).append(Rescuer(variant, neighbor_id, strategy, right, drawn))
    return rescuers


def _weights(session: Session, run: Run) -> list[float]:
    """Return the weights of neighbors' responses with a negative advantage under anchor `tapered`."""
    recipe = run.spec.get("recipe")
    if not isinstance(recipe, dict) or recipe.get("anchor") != "tapered":
        return []
    rows = session.execute(
        select(RolloutRow.old_log_prob, RolloutRow.sampling_log_prob)
        .join(RolloutShardRow, RolloutShardRow.id == RolloutRow.shard_id)
        .join(RolloutPromptRow, RolloutPromptRow.id == RolloutRow.prompt_id)
        .where(
            RolloutShardRow.run_id == run.id,
            RolloutPromptRow.variant > 0,
            RolloutRow.advantage < 0,
            RolloutRow.old_log_prob.is_not(None),
            RolloutRow.sampling_log_prob.is_not(None),
        )
    )
    return [exp(min(0.0, (old or 0.0) - (sampling or 0.0))) for old, sampling in rows]
