"""Metrics of training over steps, for charts: chosen names of some runs, and what training has drawn."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from service.errors import InputError
from trainer_adapter.record.tables import RolloutGroupRow, TrainMetricNameRow, TrainStepRow

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
    found: dict[str, list[str]] = {run_id: [] for run_id in run_ids}
    rows = session.execute(
        select(TrainMetricNameRow.run_id, TrainMetricNameRow.name)
        .where(TrainMetricNameRow.run_id.in_(run_ids))
        .order_by(TrainMetricNameRow.run_id, TrainMetricNameRow.name)
    )
    for run_id, name in rows:
        found[run_id].append(name)
    return found


def metric_series(
    session: Session, run_ids: Sequence[str], names: Sequence[str], *, after: int = -1
) -> list[MetricSeries]:
    """Return metrics of runs at all steps behind `after`, by one query that reads the chosen names alone.

    A name that a run has not logged has no values. Runs without metrics have no steps.

    Raises:
        InputError: a name with a quotation mark, which no metric has.
    """
    wrong = next((name for name in names if '"' in name or "\\" in name), None)
    if wrong is not None:
        raise InputError(f"there is no metric {wrong!r}: names hold no quotation marks and backslashes.")
    if not names:
        return [MetricSeries(run_id, (), {}) for run_id in run_ids]
    # With several paths json_extract returns an array; naming the first twice makes them several.
    paths = [f'$."{name}"' for name in (*names, names[0])]
    chosen = func.json_extract(TrainStepRow.metrics, *paths)
    steps: dict[str, list[int]] = {run_id: [] for run_id in run_ids}
    values: dict[str, list[list[float | None]]] = {run_id: [] for run_id in run_ids}
    rows = session.execute(
        select(TrainStepRow.run_id, TrainStepRow.step, chosen)
        .where(TrainStepRow.run_id.in_(run_ids), TrainStepRow.step > after)
        .order_by(TrainStepRow.run_id, TrainStepRow.step)
    )
    for run_id, step, found in rows:
        steps[run_id].append(step)
        values[run_id].append(json.loads(found))
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
