"""Simulate how often the intervals of pass@k hold the true value, and how often tests reject by mistake.

The generator is an assumption, and it is this one: the success rates of the problems are drawn
independently from one of the populations below, the n samples of a problem are independent at its rate, and
every grade is right.

- bimodal: Beta(.3, .3), most problems nearly never or nearly always solved;
- two lumps: 40% never solved, 40% at Beta(60, 1), 20% uniform, far from the Beta that the intervals assume;
- spread: Beta(1, 1.5);
- near 0: Beta(.2, 4), mean .05;
- near 1: Beta(4, .3), mean .93.

"new problems" is held against the mean of the population, "same problems, new samples" against the mean
over the problems drawn, and the rerun variant against the estimate from other samples of the same problems.
A cell is "at the edge" where fewer than 5 of its problems are expected to be solved, or unsolved, at its k:
M * min(m, 1-m) < 5 with m the population's pass@k.

Comparisons: rates are Beta(.5, .6); A and B have the same mean over the population, so that every rejection
is false. "same": equal rates on every problem. "symmetric": the logits of both sides are shifted by N(0, .7).
"lopsided": A gains 3 logits on a share of the problems and loses a little, solved for, on all others; a
sample without the few gains looks like a sure loss. The z test is run on 300 repetitions.
"""

import argparse
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.harness import print_report
from evaluator.passk.comparison import FEW_PROBLEMS, is_fragile, paired_bounds, sign_flip_p_values
from evaluator.passk.estimators import pass_at_k
from evaluator.passk.intervals import (
    NEW_PROBLEMS,
    RERUN,
    SAME_PROBLEMS,
    interval_around,
    new_problems_bounds,
    same_problems_errors,
)

RATES, RATE_RANGE = (0.5, 0.6), (1e-6, 1 - 1e-6)  # of the problems of comparisons: a Beta, cut
EDGE = 5
KS = (1, 2, 4, 8, 16, 32)
PROBLEMS = (30, 83, 675)
SAMPLES = (32, 128)
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Population:
    """Success rates: Beta(a, b) with these shares, and rate 0 in what is left of 1."""

    name: str
    parts: tuple[tuple[float, float, float], ...]  # share, a, b

    def draw(self, rng: Generator, size: tuple[int, ...]) -> Floats:
        rates = np.zeros(size)
        place = rng.random(size)
        start = 0.0
        for share, a, b in self.parts:
            here = (place >= start) & (place < start + share)
            rates[here] = rng.beta(a, b, int(here.sum()))
            start += share
        return rates

    def mean(self, k: int) -> float:
        """Return the mean of 1 - (1-p)^k."""
        steps = np.arange(k)
        return float(sum(share * (1 - np.prod((b + steps) / (a + b + steps))) for share, a, b in self.parts))


POPULATIONS = (
    Population("bimodal", ((1.0, 0.3, 0.3),)),
    Population("two lumps", ((0.4, 60.0, 1.0), (0.2, 1.0, 1.0))),
    Population("spread", ((1.0, 1.0, 1.5),)),
    Population("near 0", ((1.0, 0.2, 4.0),)),
    Population("near 1", ((1.0, 4.0, 0.3),)),
)


def estimates(n: int) -> Floats:
    """Return pass@k [K, n + 1] by k and by the number of correct samples."""
    return np.asarray(pass_at_k(n, np.arange(n + 1), np.array(KS)[:, None]))


def coverage(
    population: Population, problems: int, samples: int, repetitions: int, rng: Generator
) -> dict[str, Floats]:
    """Return the share of repetitions [K] in which each interval holds what it is an interval of."""
    values, ks = estimates(samples), np.array(KS)[:, None]
    truth = np.array([population.mean(k) for k in KS])
    held = {name: np.zeros(len(KS)) for name in (NEW_PROBLEMS, SAME_PROBLEMS, RERUN)}
    n = np.full(problems, samples)
    for _ in range(repetitions):
        rates = population.draw(rng, (problems,))
        correct, again = rng.binomial(samples, rates), rng.binomial(samples, rates)
        shown, of_these, rerun = values[:, correct], 1 - (1 - rates) ** ks, values[:, again].mean(axis=1)
        low, high = new_problems_bounds(shown)
        held[NEW_PROBLEMS] += (low <= truth) & (truth <= high)
        errors = same_problems_errors(n, correct, KS)
        for row, (value, error) in enumerate(zip(shown.mean(axis=1).tolist(), errors.tolist(), strict=True)):
            for name, target in ((SAME_PROBLEMS, of_these[row].mean()), (RERUN, rerun[row])):
                low_end, high_end = interval_around([value], [error], rerun=name == RERUN)
                held[name][row] += low_end - 1e-12 <= target <= high_end + 1e-12
    return {name: times / repetitions for name, times in held.items()}


def shifted(rates: Floats, logits: Floats | float) -> Floats:
    odds = rates / (1 - rates) * np.exp(logits)
    return odds / (1 + odds)


