"""The tables of the study of a real model, from its rows.

Intervals are for new seeds and new problems of the same kind together: the variance of the mean over seeds and
that of the mean over problems are added, with Satterthwaite's degrees of freedom. With one seed they are for
new problems alone.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.studies.real_model import BASE, BASELINE, PILOT_SEED, RECIPES, TRAINING, Row, best_rate
from evaluator.passk.curves import values_over_k

KS = (1, 4, 8)
BOTH = "all"
CONTROL = "grpo_random"
GRADINGS = {"lenient": "correct", "strict": "boxed"}


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
        yield "| recipe | seed | rate | steps | responses | rewarded, first and last quarter | minutes of steps |"
        yield "|---|---|---|---|---|---|---|"
    for (recipe, seed), steps in sorted(runs.items(), key=lambda run: (run[0][1], run[0][0])):
        quarter = max(1, len(steps) // 4)
        first, last = (
            sum(row["correct"] for row in part) / sum(row["drawn"] for row in part)
            for part in (steps[:quarter], steps[-quarter:])
        )
        end = steps[-1]
        yield (
            f"| {recipe} | {seed} | {end['rate']:g} | {end['step']} | {end['responses']:,} | {first:.0%}, {last:.0%} "
            f"| {end['seconds'] / 60:.1f} |"
        )
    if runs:
        yield ""


def _scores(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a table per benchmark, and one over all problems: scores, and differences to base and baseline."""
    benchmarks = sorted({row["benchmark"] for row in rows})
    base_step = {0: [row for row in rows if row["recipe"] == BASE]}
    for benchmark in [BOTH, *benchmarks]:
        chosen = [row for row in rows if benchmark in (BOTH, row["benchmark"])]
        yield f"## {benchmark}: {len({_problem(row) for row in chosen}):,} problems"
        yield ""
        heads = [f"pass@{k}" for k in KS] + ["pass@1 strict"]
        heads += [f"{head} to {other}" for other in (BASE, BASELINE) for head in ("pass@1", "pass@1 strict")]
        heads += [f"pass@8 to {BASELINE}", f"pass@1 to {CONTROL}", "truncated"]
        yield f"| recipe | responses | seeds | {' | '.join(heads)} |"
        yield f"|{'---|' * (len(heads) + 3)}"
        points = _points(chosen)
        for recipe, point in sorted(points, key=lambda key: (key[1], [BASE, *RECIPES].index(key[0]))):
            yield _line(chosen, points, recipe, point, base_step)
        yield ""


Point = tuple[str, int]
"""A recipe and the responses that its training was given; those of dynamic sampling are rounded up."""


def _points(rows: Sequence[Row]) -> dict[Point, list[Row]]:
    """Group rows by recipe and by the responses of the other recipe of their pair."""
    given: dict[int, int] = defaultdict(int)
    for row in rows:
        given[row["seed"]] = max(given[row["seed"]], row["responses"])
    points: dict[Point, list[Row]] = defaultdict(list)
    for row in rows:
        points[row["recipe"], given[row["seed"]]].append(row)
    return points


def _line(
    rows: Sequence[Row], points: dict[Point, list[Row]], recipe: str, point: int, base: dict[int, list[Row]]
) -> str:
    mine = points[recipe, point]
    seeds = sorted({row["seed"] for row in mine})
    cells = [f"{_values(mine, 'correct', k)[1].mean():.3f}" for k in KS]
    cells.append(f"{_values(mine, 'boxed', 1)[1].mean():.3f}")
    before = [row for row in rows if row["recipe"] == BASE]
    theirs = [row for row in points.get((BASELINE, point), []) if row["seed"] in seeds]
    control = points.get((CONTROL, point), [])
    for others, k in ((before, 1), (theirs, 1), (theirs, 8)):
        for name in GRADINGS.values() if k == 1 else ("correct",):
            alike = recipe in (BASE, BASELINE) and others is not before or recipe == BASE or not others
            cells.append("" if alike else _points_text(paired(mine, others, name, k)))
    gain = (
        "" if recipe in (BASE, CONTROL) or not control or not before else _points_text(apart(mine, control))
    )
    truncated = sum(row["truncated"] for row in mine) / sum(row["drawn"] for row in mine)
    return f"| {recipe} | {point:,} | {len(seeds)} | {' | '.join([*cells, gain])} | {truncated:.1%} |"


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
    return interval(mine - others)


def apart(ours: Sequence[Row], control: Sequence[Row]) -> tuple[float, float, float]:
    """Return the mean difference in pass@1 to the control, whose seeds are others."""
    (_, mine), (_, others) = _values(ours, "correct", 1), _values(control, "correct", 1)
    _, low, high = interval(mine - others.mean(0))
    by_seed = others.mean(1)
    extra = float(np.var(by_seed, ddof=1)) / len(by_seed) if len(by_seed) > 1 else 0.0
    mean = float((mine.mean(0) - others.mean(0)).mean())
    half = math.hypot((high - low) / 2, 1.96 * math.sqrt(extra))
    return mean, mean - half, mean + half


def interval(differences_SM: Any, confidence: float = 0.95) -> tuple[float, float, float]:
    """Return the mean of differences by seed and problem [S, M] with its interval."""
    from scipy.special import stdtrit

    samples = [differences_SM.mean(0)]
    if len(differences_SM) > 1:
        samples.append(differences_SM.mean(1))
    variances = [float(np.var(sample, ddof=1)) / len(sample) for sample in samples]
    mean, total = float(differences_SM.mean()), sum(variances)
    if total == 0:
        return mean, mean, mean
    freedom = total**2 / sum(v**2 / (len(s) - 1) for v, s in zip(variances, samples, strict=True))
    half = float(stdtrit(freedom, 0.5 + confidence / 2)) * math.sqrt(total)
    return mean, mean - half, mean + half


def _points_text(found: tuple[float, float, float]) -> str:
    mean, low, high = (100 * value for value in found)
    return f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"
