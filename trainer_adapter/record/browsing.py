"""Looking at training runs: all of them, a run's steps, its rollouts page by page, one of them whole."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select, tuple_
from sqlalchemy.orm import Session

from evaluator.grading import GradeValue
from service.database.base import Base
from service.database.searching import page_of_rows
from service.errors import InputError, NotFoundError
from service.runs.store import Run, find_run, list_runs
from trainer_adapter.record.reading import read_texts
from trainer_adapter.record.rollout import TOKENS, TokenRatios
from trainer_adapter.record.tables import (
    TRAIN,
    RolloutPromptRow,
    RolloutRow,
    RolloutShardRow,
    RolloutTextRow,
    RolloutTokensRow,
    TrainStepRow,
)

_LAST_CHARACTER = "\U0010ffff"
_TABLES: dict[str, type[Base]] = {
    "step": RolloutShardRow,
    **dict.fromkeys(("question_id", "variant", "neighbor_id", "strategy"), RolloutPromptRow),
}
"""Where fields of a header stand that are not columns of `rollouts`."""


@dataclass(frozen=True)
class TrainRun:
    """A training run: steps whose rollouts or metrics are there, the first and last of them, and rollouts."""

    run: Run
    steps: int
    first_step: int | None
    last_step: int | None
    rollouts: int

    @property
    def recipe(self) -> str | None:
        recipe = self.run.spec.get("recipe")
        return str(recipe.get("name")) if isinstance(recipe, dict) else recipe

    @property
    def model(self) -> str | None:
        model = self.run.spec.get("model")
        return None if model is None else str(model)

    def to_json(self) -> dict[str, Any]:
        """Return the machine-readable form; the spec is in `runs show`."""
        return {
            "recipe": self.recipe,
            "model": self.model,
            "steps": self.steps,
            "first_step": self.first_step,
            "last_step": self.last_step,
            "rollouts": self.rollouts,
        }


@dataclass(frozen=True)
class TrainStep:
    """A step with its metrics ({} where none were recorded) and its number of rollouts."""

    step: int
    rollouts: int
    metrics: dict[str, float]


@dataclass(frozen=True)
class RolloutHeader:
    """A rollout without its text; fields as in `RolloutRecord`, `grade` is correct, wrong or unknown."""

    id: int
    step: int
    question_id: str
    variant: int
    neighbor_id: str | None
    strategy: str | None
    group: int
    session: int
    tokens: int
    truncated: bool
    reward: float
    grade: str
    reason: str
    extracted: str | None
    advantage: float | None
    old_log_prob: float | None
    sampling_log_prob: float | None
    ref_log_prob: float | None
    entropy: float | None
    weights_version: int | None


@dataclass(frozen=True)
class WholeRollout:
    """A rollout with the prompt it was drawn for (None where it was not kept) and its text."""

    run: Run
    header: RolloutHeader
    prompt: str | None
    response: str


@dataclass(frozen=True)
class RolloutFilters:
    """Which rollouts are wanted; None does not restrict.

    Attributes:
        question_id: an id, or its beginning.
        variant: 0 for the question's own prompt.
        grade: correct, wrong or unknown.
        least_reward: rewards of this or more.
        most_reward: rewards of this or less.
        text: what the response holds, whatever the case of its letters; `search_rollouts` heeds it.
    """

    step: int | None = None
    question_id: str | None = None
    variant: int | None = None
    grade: str | None = None
    least_reward: float | None = None
    most_reward: float | None = None
    truncated: bool | None = None
    text: str | None = None

    def __post_init__(self) -> None:
        if self.grade is not None and self.grade not in list(GradeValue):
            raise InputError(f"{self.grade!r} is no grade; ask for {', '.join(GradeValue)}.")


def list_train_runs(session: Session) -> list[TrainRun]:
    """Return all training runs with their numbers, oldest first."""
    return [read_train_run(session, run) for run in list_runs(session) if run.kind == TRAIN]


def choose_train_run(session: Session, reference: str | None) -> Run:
    """Return the training run named, or the only one there is.

    Raises:
        NotFoundError: no such run.
        InputError: it is no training run; or none is named and there are several, or none at all.
    """
    if reference is not None:
        run = find_run(session, reference)
        if run.kind != TRAIN:
            raise InputError(f"run {run.name!r} is no training run; `tagrpo runs list` shows those.")
        return run
    runs = [run for run in list_runs(session) if run.kind == TRAIN]
    if len(runs) != 1:
        raise InputError(
            f"there are several training runs, name one: {', '.join(sorted(run.name for run in runs))}."
            if runs
            else "there is no training run yet; import one with `tagrpo rollouts import FOLDER`."
        )
    return runs[0]


def read_steps(session: Session, run_id: str) -> list[TrainStep]:
    """Return the steps of a run in order."""
    recorded = session.execute(
        select(RolloutShardRow.step, RolloutShardRow.rows).where(RolloutShardRow.run_id == run_id)
    )
    rollouts = {row.step: row.rows for row in recorded}
    logged = session.execute(
        select(TrainStepRow.step, TrainStepRow.metrics).where(TrainStepRow.run_id == run_id)
    )
    metrics = {row.step: row.metrics for row in logged}
    return [
        TrainStep(step, rollouts.get(step, 0), metrics.get(step, {}))
        for step in sorted(rollouts.keys() | metrics.keys())
    ]


def page_rollouts(
    session: Session,
    run_id: str,
    filters: RolloutFilters | None = None,
    *,
    after: int | None = None,
    limit: int = 25,
) -> list[RolloutHeader]:
    """Return up to `limit` rollouts of a run behind the rollout `after`, by step, then as recorded.

    Raises:
        NotFoundError: `after` is no rollout of the run.
    """
    conditions = [
        RolloutShardRow.run_id == run_id,
        RolloutPromptRow.run_id == run_id,
        *_conditions(filters or RolloutFilters()),
    ]
    if after is not None:
        step = session.scalar(
            select(RolloutShardRow.step)
            .join(RolloutRow, RolloutRow.shard_id == RolloutShardRow.id)
            .where(RolloutRow.id == after, RolloutShardRow.run_id == run_id)
        )
        if step is None:
            raise NotFoundError(f"rollout {after} is not in the run; go on after one that is.")
        conditions.append(RolloutShardRow.step >= step)  # the index finds this, not the pair
        conditions.append(tuple_(RolloutShardRow.step, RolloutRow.id) > (step, after))
    query = rollout_headers().where(*conditions).order_by(RolloutShardRow.step, RolloutRow.id).limit(limit)
    return [RolloutHeader(*row) for row in session.execute(query)]


@dataclass(frozen=True)
class RolloutsPage:
    """Some rollouts in order; `after` is the number to go on behind, None at the end."""

    rollouts: tuple[RolloutHeader, ...]
    after: int | None


def search_rollouts(
    session: Session, run_id: str, filters: RolloutFilters, *, after: int | None = None, limit: int = 25
) -> RolloutsPage:
    """Return up to `limit` rollouts of a run behind the rollout `after`, also by what their texts hold.

    Where a text is searched for the page may be short, even empty, and still have an `after`; see
    `page_of_rows`.

    Raises:
        NotFoundError: as `page_rollouts`.
    """

    def texts_of(headers: Sequence[RolloutHeader]) -> list[str]:
        texts = read_rollout_texts(session, [header.id for header in headers])
        return [texts.get(header.id, "") for header in headers]

    rollouts, behind = page_of_rows(
        lambda place, size: page_rollouts(session, run_id, filters, after=place, limit=size),
        lambda header: header.id,
        after=after,
        limit=limit,
        texts_of=texts_of if filters.text else None,
        sought=filters.text or "",
    )
    return RolloutsPage(tuple(rollouts), behind)


def read_rollout(session: Session, rollout_id: int) -> WholeRollout:
    """Return a rollout with its prompt and text.

    Raises:
        NotFoundError: no such rollout.
        InputError: as `read_rollout_texts`.
    """
    row = session.execute(rollout_headers().where(RolloutRow.id == rollout_id)).one_or_none()
    if row is None:
        raise NotFoundError(f"there is no rollout {rollout_id}; `tagrpo rollouts list` shows their numbers.")
    run_id, prompt = session.execute(
        select(RolloutPromptRow.run_id, RolloutPromptRow.text)
        .join(RolloutRow, RolloutRow.prompt_id == RolloutPromptRow.id)
        .where(RolloutRow.id == rollout_id)
    ).one()
    text = read_rollout_texts(session, [rollout_id])[rollout_id]
    return WholeRollout(find_run(session, run_id), RolloutHeader(*row), prompt, text)


def read_rollout_texts(session: Session, rollout_ids: Sequence[int]) -> dict[int, str]:
    """Return the texts of these rollouts by id, from the database or their shards.

    Ids that are not there are left out.

    Raises:
        InputError: a shard is not where it was imported from, is another one now, or is damaged.
    """
    return _texts(session, rollout_ids, RolloutTextRow.rollout_id, RolloutTextRow.text, "response")


def read_token_ratios(session: Session, rollout_id: int) -> TokenRatios | None:
    """Return the log-ratios of a rollout's tokens; None where training did not record them.

    Raises:
        InputError: as `read_rollout_texts`.
    """
    ratios = _ratios(session, [rollout_id]).get(rollout_id)
    try:
        return None if ratios is None else TokenRatios.from_text(ratios)
    except ValueError as error:
        raise InputError(
            f"rollout {rollout_id}: its column {TOKENS!r} holds something else ({error})."
        ) from error


def have_tokens(session: Session, rollout_ids: Sequence[int]) -> bool:
    """Say whether log-ratios of tokens are there for any of these rollouts."""
    try:
        return bool(_ratios(session, rollout_ids))
    except InputError:  # told where the responses are read
        return False


def _ratios(session: Session, rollout_ids: Sequence[int]) -> dict[int, str]:
    return _texts(session, rollout_ids, RolloutTokensRow.rollout_id, RolloutTokensRow.ratios, TOKENS)


def _texts(session: Session, rollout_ids: Sequence[int], id: Any, stored: Any, name: str) -> dict[int, str]:
    """Return what the database has of these rollouts in `stored`, else their shards in column `name`."""
    texts: dict[int, str] = {}
    for start in range(0, len(rollout_ids), 500):
        part = rollout_ids[start : start + 500]
        there = session.execute(select(id, stored).where(id.in_(part)))
        texts.update((id, text) for id, text in there)
        copied = set(
            session.scalars(select(RolloutTextRow.rollout_id).where(RolloutTextRow.rollout_id.in_(part)))
        )
        lacking = [id for id in part if id not in copied]
        rows: dict[int, list[int]] = {}
        for id_there, shard_id in session.execute(
            select(RolloutRow.id, RolloutRow.shard_id).where(RolloutRow.id.in_(lacking))
        ):
            rows.setdefault(shard_id, []).append(id_there)
        for shard_id, ids in rows.items():
            texts.update(_shard_texts(session, shard_id, ids, name))
    return texts


def _shard_texts(session: Session, shard_id: int, ids: Sequence[int], name: str) -> dict[int, str]:
    first = select(func.min(RolloutRow.id)).where(RolloutRow.shard_id == shard_id).scalar_subquery()
    path, content, first_id = session.execute(
        select(RolloutShardRow.path, RolloutShardRow.content, first).where(RolloutShardRow.id == shard_id)
    ).one()
    if path is None:  # texts stand in the database alone, and these were not recorded
        return {}
    texts = read_texts(Path(path), content, [id - first_id for id in ids], name)
    return {first_id + row: text for row, text in texts.items() if text is not None}


def read_train_run(session: Session, run: Run) -> TrainRun:
    steps = read_step_numbers(session, run.id)
    rollouts = session.scalar(
        select(func.coalesce(func.sum(RolloutShardRow.rows), 0)).where(RolloutShardRow.run_id == run.id)
    )
    return TrainRun(
        run, len(steps), steps[0] if steps else None, steps[-1] if steps else None, int(rollouts or 0)
    )


def read_step_numbers(session: Session, run_id: str) -> list[int]:
    """Return the steps of a run of which anything is there, in order."""
    recorded = select(RolloutShardRow.step).where(RolloutShardRow.run_id == run_id)
    logged = select(TrainStepRow.step).where(TrainStepRow.run_id == run_id)
    return sorted(session.scalars(recorded.union(logged)).all())


def rollout_folders(session: Session, run_id: str) -> list[str]:
    """Return the folders that the shards of a run were imported from."""
    paths = session.scalars(select(RolloutShardRow.path).where(RolloutShardRow.run_id == run_id))
    return sorted({str(Path(path).parent) for path in paths if path is not None})


def rollout_headers() -> Select[*tuple[Any, ...]]:
    """Return the query of all rollouts with the fields of `RolloutHeader` in order."""
    return (
        select(*(getattr(_TABLES.get(field.name, RolloutRow), field.name) for field in fields(RolloutHeader)))
        .join(RolloutShardRow, RolloutShardRow.id == RolloutRow.shard_id)
        .join(RolloutPromptRow, RolloutPromptRow.id == RolloutRow.prompt_id)
    )


def _conditions(filters: RolloutFilters) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if filters.step is not None:
        conditions.append(RolloutShardRow.step == filters.step)
    if filters.question_id is not None:
        # A range, unlike a pattern, is looked up in the index.
        conditions.append(RolloutPromptRow.question_id >= filters.question_id)
        conditions.append(RolloutPromptRow.question_id < filters.question_id + _LAST_CHARACTER)
    if filters.variant is not None:
        conditions.append(RolloutPromptRow.variant == filters.variant)
    if filters.grade is not None:
        conditions.append(RolloutRow.grade == filters.grade)
    if filters.least_reward is not None:
        conditions.append(RolloutRow.reward >= filters.least_reward)
    if filters.most_reward is not None:
        conditions.append(RolloutRow.reward <= filters.most_reward)
    if filters.truncated is not None:
        conditions.append(RolloutRow.truncated == filters.truncated)
    return conditions
