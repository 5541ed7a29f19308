"""The forecast of zero-gradient shares: on a real training run and on pilots with known shares.

On `grpo_group_log_dsrsub` (successes out of 8 at each visit of each prompt, in time order) it is fitted to
one half of each prompt's visits and compared with the other: in time (the drift of training counts as error)
and at random (the error of the model alone). What the recipes' filter `predicted`
would have left out of that run stands beside it. Then pilots are drawn from populations whose shares are
known (`forecast_worlds.py`): errors, and how often intervals hold the share, up to 8 times the responses of
the pilot. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import default_rng
from numpy.typing import NDArray

from benchmarks.harness import add_data, print_report
from benchmarks.studies.forecast_worlds import (
    APART,
    LOG,
    TUNED,
    AuditMember,
    N,
    Simulated,
    Visits,
    read_visits,
    real_worlds,
)
from evaluator.signal.forecast import forecast
from evaluator.signal.groups import GroupCounts, MeanEstimate, Row, share_estimate
from evaluator.signal.shapes import GroupShape, RescueShape, ends
from trainer_adapter.methods.skipping import DeadGroups


def halves(visits: Visits, rng: np.random.Generator | None = None) -> tuple[GroupCounts, GroupCounts]:
    """Return the first and the second half of each prompt's visits, in time; of shuffled ones with `rng`.

    Each visit is a group of its own: pooling a prompt's visits would average over the drift of its success
    rate and predict too few equal rewards.
    """
    sides: list[list[tuple[int, int, int]]] = [[], []]
    for number, row in enumerate(visits):
        order = range(len(row)) if rng is None else rng.permutation(len(row)).tolist()
        for place, visit in enumerate(order):
            sides[place >= len(row) // 2].append((number, *row[visit]))
    first, second = (count_rows(np.array(rows)) for rows in sides)
    return first, second


def count_rows(rows: NDArray[np.int64]) -> GroupCounts:
    """Return groups of rows [V, 3] of a prompt's number, its successes and its responses."""
    question, correct, size = rows.T
    return GroupCounts(
        question, correct[:, None], (size - correct)[:, None], np.zeros((len(rows), 1), np.int64)
    )


def check_halves(
    visits: Visits, g: int, *, m: int = 8, at_random: bool = False, seed: int = 0
) -> tuple[Row, MeanEstimate]:
    """Fit one half of the visits, predict the share of equal rewards at G, and return it with the other's.

    Args:
        m: responses of a visit to fit to, drawn without replacement.
        at_random: shuffle each prompt's visits first.
    """
    rng = np.random.default_rng(seed)
    fitted, later = halves(visits, rng if at_random else None)
    drawn = rng.hypergeometric(fitted.correct[:, 0], fitted.wrong[:, 0], m)[:, None]
    thinned = GroupCounts(fitted.question, drawn, m - drawn, np.zeros_like(drawn))
    return check(thinned, later, g, seed)


def check(fitted: GroupCounts, later: GroupCounts, g: int, seed: int) -> tuple[Row, MeanEstimate]:
    """Return the forecast at G from the first counts, and the share among the second."""
    right, wrong = ends(later.correct[:, 0], later.wrong[:, 0], g)
    observed = share_estimate(later.by_question(right + wrong))
    return forecast(fitted, seed=seed).row(GroupShape("original, G", 0, g)), observed


