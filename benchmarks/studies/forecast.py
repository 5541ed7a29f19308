"""The forecast of zero-gradient shares: on a real training run and on pilots with known shares.

On `grpo_group_log_dsrsub` (successes out of 8 at each visit of each prompt, in time order) it is fitted to
one half of each prompt's visits and compared with the other: in time (the drift of training counts as error)
and at random (the error of the model alone). What the recipes' filter `predicted`
would have left out of that run stands beside it. Then pilots are drawn from populations whose shares are
known: errors, and how often intervals hold the share, up to 8 times the responses of
the pilot. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from benchmarks.harness import add_data, print_report, read_jsonl
from evaluator.signal.groups import GroupCounts, Row, share_estimate
from evaluator.signal.shapes import GroupShape, RescueShape, ends, forecast
from trainer_adapter.methods.skipping import SkipPolicy

LOG = "grpo_group_log_dsrsub.jsonl"
N = 3
POPULATION = 200_000
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Visits = list[list[tuple[int, int]]]
"""For each prompt (successes, responses) of its visits in time order."""


@dataclass(frozen=True)
class Simulated:
    """Success rates [questions, 1 + N] of originals and their neighbors, drawn again for each pilot."""

    name: str
    draw: Callable[[Generator, int], Floats]
    neighbors: int = N

    @cached_property
    def _population(self) -> Floats:
        return self.draw(default_rng(99), POPULATION)

    def pilot(self, rng: Generator, questions: int, m: int) -> GroupCounts:
        correct = rng.binomial(m, self.draw(rng, questions))
        return GroupCounts(np.arange(questions), correct, m - correct, np.zeros_like(correct))

    def share(self, shape: GroupShape) -> float:
        rates = self._population
        if isinstance(shape, RescueShape):
            own, others = rates[:, 0], rates[:, 1 : 1 + shape.n]
            each, more = divmod(shape.g - shape.g // 2, shape.n)
            unsolved = ((1 - others) ** each).prod(axis=1) * (1 - others[:, :more]).prod(axis=1)
            return float((own**shape.g + (1 - own) ** (shape.g // 2) * unsolved).mean())
        chosen = rates[:, (0 if shape.original else 1) : 1 + shape.n]
        return float(((chosen**shape.g).prod(axis=1) + ((1 - chosen) ** shape.g).prod(axis=1)).mean())


@dataclass(frozen=True)
class AuditMember:
    """Responses that a model gave: so many right of so many to each question. No neighbors.

    A pilot draws questions with replacement and m responses of each without; the true share is the exact one
    among all subsets of G responses of all questions.
    """

    name: str
    correct: Ints
    size: Ints
    neighbors: int = 0

    def pilot(self, rng: Generator, questions: int, m: int) -> GroupCounts:
        chosen = rng.integers(len(self.correct), size=min(questions, len(self.correct)))
        right, size = self.correct[chosen], self.size[chosen]
        drawn = rng.hypergeometric(right, size - right, m)[:, None]
        return GroupCounts(np.arange(len(drawn)), drawn, m - drawn, np.zeros_like(drawn))

    def share(self, shape: GroupShape) -> float:
        right, wrong = ends(self.correct, self.size - self.correct, shape.g)
        return float((right + wrong).mean())


def shifted(rates: Floats, shifts: Floats) -> Floats:
    """Return the rates, and next to them the rates shifted by these logits."""
    rates = np.clip(rates, 1e-12, 1 - 1e-12)
    logits = np.log(rates / (1 - rates))[:, None] + np.concatenate(
        [np.zeros((len(rates), 1)), shifts], axis=1
    )
    moved: Floats = 1 / (1 + np.exp(-logits))
    return moved


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


def solved_or_not(
    rng: Generator, solved: NDArray[np.bool_], yes: tuple[float, float], no: tuple[float, float]
) -> Floats:
    """Return rates from one beta distribution for prompts that are solved, from another for the others."""
    rates: Floats = np.where(solved, rng.beta(*yes, solved.shape), rng.beta(*no, solved.shape))
    return rates


def by_phrasing(rng: Generator, size: int) -> Floats:
    """Each prompt is solved nearly never or nearly always by itself, as in the demo's world."""
    solved = rng.random((size, 1 + N)) < 0.4
    return solved_or_not(rng, solved, (12, 1), (0.8, 14))


