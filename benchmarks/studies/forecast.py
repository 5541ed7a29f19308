"""The forecast of zero-gradient shares: on a real training run, on simulated pilots, and its speed.

On `grpo_group_log_dsrsub` (successes out of 8 at each visit of each prompt, in time order) it is fitted to
one half of each prompt's visits and compared with the other: in time (the drift of training counts as error)
and at random (the error of the model alone). On simulated questions with neighbors the shares are known:
errors and coverage of the intervals are printed, for a population as the model assumes and for two others.
The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from benchmarks.harness import add_data, rounded
from evaluator.signal.difficulty import audit_difficulty
from evaluator.signal.forecast import (
    Check,
    GroupShape,
    check,
    check_halves,
    forecast,
    halves,
    paper_shapes,
)
from evaluator.signal.groups import Checkpoint, GroupCounts, PromptSample, QuestionGroup, count_groups
from evaluator.signal.sources.rollouts import read_visits
from evaluator.signal.zero_gradient import zero_gradient

FILE = "grpo_group_log_dsrsub.jsonl"
G, N = 8, 3
POPULATION = 200_000
Floats = NDArray[np.float64]


def merge_visits(counts: GroupCounts, size: int) -> GroupCounts:
    """Return groups made of `size` neighboring visits of a prompt; visits left over are dropped.

    Their responses come from policies of a few steps, which is the price of seeing groups larger than those
    that were drawn.
    """
    rows: list[NDArray[np.int64]] = []
    for question in np.unique(counts.question):
        mine = np.flatnonzero(counts.question == question)
        whole = mine[: len(mine) // size * size].reshape(-1, size)
        correct, wrong = counts.correct[whole, 0].sum(axis=1), counts.wrong[whole, 0].sum(axis=1)
        rows.append(np.stack([np.full(len(whole), question), correct, wrong], axis=1))
    question, correct, wrong = np.concatenate(rows).T
    return GroupCounts(question, correct[:, None], wrong[:, None], np.zeros((len(question), 1), np.int64))


@dataclass(frozen=True)
class World:
    """Success rates [questions, 1 + N] of originals and their neighbors."""

    name: str
    draw: Callable[[Generator, int], Floats]


def shifted(rates: Floats, shifts: Floats) -> Floats:
    rates = np.clip(rates, 1e-12, 1 - 1e-12)
    logits = np.log(rates / (1 - rates))[:, None] + np.concatenate(
        [np.zeros((len(rates), 1)), shifts], axis=1
    )
    return 1 / (1 + np.exp(-logits))


def as_assumed(rng: Generator, size: int) -> Floats:
    return shifted(rng.beta(0.3, 0.4, size), -0.2 + 0.7 * rng.standard_normal((size, N)))


def with_masses(rng: Generator, size: int) -> Floats:
    """A quarter of the questions is never solved, an eighth always, in any wording; the rest is even."""
    rates = shifted(rng.random(size), 0.7 * rng.standard_normal((size, N)))
    kind = rng.random(size)
    rates[kind < 0.25] = 0.0
    rates[kind > 0.875] = 1.0
    return rates


def heavy_tails(rng: Generator, size: int) -> Floats:
    """Logits of questions in two heaps; shifts of Student's t with 3 degrees."""
    heap = np.where(rng.random(size) < 0.6, -3.0, 2.0) + rng.standard_normal(size)
    return shifted(1 / (1 + np.exp(-heap)), 0.6 * rng.standard_t(3, (size, N)))


WORLDS = (
    World("as assumed", as_assumed),
    World("never and always solved", with_masses),
    World("two heaps, heavy tails", heavy_tails),
)


def true_share(rates: Floats, shape: GroupShape) -> float:
    first = 0 if shape.original else 1
    chosen = rates[:, first : 1 + shape.n]
    equal = (chosen**shape.g).prod(axis=1) + ((1 - chosen) ** shape.g).prod(axis=1)
    return float(equal.mean())


def draw_pilot(rng: Generator, world: World, questions: int, m: int) -> GroupCounts:
    correct = rng.binomial(m, world.draw(rng, questions))
    return GroupCounts(np.arange(questions), correct, m - correct, np.zeros_like(correct))


