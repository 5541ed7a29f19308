"""Trainings step by step: metrics, their means over seeds, progress."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from service.runs.store import Run
from trainer_adapter.record.files import step_path
from trainer_adapter.record.groups import GroupFilters
from trainer_adapter.record.reading import Record, file_state

_CHECKPOINT = re.compile(r"global_step_(\d+)")


@dataclass(frozen=True)
class MetricSeries:
    """Metrics of a run: for each name the values at `steps`, None where a step has none."""

    run_id: str
    steps: tuple[int, ...]
    values: dict[str, tuple[float | None, ...]]


def metric_names(records: Mapping[str, Record]) -> dict[str, list[str]]:
    """Return the sorted names of all metrics that each run has logged at some step, by the run's id."""
    return {
        run_id: sorted({name for metrics in record.metrics().values() for name in metrics})
        for run_id, record in records.items()
    }


def metric_series(records: Mapping[str, Record], names: Sequence[str]) -> list[MetricSeries]:
    """Return metrics of runs at all steps. A name that a run has not logged has no values."""
    series = []
    for run_id, record in records.items():
        logged = record.metrics()
        values = {name: tuple(metrics.get(name) for metrics in logged.values()) for name in names}
        series.append(MetricSeries(run_id, tuple(logged) if names else (), values))
    return series


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
"""Files of steps that appeared faster than this were copied, not trained."""

_TOTAL = "trainer.total_training_steps"


@dataclass(frozen=True)
class TrainingProgress:
    """A training under way, by the files of its steps.

    Attributes:
        step: the last one.
        total: steps of the whole training; None if its settings do not say.
        seconds_a_step: mean over the last steps, as they were written.
        written_at: when the last one was.
        responses: of the last step.
    """

    run: Run
    step: int
    total: int | None
    seconds_a_step: float
    written_at: datetime
    responses: int

    @property
    def minutes_left(self) -> float | None:
        if self.total is None:
            return None
        return max(0, self.total - self.step) * self.seconds_a_step / 60


def training_progress(run: Run, record: Record, now: datetime, quiet: timedelta) -> TrainingProgress | None:
    """Return how far a training is; None if no step was written within `quiet` before `now`.

    Also None at the last step, and if all steps were written at once. Steps after the one that was written
    last are of an earlier start, and not trained again yet.
    """
    states = {step: file_state(step_path(record.folder, step)) for step in record.steps()}
    written = {step: state[0] / 1e9 for step, state in states.items() if state is not None}
    if not written:
        return None
    last = max(written, key=lambda step: (written[step], step))
    steps = sorted(step for step in written if step <= last)[-LAST_STEPS:]
    if len(steps) < 2:
        return None
    pace = (written[last] - written[steps[0]]) / (last - steps[0])
    total, at = _total(run), datetime.fromtimestamp(written[last], UTC)
    if now - at > quiet or pace < QUICKEST_STEP_S or (total is not None and last >= total):
        return None
    groups = record.counts().page_steps(GroupFilters(step=last))
    return TrainingProgress(run, last, total, pace, at, sum(step.responses for step in groups))


def _total(run: Run) -> int | None:
    settings = run.spec.get("settings")
    value = settings.get(_TOTAL) if isinstance(settings, dict) else None
    try:
        return int(value) if value is not None else None
    except (TypeError, ValueError):
        return None
