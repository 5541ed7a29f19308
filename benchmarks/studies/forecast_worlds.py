"""Populations of questions with neighbors whose shares of equal rewards are known, for `forecast.py`.

Those of `TUNED` were looked at while the forecast's model was chosen, those of `APART` and the real responses
only afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from benchmarks.harness import read_jsonl
from evaluator.signal.groups import GroupCounts
from evaluator.signal.shapes import GroupShape, RescueShape, ends

LOG = "grpo_group_log_dsrsub.jsonl"
N = 3
POPULATION = 200_000
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Visits = list[list[tuple[int, int]]]
"""For each prompt (successes, responses) of its visits in time order."""


@dataclass(frozen=True)
class Simulated:
    """Success rates [questions, 1 + N] of originals and their neighbors, drawn anew for each pilot."""

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
    """Return the rates beside those that stand apart from them by these logits."""
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
        worlds.append(late_visits("a GRPO run, 4 visits", read_visits(path), 4))
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


def late_visits(name: str, visits: Visits, number: int) -> AuditMember:
    """Return the last visits of each prompt as one count: policies of neighboring steps, taken for one."""
    rows = [row[-number:] for row in visits]
    return AuditMember(
        name,
        np.array([sum(correct for correct, _ in row) for row in rows]),
        np.array([sum(size for _, size in row) for row in rows]),
    )