def report_real(path: Path, seed: int) -> dict[str, Any]:
    visits = read_visits(path)
    lengths = [len(row) for row in visits]
    print(
        f"{FILE}: {len(visits)} prompts, {min(lengths)} to {max(lengths)} visits of 8 responses, "
        f"{sum(lengths):,} in all"
    )
    print(f"    {'fitted to':38s} m   G  forecast            seen later          error")
    found = {}
    for at_random in (False, True):
        name = "random_half" if at_random else "early_half"
        for m, g in ((8, 8), (4, 8), (2, 8), (8, 4), (4, 4), (2, 4), (8, 2)):
            row = check_halves(visits, g, m=m, at_random=at_random, seed=seed)
            found[f"{name}_m{m}_g{g}"] = record(row)
    early, later = halves(visits)
    for size in (2, 4):
        row = check("early half, merged visits later", early, merge_visits(later, size), 8 * size, seed=seed)
        found[f"early_half_m8_g{8 * size}_merged"] = record(row)
    return found


def record(row: Check) -> dict[str, Any]:
    p, o = row.predicted, row.observed
    print(
        f"    {row.pilot:38s} {row.m:1d} {row.g:3d}  {p.share:.3f} [{p.low:.3f}, {p.high:.3f}]"
        f"  {o.value:.3f} [{o.low:.3f}, {o.high:.3f}]  {100 * row.error:+.2f} points"
    )
    return {"predicted": p.share, "observed": o.value, "error_points": 100 * row.error, "family": row.family}


def report_simulated(pilots: int, questions: int, m: int, seed: int) -> dict[str, Any]:
    print(f"\n{pilots} simulated pilots of {questions} questions, {m} responses a prompt, G={G}, N={N}")
    print(f"    {'population':26s} {'group':20s} true    mean forecast  rms error  interval covers")
    found: dict[str, Any] = {}
    shapes = paper_shapes(G, N)
    for world in WORLDS:
        rng = default_rng(seed)
        population = world.draw(rng, POPULATION)
        shares = {shape.name: true_share(population, shape) for shape in shapes}
        rows = []
        for number in range(pilots):
            fitted = forecast(draw_pilot(rng, world, questions, m), seed=number)
            rows.append([fitted.row(shape) for shape in shapes])
        found[world.name] = {}
        for place, shape in enumerate(shapes):
            truth = shares[shape.name]
            predicted = np.array([row[place].share for row in rows])
            covered = float(np.mean([row[place].low <= truth <= row[place].high for row in rows]))
            rms = float(np.sqrt(((predicted - truth) ** 2).mean()))
            print(
                f"    {world.name:26s} {shape.name:20s} {truth:.3f}   {predicted.mean():.3f}"
                f"          {100 * rms:.1f} points {100 * covered:5.0f}%"
            )
            found[world.name][shape.name] = {
                "true": truth,
                "mean": predicted.mean(),
                "rms": rms,
                "covers": covered,
            }
    return found


def report_speed(questions: int, seed: int) -> dict[str, float]:
    m = 32
    rng = default_rng(seed)
    correct = rng.binomial(m, as_assumed(rng, questions))
    groups = tuple(
        QuestionGroup(
            f"q{number}",
            tuple(
                PromptSample(variant, hits, m - hits, strategy=f"strategy {variant}" if variant else None)
                for variant, hits in enumerate(row)
            ),
        )
        for number, row in enumerate(correct.tolist())
    )
    checkpoint = Checkpoint("speed", groups)
    found = {}
    for name, work in (
        ("zero_gradient", lambda: zero_gradient(checkpoint, G, N)),
        ("forecast", lambda: forecast(count_groups(groups), seed=seed)),
        ("difficulty", lambda: audit_difficulty(checkpoint, seed=seed)),
    ):
        start = time.perf_counter()
        work()
        found[f"{name}_seconds"] = time.perf_counter() - start
        print(f"    {name:14s} {found[f'{name}_seconds']:.1f} s")
    return found


def main() -> None:
    """Print the report; the last line is one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_data(parser)
    parser.add_argument("--pilots", type=int, default=40, help="simulated pilots per population")
    parser.add_argument("--questions", type=int, default=300, help="questions of a simulated pilot")
    parser.add_argument("--samples", type=int, default=8, help="responses per prompt of a simulated pilot")
    parser.add_argument("--timed", type=int, default=7500, help="questions of the timed run")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.pilots < 1 or args.questions < 2 or args.samples < 1:
        parser.error("give at least 1 pilot of 2 questions and 1 response")
    report: dict[str, Any] = {}
    path = args.data / FILE
    if path.exists():
        report["dsrsub"] = report_real(path, args.seed)
    else:
        print(f"{path} is not there: the forecast was not compared with a real run")
    report["simulated"] = report_simulated(args.pilots, args.questions, args.samples, args.seed)
    print(f"\n{args.timed:,} questions x 4 prompts x 32 responses")
    report["speed"] = report_speed(args.timed, args.seed)
    print(json.dumps(rounded(report)))


if __name__ == "__main__":
    main()
