"""The tables of the study of a real model, from its rows.

Intervals are for new seeds and new problems of the same kind together: the variance of the mean over seeds
and that of the mean over problems are added, with Satterthwaite's degrees of freedom. With one seed they are
for new problems alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.harness import interval
from benchmarks.studies.real_model_plan import BASE, BASELINE, PILOT_SEED, RECIPES, TRAINING, Row, best_rate
from evaluator.passk.counts import values_over_k

KS = (1, 4, 8)
BOTH = "all"
CONTROL = "grpo_random"


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of the report."""
    trained = [row for row in rows if row["benchmark"] == TRAINING]
    tested = [row for row in rows if row["benchmark"] not in (TRAINING, "pool")]
    yield from _pilot([row for row in trained if row["seed"] == PILOT_SEED])
    yield from _pool([row for row in rows if row["benchmark"] == "pool"])
    yield from _trainings([row for row in trained if row["seed"] != PILOT_SEED])
    if tested:
        yield from _scores(tested)


def _pilot(rows: Sequence[Row]) -> Iterator[str]:
    if rows:
        yield f"Learning rate by the pilot: {best_rate(rows):g}."
        for rate in sorted({row["rate"] for row in rows}):
            steps = sorted((row for row in rows if row["rate"] == rate), key=lambda row: row["step"])
            shares = (f"{row['correct'] / row['drawn']:.2f}" for row in steps)
            yield f"- {rate:g}: share of rewarded responses per step {' '.join(shares)}"
        yield ""


def _pool(rows: Sequence[Row]) -> Iterator[str]:
    if rows:
        right = sum(row["boxed"] == row["drawn"] for row in rows) / len(rows)
        wrong = sum(row["boxed"] == 0 for row in rows) / len(rows)
        yield (
            f"Before training, of {len(rows)} training questions {right:.1%} had only right responses and "
            f"{wrong:.1%} only wrong ones (strict grading)."
        )
        yield ""


