"""Trainings step by step: metrics, their means over seeds, what was drawn, how far those under way are."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from service.database.expressions import json_values
from service.errors import InputError
from service.runs.store import Run, list_runs
from trainer_adapter.record.tables import (
    TRAIN,
    RolloutGroupRow,
    RolloutShardRow,
    TrainMetricNameRow,
    TrainStepRow,
)

_CHECKPOINT = re.compile(r"global_step_(\d+)")


@dataclass(frozen=True)
class MetricSeries:
    """Metrics of a run: for each name the values at `steps`, None where a step has none."""

    run_id: str
    steps: tuple[int, ...]
    values: dict[str, tuple[float | None, ...]]


@dataclass(frozen=True)
class DrawnByStep:
    """What training had drawn when a step was over, from its first recorded step on."""

    step: int
    responses: int
    tokens: int


def metric_names(session: Session, run_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return the names of all metrics that each of the runs has logged at some step, in order."""
    names: dict[str, list[str]] = {run_id: [] for run_id in run_ids}
    rows = session.execute(
        select(TrainMetricNameRow.run_id, TrainMetricNameRow.name)
        .where(TrainMetricNameRow.run_id.in_(run_ids))
        .order_by(TrainMetricNameRow.run_id, TrainMetricNameRow.name)
    )
    for run_id, name in rows:
        names[run_id].append(name)
    return names


def metric_series(session: Session, run_ids: Sequence[str], names: Sequence[str]) -> list[MetricSeries]:
    """Return metrics of runs at all steps, by one query that reads the chosen names alone.

    A name that a run has not logged has no values. Runs without metrics have no steps.

    Raises:
        InputError: a name with a quotation mark, which no metric has.
    """
    wrong = next((name for name in names if '"' in name or "\\" in name), None)
    if wrong is not None:
        raise InputError(f"there is no metric {wrong!r}: names hold no quotation marks and backslashes.")
    if not names:
        return [MetricSeries(run_id, (), {}) for run_id in run_ids]
    chosen = json_values(TrainStepRow.metrics, list(names))
    steps: dict[str, list[int]] = {run_id: [] for run_id in run_ids}
    values: dict[str, list[list[float | None]]] = {run_id: [] for run_id in run_ids}
    rows = session.execute(
        select(TrainStepRow.run_id, TrainStepRow.step, chosen)
        .where(TrainStepRow.run_id.in_(run_ids))
        .order_by(TrainStepRow.run_id, TrainStepRow.step)
    )
    for run_id, step, text in rows:
        steps[run_id].append(step)
        values[run_id].append(json.loads(text))
    return [
        MetricSeries(
            run_id,
            tuple(steps[run_id]),
            {name: tuple(row[place] for row in values[run_id]) for place, name in enumerate(names)},
        )
        for run_id in run_ids
    ]


def drawn_by_step(session: Session, run_id: str) -> list[DrawnByStep]:
    """Return the responses and tokens that training had drawn by the end of each recorded step.

    The cost axis of curves. Steps whose rollouts were not recorded count nothing.
    """
    rows = session.execute(
        select(RolloutGroupRow.step, func.sum(RolloutGroupRow.responses), func.sum(RolloutGroupRow.tokens))
        .where(RolloutGroupRow.run_id == run_id)
        .group_by(RolloutGroupRow.step)
        .order_by(RolloutGroupRow.step)
    ).all()
    responses = accumulate(int(row[1]) for row in rows)
    tokens = accumulate(int(row[2]) for row in rows)
    return [
        DrawnByStep(row[0], *drawn)
        for row, drawn in zip(rows, zip(responses, tokens, strict=True), strict=True)
    ]


def trained_checkpoint(model: str, run_names: Sequence[str]) -> tuple[str, int] | None:
    """Return the training run and the step of the model that an eval run measured; None where it tells none.

    The path of a checkpoint says both: `.../NAME/checkpoints/global_step_120/...`. Of several folders that
    are called as a run, the one nearest to the checkpoint counts. A model that was moved elsewhere or pushed
    to the Hub is not linked: nothing else records where it came from.
    """
    parts = re.split(r"[/\\]", model)
    for place, part in enumerate(parts):
        if (match := _CHECKPOINT.fullmatch(part)) is None:
            continue
        name = next((name for name in reversed(parts[:place]) if name in run_names), None)
        return None if name is None else (name, int(match[1]))
    return None


_BESIDE = frozenset({"machine"})
"""Parts of a run's specification that decide where it runs, not what it computes."""