def rare(rng: Generator, size: int) -> Floats:
    """Rates even on a log scale, from 1 in 10,000 to 1: hard questions that are solved now and then."""
    return shifted(np.power(10.0, rng.uniform(-4, 0, size)), 0.5 * rng.standard_normal((size, N)))


def half_by_phrasing(rng: Generator, size: int) -> Floats:
    """Of each question another share of phrasings is solved, half of the questions all or none."""
    share = rng.beta(0.4, 0.5, (size, 1))
    solved = rng.random((size, 1 + N)) < share
    return solved_or_not(rng, solved, (6, 2), (0.3, 12))


def never_here(rng: Generator, size: int) -> Floats:
    """A third of the prompts is never solved, whatever the other wordings do; the others as assumed."""
    rates = shifted(rng.beta(1.0, 1.0, size), rng.standard_normal((size, N)))
    rates[rng.random((size, 1 + N)) < 1 / 3] = 0.0
    return rates


def narrow(rng: Generator, size: int) -> Floats:
    """Nearly all questions of one difficulty, a tenth of them solved always."""
    rates = shifted(rng.beta(4, 24, size), 0.4 * rng.standard_normal((size, N)))
    rates[rng.random(size) < 0.1] = 1.0
    return rates


# The forecast's model was chosen with those of `TUNED` in view; those of `APART` and the real responses were
# only looked at afterwards.
TUNED = (
    Simulated("as assumed", as_assumed),
    Simulated("never and always solved", with_masses),
    Simulated("two heaps, heavy tails", heavy_tails),
    Simulated("by phrasing", by_phrasing),
)
APART = (
    Simulated("rarely solved", rare),
    Simulated("half by phrasing", half_by_phrasing),
    Simulated("a third never solved", never_here),
    Simulated("one difficulty, always", narrow),
)


def read_visits(path: Path) -> Visits:
    """Return the visits of a log with one row per prompt."""
    return [[(count, row["group_size"]) for count in row["successes"]] for row in read_jsonl(path)]


def real_worlds(data: Path) -> list[AuditMember]:
    """Return the responses of real models that are there: a GRPO run, and one model on MATH problems."""
    worlds = []
    if (path := data / LOG).exists():
        last = np.array(
            [row[-4:] for row in read_visits(path)]
        )  # policies of neighboring steps, taken for one
        worlds.append(AuditMember("a GRPO run, 4 visits", *last.sum(axis=1).T))
    if (path := data / "qwen25math_100x8.jsonl").exists():
        right: dict[str, list[int]] = {}
        for row in read_jsonl(path):
            right.setdefault(row["question"], []).append(int(row["label"]))
        worlds.append(
            AuditMember(
                "Qwen2.5-Math, 100 problems",
                np.array([sum(labels) for labels in right.values()]),
                np.array([len(labels) for labels in right.values()]),
            )
        )
    return worlds


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
) -> tuple[Row, Row]:
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


def check(fitted: GroupCounts, later: GroupCounts, g: int, seed: int) -> tuple[Row, Row]:
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
            "observed": seen["value"],
            "error in points": 100 * (row["share"] - seen["value"]),
        }
        for (half, g), (row, seen) in checked.items()
    ]


def left_out(visits: Sequence[Sequence[tuple[int, int]]], draw_again: float) -> tuple[float, float, float]:
    """Return what leaving questions out does to a run: shares drawn, of these mixed, and of all mixed missed.

    `visits` are (right, group size) of each question in time order.
    """
    groups = SkipPolicy(draw_again, 0)
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
