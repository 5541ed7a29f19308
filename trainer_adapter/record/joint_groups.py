"""Joint groups: counted when a step is imported; by step and kind, one whole, one over training."""

from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from sqlalchemy import (
    ColumnElement,
    Insert,
    Table,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    select,
    tuple_,
)
from sqlalchemy.orm import InstrumentedAttribute, Session

from evaluator.grading import GradeValue
from service.errors import InputError, NotFoundError
from service.questions.tables import QuestionRow
from service.runs.store import Run
from trainer_adapter.record.browsing import RolloutHeader, have_tokens, rollout_headers
from trainer_adapter.record.tables import (
    RolloutGroupRow,
    RolloutPromptRow,
    RolloutRow,
    RolloutShardRow,
)

MIXED, ALL_RIGHT, ALL_WRONG, UNCLEAR = "mixed", "all right", "all wrong", "unclear"
KINDS = (MIXED, ALL_RIGHT, ALL_WRONG, UNCLEAR)
"""Of a joint group by correctness: right and wrong ones, right only, wrong only, or one of both with unknown.

Where the reward is correctness, only mixed groups have a gradient; in unclear ones it depends on what unknown
grades count as, and the rewards of a group say whether they differ.
"""
_TIMEOUT = "timeout"


@dataclass(frozen=True)
class StepGroups:
    """A step in numbers: its questions by kind of their joint group (see `KINDS`), its responses."""

    step: int
    questions: int
    mixed: int
    all_right: int
    all_wrong: int
    unclear: int
    responses: int
    correct: int
    wrong: int
    unknown: int
    truncated: int
    timeouts: int
    tokens: int
    reward: float  # mean of a response

    @property
    def zero_gradient(self) -> float:
        """Share of joint groups with right or wrong responses only; unclear ones are not among them."""
        return (self.all_right + self.all_wrong) / self.questions


@dataclass(frozen=True)
class RolloutGroup:
    """The responses to a question and its neighbors at a step. The key of a page is (step, question_id).

    `prompts` counts the original and its neighbors; `original_...` are of the original's prompt alone.
    """

    step: int
    question_id: str
    kind: str
    responses: int
    prompts: int
    correct: int
    wrong: int
    unknown: int
    original_correct: int
    original_wrong: int
    original_unknown: int
    truncated: int
    timeouts: int
    tokens: int
    reward_sum: float
    reward_least: float
    reward_most: float

    @property
    def reward(self) -> float:
        """Mean of a response."""
        return self.reward_sum / self.responses


@dataclass(frozen=True)
class GroupFilters:
    """Which groups are wanted; None and False do not restrict.

    Attributes:
        step: one step.
        kind: mixed, all right, all wrong or unclear.
        unknown: with responses of unknown grade.
        timeouts: with grades that are unknown because the grader ran out of time.
        truncated: with responses cut at the longest length.

    Raises:
        InputError: no such kind.
    """

    step: int | None = None
    kind: str | None = None
    unknown: bool = False
    timeouts: bool = False
    truncated: bool = False

    def __post_init__(self) -> None:
        if self.kind is not None and self.kind not in KINDS:
            raise InputError(f"{self.kind!r} is no kind of group; ask for {', '.join(KINDS)}.")


@dataclass(frozen=True)
class GroupColumn:
    """One prompt of a joint group: the original (variant 0) or a neighbor, with the headers of its responses.

    `prompt` is None where prompts were not kept.
    """

    variant: int
    neighbor_id: str | None
    strategy: str | None
    prompt: str | None
    rollouts: tuple[RolloutHeader, ...]