def merge_visits(counts: GroupCounts, size: int) -> GroupCounts:
    """Return groups made of `size` neighboring visits of a prompt; visits left over are dropped.

    Their responses come from policies of a few steps, which is the price of seeing groups larger than those
    that were drawn.
    """
    rows = []
    for question in np.unique(counts.question):
        mine = np.flatnonzero(counts.question == question)
        whole = mine[: len(mine) // size * size].reshape(-1, size)
        correct, wrong = counts.correct[whole, 0].sum(axis=1), counts.wrong[whole, 0].sum(axis=1)
        rows.append(np.stack([np.full(len(whole), question), correct, correct + wrong], axis=1))
    return count_rows(np.concatenate(rows))


def report_real(path: Path, seed: int) -> list[dict[str, Any]]:
    """Return a row for each half and group size; groups of more than 8 are merged visits."""
    visits = read_visits(path)
    early, later = halves(visits)
    checked = {
        ("early half", 8): check_halves(visits, 8, seed=seed),
        ("random half", 8): check_halves(visits, 8, at_random=True, seed=seed),
        **{("early half", 8 * n): check(early, merge_visits(later, n), 8 * n, seed) for n in (2, 4)},
    }
    return [
        {
            "fitted to": half,
            "G": g,
            "forecast": row["share"],
            "low": row["low"],
            "high": row["high"],
            "observed": seen.value,
            "error in points": 100 * (row["share"] - seen.value),
        }
        for (half, g), (row, seen) in checked.items()
    ]


def left_out(visits: Sequence[Sequence[tuple[int, int]]], draw_again: float) -> tuple[float, float, float]:
    """Return what leaving questions out does to a run: shares drawn, of these mixed, and of all mixed missed.

    `visits` are (right, group size) of each question in time order.
    """
    groups = DeadGroups(draw_again, 0)
    drawn = mixed = offered = 0
    for number, row in enumerate(visits):
        for step, (right, size) in enumerate(row):
            is_mixed = 0 < right < size
            offered += is_mixed
            if groups.skips(str(number), step):
                continue
            drawn, mixed = drawn + 1, mixed + is_mixed
            groups.count([] if is_mixed else [str(number)], [str(number)] if is_mixed else [])
    return drawn / sum(map(len, visits)), mixed / drawn, 1 - mixed / offered


def report_coverage(
    worlds: Sequence[Simulated | AuditMember], pilots: int, questions: int, m: int, seed: int
) -> list[dict[str, Any]]:
    """Return how often intervals hold the true share, up to 8 times the pilot's responses."""
    found = []
    for world in worlds:
        shapes = [GroupShape(f"original, {g}", 0, g) for g in (m, 2 * m, 4 * m, 8 * m)]
        if world.neighbors:
            shapes += [GroupShape("one neighbor", 1, m, original=False), GroupShape("joint", N, m)]
            shapes += [GroupShape(f"joint, {4 * m} a prompt", N, 4 * m), RescueShape("rescue", N, m)]
        shapes = [shape for shape in shapes if not np.isnan(world.share(shape))]
        rows = []
        for number in range(pilots):
            fitted = forecast(world.pilot(default_rng([seed, number]), questions, m), seed=number)
            rows.append([fitted.row(shape) for shape in shapes])
        for shape, predictions in zip(shapes, zip(*rows, strict=True), strict=True):
            truth = world.share(shape)
            predicted = np.array([row["share"] for row in predictions])
            found.append(
                {
                    "population": world.name,
                    "group": shape.name,
                    "true": truth,
                    "mean forecast": float(predicted.mean()),
                    "rms error": float(np.sqrt(((predicted - truth) ** 2).mean())),
                    "covered": float(np.mean([row["low"] <= truth <= row["high"] for row in predictions])),
                    "width": float(np.mean([row["high"] - row["low"] for row in predictions])),
                }
            )
    return found


def main() -> None:
    """Print the report; the last line is one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_data(parser)
    parser.add_argument("--pilots", type=int, default=40, help="simulated pilots per population")
    parser.add_argument("--questions", type=int, default=300, help="questions of a simulated pilot")
    parser.add_argument("--samples", type=int, default=8, help="responses per prompt of a simulated pilot")
    parser.add_argument("--worlds", help="only populations whose names hold one of these, behind commas")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.pilots < 1 or args.questions < 2 or args.samples < 1:
        parser.error("give at least 1 pilot of 2 questions and 1 response")
    report: dict[str, list[dict[str, Any]]] = {}
    path = args.data / LOG
    if path.exists():
        report["a real run"] = report_real(path, args.seed)
        report["questions drawn with probability p^z after z groups in a row without a gradient"] = [
            dict(zip(("p", "drawn", "of these mixed", "mixed ones missed"), (p, *shares), strict=True))
            for p in (1.0, 0.9, 0.7, 0.5)
            for shares in [left_out(read_visits(path), p)]
        ]
    else:
        print(f"{path} is not there: the forecast was not compared with a real run")
    worlds: list[Simulated | AuditMember] = [*TUNED, *APART, *real_worlds(args.data)]
    if args.worlds:
        worlds = [world for world in worlds if any(part in world.name for part in args.worlds.split(","))]
    title = f"{args.pilots} pilots of {args.questions} questions, {args.samples} responses a prompt, N={N}"
    report[title] = report_coverage(worlds, args.pilots, args.questions, args.samples, args.seed)
    print_report(report)


if __name__ == "__main__":
    main()