def _trainings(rows: Sequence[Row]) -> Iterator[str]:
    runs: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        runs[row["recipe"], row["seed"]].append(row)
    if runs:
        yield "| recipe | seed | rate | steps | responses | rewarded: first, last quarter | minutes |"
        yield "|---|---|---|---|---|---|---|"
    for (recipe, seed), steps in sorted(runs.items(), key=lambda run: (run[0][1], run[0][0])):
        quarter = max(1, len(steps) // 4)
        first, last = (
            sum(row["correct"] for row in part) / sum(row["drawn"] for row in part)
            for part in (steps[:quarter], steps[-quarter:])
        )
        end = steps[-1]
        yield (
            f"| {recipe} | {seed} | {end['rate']:g} | {end['step']} | {end['responses']:,} "
            f"| {first:.0%}, {last:.0%} | {end['seconds'] / 60:.1f} |"
        )
    if runs:
        yield ""


def _scores(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a table per benchmark and one over all problems."""
    heads = [*(f"pass@{k}" for k in KS), "pass@1 strict"]
    heads += [f"pass@1 to {BASE}", "strict", f"pass@1 to {BASELINE}", "strict", f"pass@8 to {BASELINE}"]
    heads += [f"pass@1 to {CONTROL}", "truncated"]
    for benchmark in [BOTH, *sorted({row["benchmark"] for row in rows})]:
        chosen = [row for row in rows if benchmark in (BOTH, row["benchmark"])]
        yield f"## {benchmark}: {len({_problem(row) for row in chosen}):,} problems"
        yield ""
        yield f"| recipe | responses | seeds | {' | '.join(heads)} |"
        yield f"|{'---|' * (len(heads) + 3)}"
        points = _points(chosen)
        for recipe, given in sorted(points, key=lambda key: (key[1], [BASE, *RECIPES].index(key[0]))):
            cells = [recipe, f"{given:,}", *_cells(points, recipe, given)]
            yield f"| {' | '.join(cells)} |"
        yield ""


Point = tuple[str, int]
"""A recipe and the responses of its pair; dynamic sampling drew up to a few steps' responses less."""


def _points(rows: Sequence[Row]) -> dict[Point, list[Row]]:
    given: dict[int, int] = defaultdict(int)
    for row in rows:
        given[row["seed"]] = max(given[row["seed"]], row["responses"])
    points: dict[Point, list[Row]] = defaultdict(list)
    for row in rows:
        points[row["recipe"], given[row["seed"]]].append(row)
    return points


def _cells(points: Mapping[Point, list[Row]], recipe: str, given: int) -> Iterator[str]:
    """Yield a recipe's number of seeds, its scores, and the differences that are known."""
    mine = points[recipe, given]
    seeds = {row["seed"] for row in mine}
    before = [] if recipe == BASE else points.get((BASE, 0), [])
    theirs = [row for row in points.get((BASELINE, given), []) if row["seed"] in seeds]
    theirs = [] if recipe == BASELINE else theirs
    control = [] if recipe in (BASE, CONTROL) else points.get((CONTROL, given), [])
    yield str(len(seeds))
    for k in KS:
        yield f"{_values(mine, 'correct', k)[1].mean():.3f}"
    yield f"{_values(mine, 'boxed', 1)[1].mean():.3f}"
    for others, grading, k in (
        *((before, "correct", 1), (before, "boxed", 1)),
        *((theirs, "correct", 1), (theirs, "boxed", 1), (theirs, "correct", 8)),
    ):
        yield _in_points(paired(mine, others, grading, k)) if others else ""
    yield _in_points(apart(mine, control)) if control else ""
    yield f"{sum(row['truncated'] for row in mine) / sum(row['drawn'] for row in mine):.1%}"


def _problem(row: Row) -> tuple[str, str]:
    return row["benchmark"], row["problem"]


def _values(rows: Sequence[Row], grading: str, k: int) -> tuple[list[int], Any]:
    """Return the seeds, and pass@k of each seed and problem [S, M].

    Raises:
        ValueError: seeds that were evaluated on different problems.
    """
    seeds = sorted({row["seed"] for row in rows})
    problems = sorted({_problem(row) for row in rows})
    by_place = {(row["seed"], _problem(row)): row for row in rows}
    try:
        grid = [[by_place[seed, problem] for problem in problems] for seed in seeds]
    except KeyError as error:
        raise ValueError(
            f"no row for seed and problem {error}. Give the rows of whole evaluations."
        ) from None
    drawn = np.array([[row["drawn"] for row in line] for line in grid])
    correct = np.array([[row[grading] for row in line] for line in grid])
    return seeds, np.array([values_over_k(*each, (k,))[0] for each in zip(drawn, correct, strict=True)])


def paired(ours: Sequence[Row], theirs: Sequence[Row], grading: str, k: int) -> tuple[float, float, float]:
    """Return the mean difference with its 95% interval; theirs have the same seeds, or are of the base."""
    seeds, mine = _values(ours, grading, k)
    other_seeds, others = _values(theirs, grading, k)
    if len(other_seeds) > 1 and seeds != other_seeds:
        raise ValueError(f"seeds {seeds} and {other_seeds} are no pairs.")
    differences = mine - others
    by_seed = [differences.mean(1)] if len(differences) > 1 else []
    return interval(float(differences.mean()), [differences.mean(0), *by_seed])


def apart(ours: Sequence[Row], control: Sequence[Row]) -> tuple[float, float, float]:
    """Return the mean difference in pass@1 to the control, whose seeds are others."""
    (_, mine), (_, others) = _values(ours, "correct", 1), _values(control, "correct", 1)
    by_problem = mine.mean(0) - others.mean(0)
    by_seed = [each.mean(1) for each in (mine, others) if len(each) > 1]
    return interval(float(by_problem.mean()), [by_problem, *by_seed])


def _in_points(found: tuple[float, float, float]) -> str:
    mean, low, high = (100 * value for value in found)
    return f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"
