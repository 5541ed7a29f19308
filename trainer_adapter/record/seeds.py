"""Trainings that differ in their seed alone, as one: the mean of a metric over them, with its spread."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.runs.store import Run

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