@cache
def lopsided_loss(share: float, k: int) -> float:
    """Return the loss in logits that offsets a gain of 3 on a share of the problems in the mean of pass@k."""
    from scipy.special import betaincinv

    rates = np.clip(betaincinv(*RATES, (np.arange(20_000) + 0.5) / 20_000), *RATE_RANGE)

    def mean(logits: float) -> float:
        return float(1 - np.mean((1 - shifted(rates, logits)) ** k))

    gained = share * (mean(3.0) - mean(0.0))
    low, high = 0.0, 5.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if gained > (1 - share) * (mean(0.0) - mean(-middle)) else (low, middle)
    return low


def levels(
    pair: str, share: float, k: int, problems: int, samples: int, repetitions: int, rng: Generator
) -> dict[str, float]:
    """Return the shares of repetitions that reject "no difference" although there is none."""

    size = (repetitions, problems)
    a = b = np.clip(rng.beta(*RATES, size), *RATE_RANGE)
    if pair == "symmetric":
        a, b = (shifted(a, rng.normal(0, 0.7, size)) for _ in range(2))
    elif pair == "lopsided":
        a = shifted(b, np.where(rng.random(size) < share, 3.0, -lopsided_loss(share, k)))
    correct_a, correct_b = rng.binomial(samples, a), rng.binomial(samples, b)
    table = np.asarray(pass_at_k(samples, np.arange(samples + 1), k))
    differences = table[correct_a] - table[correct_b]
    flips = sign_flip_p_values(differences, 999, int(rng.integers(2**31))) <= 0.05
    low, high = paired_bounds(differences)
    warned = is_fragile(differences) & (problems < FEW_PROBLEMS)
    n = np.full(problems, samples)
    few = min(repetitions, 300)
    z = [
        abs(differences[row].mean())
        > 1.96 * np.hypot(*(same_problems_errors(n, c[row], [k])[0] for c in (correct_a, correct_b)))
        for row in range(few)
    ]
    return {
        "sign flips": float(flips.mean()),
        "without a warning": float((flips & ~warned).mean()),
        "paired t": float(1 - ((low <= 0) & (high >= 0)).mean()),
        "same-problems z": float(np.mean(z)),
    }


def simulate_coverage(repetitions: int, rng: Generator) -> list[dict[str, Any]]:
    """Return the coverage in percent by population, number of problems and samples, interval and k."""
    rows = []
    for population in POPULATIONS:
        for problems, samples in product(PROBLEMS, SAMPLES):
            means = [population.mean(k) for k in KS]
            at_edge = [problems * min(mean, 1 - mean) < EDGE for mean in means]
            for name, shares in coverage(population, problems, samples, repetitions, rng).items():
                for k, share, edge in zip(KS, shares.tolist(), at_edge, strict=True):
                    about = {"interval": name, "population": population.name}
                    size = {"problems": problems, "n": samples, "k": k, "at the edge": edge}
                    rows.append({**about, **size, "coverage": 100 * share})
    return rows


def summarize(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lowest and the highest coverage by interval and population, at the edge and away from it."""
    groups: dict[tuple[Any, ...], list[float]] = {}
    for row in rows:
        key = tuple(row[name] for name in ("interval", "population", "at the edge"))
        groups.setdefault(key, []).append(row["coverage"])
    heads = ("interval", "population", "at the edge", "lowest", "highest")
    return [dict(zip(heads, (*key, min(each), max(each)), strict=True)) for key, each in groups.items()]


def simulate_levels(repetitions: int, rng: Generator) -> list[dict[str, Any]]:
    """Return the highest percentages of false rejections over k and n, by pair and number of problems."""
    worst: dict[tuple[str, int], dict[str, float]] = {}
    for pair, share in (("same", 0.0), ("symmetric", 0.0), ("lopsided", 0.2), ("lopsided", 0.05)):
        for k, samples, problems in product((1, 8, 32), SAMPLES, PROBLEMS):
            found = levels(pair, share, k, problems, samples, repetitions, rng)
            highest = worst.setdefault((pair + (f" {share:.0%}" if share else ""), problems), found)
            highest.update({test: max(highest[test], value) for test, value in found.items()})
    return [
        {"pair": pair, "problems": problems, **{test: 100 * value for test, value in found.items()}}
        for (pair, problems), found in worst.items()
    ]


def main() -> None:
    """Print both tables; the last line is one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=4000, help="simulated evaluations of each cell")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.repetitions < 1:
        parser.error("--repetitions must be at least 1")
    rng = np.random.default_rng(options.seed)
    found = simulate_coverage(options.repetitions, rng)
    report = {
        "coverage in percent": found,
        "lowest and highest coverage": summarize(found),
        "highest false rejections at 5%, in percent": simulate_levels(max(1, options.repetitions // 2), rng),
    }
    print_report(report)


if __name__ == "__main__":
    main()