@dataclass(frozen=True)
class JointGroup:
    """A question's group at a step; `question` and `answer` are None where it is not in the database.

    `has_tokens`: log-ratios of single tokens were recorded; `browsing.read_token_ratios` gives them.
    """

    group: RolloutGroup
    question: str | None
    answer: str | None
    columns: tuple[GroupColumn, ...]
    has_tokens: bool = False


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
    run = bindparam("counted_run", type_=RolloutShardRow.run_id.type)
    step = bindparam("counted_step", type_=RolloutShardRow.step.type)
    counted = (
        select(
            run,
            step,
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
        .where(RolloutShardRow.run_id == run, RolloutShardRow.step == step)
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


def page_steps(session: Session, run_id: str, filters: GroupFilters | None = None) -> list[StepGroups]:
    """Return the steps of a run with rollouts, in order.

    With filters they are counted over the groups that these leave, and steps without any are left out.
    """
    row = RolloutGroupRow
    kinds = (func.sum(case((row.kind == kind, 1), else_=0)) for kind in KINDS)
    sums = (row.responses, row.correct, row.wrong, row.unknown, row.truncated, row.timeouts, row.tokens)
    query = (
        select(
            row.step,
            func.count(),
            *kinds,
            *(func.sum(column) for column in sums),
            func.sum(row.reward_sum) / func.sum(row.responses),
        )
        .where(row.run_id == run_id, *_conditions(filters or GroupFilters()))
        .group_by(row.step)
        .order_by(row.step)
    )
    return [StepGroups(*row) for row in session.execute(query)]


def page_groups(
    session: Session,
    run_id: str,
    filters: GroupFilters | None = None,
    *,
    after: tuple[int, str] | None = None,
    before: tuple[int, str] | None = None,
    limit: int = 25,
) -> list[RolloutGroup]:
    """Return up to `limit` groups of a run by step and question: behind the key `after`, or the last before
    the key `before`.
    """
    row = RolloutGroupRow
    conditions = [row.run_id == run_id, *_conditions(filters or GroupFilters())]
    key = tuple_(row.step, row.question_id)
    order = [row.step, row.question_id]
    if before is not None:
        conditions += [row.step <= before[0], key < before]  # the index finds the step, not the pair
        backwards = select(*_columns()).where(*conditions).order_by(*(column.desc() for column in order))
        return [RolloutGroup(*row) for row in session.execute(backwards.limit(limit))][::-1]
    if after is not None:
        conditions += [row.step >= after[0], key > after]
    query = select(*_columns()).where(*conditions).order_by(*order).limit(limit)
    return [RolloutGroup(*row) for row in session.execute(query)]


def read_joint_group(session: Session, run_id: str, step: int, question_id: str) -> JointGroup:
    """Return a question's joint group at a step: a column a prompt, the original first, without texts.

    `browsing.read_rollout_texts` gives the texts of the responses that are shown.

    Raises:
        NotFoundError: the question was not trained on at this step.
    """
    row = RolloutGroupRow
    group = session.execute(
        select(*_columns()).where(row.run_id == run_id, row.step == step, row.question_id == question_id)
    ).one_or_none()
    if group is None:
        raise NotFoundError(
            f"step {step} has no responses to question {question_id}; see `question_history`."
        )
    shard = (
        select(RolloutShardRow.id)
        .where(RolloutShardRow.run_id == run_id, RolloutShardRow.step == step)
        .scalar_subquery()
    )
    prompts = session.execute(
        select(
            RolloutPromptRow.id,
            RolloutPromptRow.variant,
            RolloutPromptRow.neighbor_id,
            RolloutPromptRow.strategy,
            RolloutPromptRow.text,
        )
        .where(RolloutPromptRow.run_id == run_id, RolloutPromptRow.question_id == question_id)
        .order_by(RolloutPromptRow.variant, RolloutPromptRow.id)
    ).all()
    by_prompt: dict[int, list[RolloutHeader]] = {}
    rows = session.execute(
        rollout_headers()
        .add_columns(RolloutRow.prompt_id)
        .where(RolloutRow.prompt_id.in_([prompt.id for prompt in prompts]), RolloutRow.shard_id == shard)
        .order_by(RolloutRow.session)
    )
    for *header, prompt_id in rows:
        by_prompt.setdefault(prompt_id, []).append(RolloutHeader(*header))
    about = session.execute(
        select(QuestionRow.text, QuestionRow.answer).where(QuestionRow.id == question_id)
    ).one_or_none()
    return JointGroup(
        group=RolloutGroup(*group),
        question=None if about is None else about.text,
        answer=None if about is None else about.answer,
        columns=tuple(
            GroupColumn(
                prompt.variant, prompt.neighbor_id, prompt.strategy, prompt.text, tuple(by_prompt[prompt.id])
            )
            for prompt in prompts
            if prompt.id in by_prompt
        ),
        has_tokens=have_tokens(session, [header.id for headers in by_prompt.values() for header in headers]),
    )


def question_history(session: Session, run_id: str, question_id: str) -> list[RolloutGroup]:
    """Return a question's groups over training; two of them make a comparison."""
    row = RolloutGroupRow
    query = select(*_columns()).where(row.run_id == run_id, row.question_id == question_id).order_by(row.step)
    return [RolloutGroup(*row) for row in session.execute(query)]


def question_texts(session: Session, question_ids: list[str]) -> dict[str, str]:
    """Return the texts of questions that are in the database, by id, for lists of groups."""
    rows = session.execute(
        select(QuestionRow.id, QuestionRow.text).where(QuestionRow.id.in_(question_ids))
    ).all()
    return dict[str, str]((id, text) for id, text in rows)


def log_ratio_of(header: RolloutHeader) -> float | None:
    """Return a response's log-ratio in nats, anchor over sampling prompt; None where it was not recorded.

    Those of single tokens are `browsing.read_token_ratios`, where they were recorded.
    """
    if header.old_log_prob is None or header.sampling_log_prob is None:
        return None
    return header.old_log_prob - header.sampling_log_prob


def log_ratio(header: RolloutHeader) -> float | None:
    """Return the mean log-ratio of a response's tokens; None where it was not recorded."""
    whole = log_ratio_of(header)
    return whole / header.tokens if whole is not None and header.tokens else None


def _columns() -> Any:
    return [getattr(RolloutGroupRow, name) for name in RolloutGroup.__dataclass_fields__]


def _conditions(filters: GroupFilters) -> list[ColumnElement[bool]]:
    row = RolloutGroupRow
    conditions: list[ColumnElement[bool]] = []
    for column, value in ((row.step, filters.step), (row.kind, filters.kind)):
        if value is not None:
            conditions.append(column == value)
    for column, wanted in (
        (row.unknown, filters.unknown),
        (row.timeouts, filters.timeouts),
        (row.truncated, filters.truncated),
    ):
        if wanted:
            conditions.append(column > 0)
    return conditions
