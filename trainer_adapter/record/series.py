"""Logged metrics of trainings over their steps, and means over their seeds."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from fnmatch import filter as matching
from typing import Any

from service.errors import InputError
from service.runs.store import Run
from trainer_adapter.record.reading import Record

_BESIDE = frozenset({"machine"})
"""Parts of a run's specification that decide where it runs, not what it computes."""

MAIN_METRICS = (
    "tagrpo/correct/mean",
    "tagrpo/zero/joint/share",
    "tagrpo/entropy/mean",
    "tagrpo/tokens/mean",
)

_CHECKPOINT = re.compile(r"global_step_(\d+)")


@dataclass(frozen=True)
class SeedPoint:
    """A metric at a step over `n` seeds: their mean, the lowest and the highest."""

    step: float
    value: float
    low: float
    high: float
    n: int


def metric_names(record: Record) -> list[str]:
    """Return the sorted names of all metrics that a training has logged at some step."""
    return sorted({name for metrics in record.metrics().values() for name in metrics})


def metric_points(record: Record, name: str) -> list[tuple[int, float]]:
    """Return a metric at the steps that have logged it."""
    return [(step, metrics[name]) for step, metrics in record.metrics().items() if name in metrics]


def trained_checkpoint(model: str, run_names: Sequence[str]) -> tuple[str, int] | None:
    """Return the training run and the step of the model that an eval run measured; None if it has none.

    The path of a checkpoint names both: `.../NAME/checkpoints/global_step_120/...`. Of several folders with
    a run's name, the one nearest to the checkpoint counts. A model that was moved is not linked.
    """
    parts = re.split(r"[/\\]", model)
    for place, part in enumerate(parts):
        if match := _CHECKPOINT.fullmatch(part):
            name = next((name for name in reversed(parts[:place]) if name in run_names), None)
            return None if name is None else (name, int(match[1]))
    return None


def seed_groups(runs: Sequence[Run]) -> list[tuple[Run, ...]]:
    """Return the runs in groups, in order: within one, settings differ in seeds and names at most."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(_settings(run), []).append(run)
    return [tuple(group) for group in groups.values()]


def over_seeds(lines: Sequence[Sequence[tuple[float, float | None]]]) -> list[SeedPoint]:
    """Return the means of several seeds, each (step, value), at the steps where all have a value."""
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


def match_metrics(logged: Sequence[str], patterns: Sequence[str] | None) -> list[str]:
    """Return the logged names that match the patterns, in their order; without patterns the main ones."""
    names: list[str] = []
    for pattern in MAIN_METRICS if patterns is None else patterns:
        matches = matching(logged, pattern)
        if not matches and patterns is not None:
            near = ", ".join(get_close_matches(pattern, logged, n=3, cutoff=0.3)) or "none at all"
            raise InputError(f"the run has no metric {pattern!r}. Similar: {near}.")
        names += matches
    return list(dict.fromkeys(names))


def metric_rows(
    records: Mapping[str, Record], groups: Sequence[Sequence[Run]], names: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the metrics of groups of runs by step; `records` are those of the runs by id."""
    rows = []
    for group in groups:
        label, of_group = " + ".join(run.name for run in group), []
        for name in names:
            lines = [metric_points(records[run.id], name) for run in group]
            of_group += [
                {"label": label, "metric": name, **asdict(point), "step": int(point.step)}
                for point in over_seeds([line for line in lines if line])
            ]
        rows += sorted(of_group, key=lambda row: row["step"])
    return rows


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