@dataclass(frozen=True)
class SeedPoint:
    """A metric at a step over `n` seeds: their mean, the lowest and the highest."""

    step: float
    value: float
    low: float
    high: float
    n: int


def seed_groups(runs: Sequence[Run]) -> list[tuple[Run, ...]]:
    """Return the runs in groups, in order: within one, settings differ in seeds and names at most."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(_settings(run), []).append(run)
    return [tuple(group) for group in groups.values()]


def over_seeds(lines: Sequence[Sequence[tuple[float, float | None]]]) -> list[SeedPoint]:
    """Return the points of several seeds, each (step, value), at the steps of which all have a value.

    Where a seed has stopped, or has not come so far, the mean of the others would be another one, and the
    line would jump: it ends there.
    """
    by_step: dict[float, list[float]] = {}
    for line in lines:
        for step, value in line:
            if value is not None:
                by_step.setdefault(step, []).append(value)
    return [
        SeedPoint(step, sum(values) / len(values), min(values), max(values), len(values))
        for step, values in sorted(by_step.items())
        if len(values) == len(lines)
    ]


def _settings(run: Run) -> str:
    """Return what shapes a run but for its seeds, as text; of a run without settings its name."""
    kept = {name: _without_seeds(value) for name, value in run.spec.items() if name not in _BESIDE}
    if "recipe" not in kept:
        return run.name
    settings = kept.get("settings")
    if isinstance(settings, Mapping):  # folders of the run, and its name for loggers
        kept["settings"] = {
            key: value
            for key, value in settings.items()
            if not (isinstance(value, str) and run.name in re.split(r"[/\\]", value))
        }
    return json.dumps(kept, sort_keys=True)


def _without_seeds(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _without_seeds(inner) for key, inner in value.items() if key.rpartition(".")[2] != "seed"
        }
    return value


LAST_STEPS = 10
QUICKEST_STEP_S = 1.0
"""Steps that were read faster than this were there before: an import afterwards, not a training."""

_TOTAL = "trainer.total_training_steps"
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class TrainingProgress:
    """A training under way, by the steps that `tagrpo rollouts watch` has read.

    Attributes:
        step: the last one read.
        total: steps of the whole training, None where its settings do not say.
        seconds_a_step: mean over the last steps, as they were read.
        read_at: when the last one was.
        responses: of the last step.
    """

    run: Run
    step: int
    total: int | None
    seconds_a_step: float
    read_at: datetime
    responses: int

    @property
    def minutes_left(self) -> float | None:
        if self.total is None:
            return None
        return max(0, self.total - self.step) * self.seconds_a_step / 60


def trainings_under_way(session: Session, now: datetime, quiet: timedelta) -> list[TrainingProgress]:
    """Return the trainings of which a step was read within `quiet` before `now`, newest first.

    Left out are those at their last step, and those whose steps were read all at once. Steps beyond the last
    one read are of an earlier start, and not trained again yet.
    """
    under_way = []
    for run in list_runs(session):
        if run.kind != TRAIN:
            continue
        last = (
            select(RolloutShardRow.step)
            .where(RolloutShardRow.run_id == run.id)
            .order_by(RolloutShardRow.imported_at.desc(), RolloutShardRow.step.desc())
            .limit(1)
            .correlate(None)
            .scalar_subquery()
        )
        rows = session.execute(
            select(RolloutShardRow.step, RolloutShardRow.imported_at, RolloutShardRow.rows)
            .where(RolloutShardRow.run_id == run.id, RolloutShardRow.step <= last)
            .order_by(RolloutShardRow.step.desc())
            .limit(LAST_STEPS)
        ).all()
        if len(rows) < 2:
            continue
        newest, oldest = _time(rows[0].imported_at), _time(rows[-1].imported_at)
        pace = (newest - oldest).total_seconds() / (rows[0].step - rows[-1].step)
        total = _total(run)
        if now - newest > quiet or pace < QUICKEST_STEP_S or (total is not None and rows[0].step >= total):
            continue
        under_way.append(TrainingProgress(run, rows[0].step, total, pace, newest, rows[0].rows))
    return under_way[::-1]


def _time(text: str) -> datetime:
    return datetime.strptime(text, _TIME).replace(tzinfo=UTC)


def _total(run: Run) -> int | None:
    settings = run.spec.get("settings")
    value = settings.get(_TOTAL) if isinstance(settings, dict) else None
    try:
        return int(value) if value is not None else None
    except (TypeError, ValueError):
        return None
