"""Error rates of the verdict: simulated answers (`verdict_simulation.py`) and real responses.

Prints, per rule, what happens to good candidates by success rate and to broken ones by kind of breakage, the
stress cases apart, the same for other thresholds, and the verdicts on real responses of one model to 100
problems. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator, default_rng
from scipy.stats import beta

from benchmarks.harness import add_data, rounded
from benchmarks.studies import verdict_simulation as simulation
from benchmarks.studies.verdict_simulation import PLAIN, RATES, WEIGHTS, Case
from evaluator.grading import ClusterJob, Grader
from evaluator.grading.normalize import normalize
from rephraser.verdict import OverlapRule, Verdict, count_answers, judge

RULES: dict[str, OverlapRule] = {
    "overlap": OverlapRule(),
    "plain": PLAIN,
}
DETAILED = ("overlap",)  # the rules whose shares are printed per pair of success rates
VARIANTS: dict[str, OverlapRule] = {
    "default": OverlapRule(),
    "O >= 8": OverlapRule(accept_overlap=8),
    "O >= 10": OverlapRule(accept_overlap=10),
    "O > M": OverlapRule(accept_over_new=1),
    "O > 3 M": OverlapRule(accept_over_new=3),
    "no correct answer asked for": OverlapRule(accept_gold_from=None),
    "M >= 3": OverlapRule(reject_new=3),
    "M >= 8": OverlapRule(reject_new=8),
    "M >= 14": OverlapRule(reject_new=14),
    "one look at 16": OverlapRule(looks=(16,)),
    "looks 12, 16, 20": OverlapRule(looks=(12, 16, 20)),
    "O >= 11, O > 4 M, looks 12, 16, 20, 24": OverlapRule(
        accept_overlap=11, accept_over_new=4, looks=(12, 16, 20, 24)
    ),
    "scaled to 16 against 8": OverlapRule.scaled(16, (8,)),
    "scaled to 16 against 16": OverlapRule.scaled(16, (12, 16)),
    "plain": PLAIN,
    "plain, O >= 9": replace(PLAIN, accept_overlap=9),
    "plain, O >= 11, M >= 11, looks 12, 16, 20": replace(
        PLAIN, accept_overlap=11, reject_new=11, looks=(12, 16, 20)
    ),
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


@dataclass(frozen=True)
class Outcome:
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
    hits = round(share * cases)
    return 1.0 if hits == cases else float(beta.ppf(0.975, hits + 1, cases - hits))


def weighted(kinds: dict[str, Tally], weights: dict[str, float]) -> Tally:
    whole = sum(weights.values())

    def mean(field: Callable[[Tally], float]) -> float:
        return sum(weight * field(kinds[kind]) for kind, weight in weights.items()) / whole

    cases = sum(kinds[kind].cases for kind in weights)
    return Tally(cases, mean(lambda t: t.accepted), mean(lambda t: t.rejected), mean(lambda t: t.samples))


def percent(share: float) -> str:
    return f"{100 * share:6.2f}"


def print_by_rate(outcomes: dict[str, list[Outcome]], *, pairs: bool) -> None:
    """Print the shares per success rate of the question, and with `pairs` per pair of independent rates."""
    print("  good candidates, success shifted by a logit of sd .5 to 1:")
    print("    question's success   accepted%  rejected%  undecided%  mean samples")
    for rate in RATES:
        t = tally([outcome for outcome in outcomes["shifted"] if outcome.rates[0] == rate])
        shares = "     ".join(map(percent, (t.accepted, t.rejected, t.undecided)))
        print(f"    {rate:18.2f}   {shares}  {t.samples:10.1f}")
    if not pairs:
        return
    cells: dict[tuple[float, float], list[Outcome]] = defaultdict(list)
    for outcome in outcomes["independent"]:
        cells[outcome.rates].append(outcome)
    tallies = {cell: tally(found) for cell, found in cells.items()}
    for title, field in (("accepted%", "accepted"), ("rejected%", "rejected"), ("mean samples", "samples")):
        print(f"  good candidates, success drawn independently: {title} (question down, neighbor across)")
        print("         " + "".join(f"{rate:8.2f}" for rate in RATES))
        for rate in RATES:
            values = [
                getattr(tallies[rate, other], field) if (rate, other) in tallies else None for other in RATES
            ]
            unit = 1 if field == "samples" else 100
            print(
                f"    {rate:.2f} " + "".join("       -" if v is None else f"{unit * v:8.1f}" for v in values)
            )


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


def report_rule(
    name: str, rule: OverlapRule, arms: dict[str, list[Case]], broken: dict[str, list[Case]]
) -> dict[str, Any]:
    print(f"\n== {name}: {rule}")
    outcomes = {arm: judged(cases, rule) for arm, cases in arms.items()}
    print_by_rate(outcomes, pairs=name in DETAILED)
    kinds = {kind: tally(judged(cases, rule)) for kind, cases in broken.items()}
    harmful = {kind: weight for kind, weight in WEIGHTS.items() if kind != "same answer by chance"}
    mixtures = {
        "all, weighted": weighted(kinds, WEIGHTS),
        "all, equal weights": weighted(kinds, dict.fromkeys(WEIGHTS, 1.0)),
        "without the same answer, weighted": weighted(kinds, harmful),
    }
    print("  broken candidates:                  weight   accepted%  rejected%  undecided%  mean samples")
    for kind, t in (kinds | mixtures).items():
        weight = f"{WEIGHTS[kind]:.2f}" if kind in WEIGHTS else ""
        shares = "     ".join(map(percent, (t.accepted, t.rejected, t.undecided)))
        print(f"    {kind:33s} {weight:>5s}   {shares}  {t.samples:10.1f}")
    numbers = {arm: arm_numbers(found, mixtures["all, weighted"]) for arm, found in outcomes.items()}
    for arm, values in numbers.items():
        print(f"  {arm}: " + ", ".join(f"{key} {value:.4f}" for key, value in values.items()))
    equal = share_broken(
        0.1, mixtures["all, equal weights"].accepted, numbers["independent"]["good_accepted"]
    )
    print(f"  broken among accepted at 10% broken, every kind equally often, independent: {equal:.4f}")
    return {
        "broken_among_accepted_at_10pct": max(v["broken_among_accepted_at_10pct"] for v in numbers.values()),
        "good_rejected": max(v["good_rejected"] for v in numbers.values()),
        "good_accepted_from_35": min(v["good_accepted_from_35"] for v in numbers.values()),
        "mean_candidate_samples": max(v["mean_candidate_samples"] for v in numbers.values()),
        "broken_accepted": mixtures["all, weighted"].accepted,
        "broken_rejected": mixtures["all, weighted"].rejected,
        "broken_among_accepted_at_10pct_equal_weights": equal,
        **numbers,
        "accepted_by_kind": {kind: t.accepted for kind, t in kinds.items()},
    }


def report_variants(arms: dict[str, list[Case]], broken: dict[str, list[Case]]) -> dict[str, Any]:
    """Print what other thresholds would do on the first part of the same cases."""
    print("\n== other thresholds (shares in %; s: success shifted, i: drawn independently)")
    print(
        f"    {'':42s}  good accepted   from .35 on     good rejected  broken   broken   broken in    samples"
        f"\n    {'':42s}     s      i       s      i       s      i   accepted rejected accepted, i   (i)"
    )
    found = {}
    for name, rule in VARIANTS.items():
        kinds = {kind: tally(judged(cases[: len(cases) // 2], rule)) for kind, cases in broken.items()}
        whole = weighted(kinds, WEIGHTS)
        s, i = (
            arm_numbers(judged(arms[arm][: len(arms[arm]) // 2], rule), whole)
            for arm in ("shifted", "independent")
        )
        pairs = [(s[key], i[key]) for key in ("good_accepted", "good_accepted_from_35", "good_rejected")]
        cells = "  ".join(percent(a) + " " + percent(b) for a, b in pairs)
        last = i["broken_among_accepted_at_10pct"]
        print(
            f"    {name:42s} {cells}  {percent(whole.accepted)}   {percent(whole.rejected)}"
            f"     {percent(last)}     {i['mean_candidate_samples']:6.1f}"
        )
        found[name] = {"shifted": s, "independent": i, "broken_accepted": whole.accepted}
    return found


def report_stress(rng: Generator, cases: int) -> dict[str, Any]:
    print("\n== stress: unanswerable, the solver gives the original's answers from memory (accepted %)")
    found: dict[str, Any] = {"from_memory_accepted": {}, "collapse_rejected": {}}
    for share in MEMORY_SHARES:
        drawn = []
        for _ in range(cases):
            question = simulation.draw_question(rng, simulation.draw_rate(rng))
            drawn.append(simulation.draw_case(rng, question, simulation.from_memory(rng, question, share)))
        accepted = {name: tally(judged(drawn, rule)).accepted for name, rule in RULES.items()}
        print(
            f"    share from memory {share:.1f}: "
            + ", ".join(f"{n} {percent(v)}" for n, v in accepted.items())
        )
        found["from_memory_accepted"][f"{share:.1f}"] = accepted
    print(
        "== stress: good, but success falls from .65, .8 or .95 and a new trap takes 70% of the wrong "
        "answers (rejected %)"
    )
    for rate in COLLAPSED_RATES:
        drawn = []
        for _ in range(cases):
            question = simulation.draw_question(rng, float(rng.choice(COLLAPSE_FROM)))
            drawn.append(simulation.draw_case(rng, question, simulation.collapsed(rng, question, rate)))
        rejected = {name: tally(judged(drawn, rule)).rejected for name, rule in RULES.items()}
        print(
            f"    success falls to {rate:.2f}: " + ", ".join(f"{n} {percent(v)}" for n, v in rejected.items())
        )
        found["collapse_rejected"][f"{rate:.2f}"] = rejected
    return found


def real_labels(path: Path) -> tuple[list[list[str | None]], list[str]]:
    """Return, per problem, the class label of each response (None: unparsed) and the label of the gold."""
    groups: dict[int, list[dict[str, Any]]] = defaultdict(list)
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
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
    print(f"\n== real responses, {len(labels)} problems, 4 against 4: {rule}")
    repeats: list[float] = []
    for answers, gold in zip(labels, golds, strict=True):
        wrong = [answer for answer in answers if answer not in (gold, None)]
        if len(wrong) >= 2:
            repeats.append(float(np.mean([a == b for a, b in combinations(wrong, 2)])))
    print(
        "  chance that two wrong answers to a problem are equal, problems with two or more wrong ones:\n    "
        + ", ".join(f"{value:.2f}" for value in sorted(repeats))
        + "\n  the simulation's mixes: "
        + ", ".join(f"{1 / (1 + c):.2f}" for c in (simulation.SCATTERED, simulation.CONCENTRATED))
    )
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
    found = {}
    print(f"    {'':34s} pairs   accepted%  rejected%  undecided%")
    for name, outcomes in rows.items():
        t = tally(outcomes)
        shares = "     ".join(map(percent, (t.accepted, t.rejected, t.undecided)))
        print(f"    {name:34s} {t.cases:5d}   {shares}")
        found[name.replace(",", "").replace(" ", "_")] = {
            "pairs": t.cases,
            "accepted": t.accepted,
            "rejected": t.rejected,
            "undecided": t.undecided,
        }
    return found


def main() -> None:
    """Print the report; the last line is one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_data(parser)
    parser.add_argument(
        "--cases", type=int, default=10000, help="good cases per arm; a third per kind of breakage"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--concentrated",
        type=float,
        default=simulation.CONCENTRATED,
        help="Dirichlet concentration of the half of the questions with one frequent wrong answer",
    )
    args = parser.parse_args()
    if args.cases < 300:
        parser.error(f"--cases {args.cases} leaves success rates without a case; give at least 300")
    simulation.CONCENTRATED = args.concentrated
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
    report["stress"] = report_stress(rng, max(100, args.cases // 12))
    report["thresholds"] = report_variants(arms, broken)
    real = args.data / "qwen25math_100x8.jsonl"
    if real.exists():
        report["real"] = report_real(real, rng)
    else:
        print(f"\n{real} is not there: no real responses were judged")
    print(json.dumps(rounded(report)))


if __name__ == "__main__":
    main()
