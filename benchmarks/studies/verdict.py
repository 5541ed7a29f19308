"""Error rates of the verdict: simulated answers (`verdict_simulation.py`) and real responses.

Prints, per rule, what happens to good candidates by success rate and to broken ones by kind of breakage, then
the stress cases, other thresholds, and the verdicts on real responses of one model to 100 problems. The
columns accepted, rejected and undecided are in percent. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from numpy.random import Generator, default_rng

from benchmarks.harness import add_data, print_table, read_jsonl, rounded
from benchmarks.studies import verdict_simulation as simulation
from benchmarks.studies.verdict_simulation import PLAIN, WEIGHTS, Case, Solver
from evaluator.grading import ClusterJob, Grader
from evaluator.grading.normalize import normalize
from evaluator.passk.intervals import exact_interval
from rephraser.verdict import OverlapRule, Verdict, count_answers, judge

RULES = {"overlap": OverlapRule(), "plain": PLAIN}
VARIANTS = {
    "default": OverlapRule(),
    "O >= 8": OverlapRule(accept_overlap=8),
    "O >= 10": OverlapRule(accept_overlap=10),
    "no correct answer asked for": OverlapRule(accept_gold_from=None),
    "looks 12, 16, 20": OverlapRule(looks=(12, 16, 20)),
    "O >= 11, O > 4 M, looks 12, 16, 20, 24": OverlapRule(
        accept_overlap=11, accept_over_new=4, looks=(12, 16, 20, 24)
    ),
    "plain": PLAIN,
}
BROKEN_SHARES = (0.05, 0.1, 0.2)
FROM_RATE = 0.35
MEMORY_SHARES = (0.4, 0.6, 0.8, 1.0)
COLLAPSED_RATES = (0.02, 0.05, 0.1, 0.2)
COLLAPSE_FROM = (0.65, 0.8, 0.95)
ARMS = {"shifted": False, "independent": True}


@dataclass(frozen=True)
class Tally:
    """Verdicts on a list of cases."""

    cases: int
    accepted: float
    rejected: float
    samples: float

    @property
    def undecided(self) -> float:
        return 1 - self.accepted - self.rejected


class Outcome(NamedTuple):
    """What a rule made of a case."""

    rates: tuple[float, float]
    verdict: Verdict
    drawn: int


def judged(cases: Iterable[Case], rule: OverlapRule) -> list[Outcome]:
    return [
        Outcome((case.question_rate, case.candidate_rate), *simulation.decide(case, rule)) for case in cases
    ]


def tally(outcomes: Sequence[Outcome]) -> Tally:
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    total = len(outcomes)
    return Tally(
        total,
        verdicts[Verdict.ACCEPTED] / total,
        verdicts[Verdict.REJECTED] / total,
        sum(outcome.drawn for outcome in outcomes) / total,
    )


def share_broken(broken_share: float, broken_accepted: float, good_accepted: float) -> float:
    """Share of broken ones among the accepted."""
    broken = broken_share * broken_accepted
    return broken / (broken + (1 - broken_share) * good_accepted)


def upper_bound(share: float, cases: int) -> float:
    """Exact one-sided 97.5% upper bound of a share."""
    return exact_interval(round(share * cases), cases)[1]


def weighted(kinds: dict[str, Tally], weights: dict[str, float]) -> Tally:
    whole = sum(weights.values())

    def mean(field: Callable[[Tally], float]) -> float:
        return sum(weight * field(kinds[kind]) for kind, weight in weights.items()) / whole

    cases = sum(kinds[kind].cases for kind in weights)
    return Tally(cases, mean(lambda t: t.accepted), mean(lambda t: t.rejected), mean(lambda t: t.samples))


def arm_numbers(outcomes: Sequence[Outcome], broken: Tally) -> dict[str, float]:
    whole = tally(outcomes)
    able = tally([outcome for outcome in outcomes if min(outcome.rates) >= FROM_RATE])
    middle = tally([o for o in outcomes if min(o.rates) >= 0.2 and max(o.rates) <= 0.8])
    return {
        "good_accepted": whole.accepted,
        "good_accepted_from_35": able.accepted,
        "good_rejected": whole.rejected,
        "good_rejected_upper": upper_bound(whole.rejected, whole.cases),
        "good_rejected_20_to_80": middle.rejected,
        **{
            f"broken_among_accepted_at_{round(100 * share)}pct": share_broken(
                share, broken.accepted, whole.accepted
            )
            for share in BROKEN_SHARES
        },
        "mean_candidate_samples": 0.9 * whole.samples + 0.1 * broken.samples,
    }


def shares(outcomes: Tally) -> dict[str, float]:
    """Return the shares in percent, and the mean number of answers per candidate."""
    percents = (100 * share for share in (outcomes.accepted, outcomes.rejected, outcomes.undecided))
    named = dict(zip(("accepted", "rejected", "undecided"), percents, strict=True))
    return {**named, "answers": outcomes.samples}


def report_rule(
    name: str, rule: OverlapRule, arms: dict[str, list[Case]], broken: dict[str, list[Case]]
) -> dict[str, Any]:
    outcomes = {arm: judged(cases, rule) for arm, cases in arms.items()}
    cells: dict[tuple[str, float, float], list[Outcome]] = defaultdict(list)
    for arm, found in outcomes.items():
        for outcome in found:
            question, candidate = outcome.rates
            cells[arm, question, candidate if arm == "independent" else math.nan].append(outcome)
    print_table(
        f"{name}, good candidates by success rates; {rule}",
        (
            {"success": arm, "question": question, "candidate": candidate, **shares(tally(found))}
            for (arm, question, candidate), found in sorted(cells.items())
        ),
    )
    kinds = {kind: tally(judged(cases, rule)) for kind, cases in broken.items()}
    kinds["all, weighted"] = weighted(kinds, WEIGHTS)
    print_table(
        f"{name}, broken candidates", ({"kind": kind, **shares(found)} for kind, found in kinds.items())
    )
    numbers = {arm: arm_numbers(found, kinds["all, weighted"]) for arm, found in outcomes.items()}
    print_table(f"{name}, both together", ({"success": arm, **found} for arm, found in numbers.items()))
    return {
        "broken_among_accepted_at_10pct": max(v["broken_among_accepted_at_10pct"] for v in numbers.values()),
        "good_accepted_from_35": min(v["good_accepted_from_35"] for v in numbers.values()),
        **numbers,
        "broken": {kind: vars(found) for kind, found in kinds.items()},
    }


def report_variants(arms: dict[str, list[Case]], broken: dict[str, list[Case]]) -> None:
    """Print what other thresholds would do on the first part of the same cases."""
    rows = []
    for name, rule in VARIANTS.items():
        kinds = {kind: tally(judged(cases[: len(cases) // 2], rule)) for kind, cases in broken.items()}
        whole = weighted(kinds, WEIGHTS)
        for arm, cases in arms.items():
            numbers = arm_numbers(judged(cases[: len(cases) // 2], rule), whole)
            rows.append(
                {
                    "thresholds": name,
                    "success": arm,
                    **{
                        key: numbers[key]
                        for key in ("good_accepted", "good_accepted_from_35", "good_rejected")
                    },
                    "broken_accepted": whole.accepted,
                    "broken_rejected": whole.rejected,
                    "broken_among_accepted": numbers["broken_among_accepted_at_10pct"],
                    "answers": numbers["mean_candidate_samples"],
                }
            )
    print_table("other thresholds", rows)


def report_stress(rng: Generator, cases: int) -> None:
    """Print the verdicts on unanswerable candidates answered from memory, and on much harder good ones."""

    def draw(
        rates: Sequence[float], make: Callable[[Generator, Solver, float], Solver], share: float
    ) -> list[Case]:
        drawn = []
        for _ in range(cases):
            question = simulation.draw_question(rng, float(rng.choice(rates)))
            drawn.append(simulation.draw_case(rng, question, make(rng, question, share)))
        return drawn

    rows = {
        f"unanswerable, {share:.0%} of the answers from memory": draw(
            simulation.RATES, simulation.from_memory, share
        )
        for share in MEMORY_SHARES
    } | {
        f"good, success falls to {rate:.0%}, a new trap takes 70% of the wrong answers": draw(
            COLLAPSE_FROM, simulation.collapsed, rate
        )
        for rate in COLLAPSED_RATES
    }
    print_table(
        "stress",
        (
            {"candidates": title, "rule": name, **shares(tally(judged(drawn, rule)))}
            for title, drawn in rows.items()
            for name, rule in RULES.items()
        ),
    )


def real_labels(path: Path) -> tuple[list[list[str | None]], list[str]]:
    """Return, per problem, the class label of each response (None: unparsed) and the label of the gold."""
    groups: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in read_jsonl(path):
        groups[row["group"]].append(row)
    jobs = [ClusterJob([row["pred"] for row in rows], rows[0]["answer"]) for rows in groups.values()]
    with Grader(workers=1) as grader:
        clusterings = grader.cluster_many(jobs)
    labels, golds = [], []
    for job, clustering in zip(jobs, clusterings, strict=True):
        names = [normalize(text) for text in clustering.classes]
        labels.append([None if place is None else names[place] for place in clustering.assignment])
        golds.append(normalize(job.gold or "") if clustering.gold is None else names[clustering.gold])
    return labels, golds


def report_real(path: Path, rng: Generator) -> dict[str, Any]:
    """Judge real responses, 4 against 4: two halves of one problem's, and two problems'."""
    labels, golds = real_labels(path)
    rule = OverlapRule.scaled(4, (4,))
    rows: dict[str, list[Outcome]] = defaultdict(list)
    for answers, gold in zip(labels, golds, strict=True):
        hits = answers.count(gold)
        stratum = "always solved" if hits == 8 else "never solved" if hits == 0 else "sometimes solved"
        for half in combinations(range(8), 4):
            others = [answers[i] for i in range(8) if i not in half]
            verdict = judge(count_answers([answers[i] for i in half], others, gold), rule).verdict
            outcome = Outcome((hits / 8, hits / 8), verdict, 4)
            rows["same problem"].append(outcome)
            rows[f"same problem, {stratum}"].append(outcome)
    for first, second in ((i, j) for i in range(len(labels)) for j in range(len(labels)) if i != j):
        mine, theirs = ([labels[which][i] for i in rng.permutation(8)[:4]] for which in (first, second))
        verdict = judge(count_answers(mine, theirs, golds[first]), rule).verdict
        success = labels[first].count(golds[first]) / 8, labels[second].count(golds[second]) / 8
        outcome = Outcome(success, verdict, 4)
        rows["different problems"].append(outcome)
        same = golds[first] == golds[second]
        rows[f"different problems, {'the same' if same else 'another'} gold"].append(outcome)
    tallies = {name: tally(outcomes) for name, outcomes in rows.items()}
    print_table(
        f"real responses, {len(labels)} problems, 4 against 4; {rule}",
        ({"pairs": name, "number": found.cases, **shares(found)} for name, found in tallies.items()),
    )
    return {name.replace(",", "").replace(" ", "_"): vars(found) for name, found in tallies.items()}


def main() -> None:
    """Print the report; the last line is one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_data(parser)
    parser.add_argument(
        "--cases", type=int, default=10000, help="good cases per arm; a third per kind of breakage"
    )
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.cases < 300:
        parser.error(f"--cases {args.cases} leaves success rates without a case; give at least 300")
    rng = default_rng(args.seed)

    arms = {
        arm: [simulation.good_case(rng, independent) for _ in range(args.cases)]
        for arm, independent in ARMS.items()
    }
    broken = {
        kind: [simulation.broken_case(rng, breakage) for _ in range(args.cases // 3)]
        for kind, breakage in simulation.KINDS.items()
    }
    print(f"{args.cases} good cases per arm, {args.cases // 3} per kind of breakage, seed {args.seed}")
    report: dict[str, Any] = {"cases": args.cases, "seed": args.seed}
    for name, rule in RULES.items():
        report[name] = report_rule(name, rule, arms, broken)
    report_stress(rng, max(100, args.cases // 12))
    report_variants(arms, broken)
    real = args.data / "qwen25math_100x8.jsonl"
    if real.exists():
        report["real"] = report_real(real, rng)
    else:
        print(f"\n{real} is not there: no real responses were judged")
    print(json.dumps(rounded(report)))


if __name__ == "__main__":
    main()
