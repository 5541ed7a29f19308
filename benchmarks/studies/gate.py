"""The whole gate on real pairs: structure read from the texts, answers drawn by simulated solvers.

    python -m benchmarks.studies.gate [FOLDER_OR_FILE ...] [--data DIR] [--rows 400] [--cases 9000] [--seed 0]

Reads files of question pairs (`original_question`, `question`; JSON Lines, or parquet as Co-rewarding
publishes it); what is missing is named and left out. Each row is honest, changed, changed but with the same
answer by chance, or unanswerable, as its own fields say (`question_pairs.truth_of`). Structure is what the
checks find in the row. Answers are simulated (`verdict_simulation.py`) over success rates .1 to .9 by solvers
of two kinds: independent ones answer what they read; memorising ones know the original, and answer that in a
share of cases (`MEMORY`). Given the truth of a row, structure and answers are taken as independent.

Prints per file and per kind of change: fatal, flagged (the verdict asks for more), accepted, lost to
structure, answers drawn. Then mixtures of honest and broken candidates, how often each group of findings is
met, and how good a premise check would have to be. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.random import Generator, default_rng

from benchmarks.harness import rounded
from benchmarks.studies import question_pairs
from benchmarks.studies import verdict_simulation as simulation
from benchmarks.studies.question_pairs import print_head, print_row
from benchmarks.studies.verdict_simulation import CHANGED, HONEST, SAME_ANSWER, TRUTHS, UNANSWERABLE
from rephraser.checks import Severity, check_candidate, groups_of
from rephraser.run.check import WEIGHING
from rephraser.verdict import OverlapRule, Structure, Verdict, rule_for

WEIGHTS = {CHANGED: 0.78, UNANSWERABLE: 0.2, SAME_ANSWER: 0.02}  # as in verdict_simulation.WEIGHTS
BROKEN_SHARE = 0.1
FEWEST_ROWS = 20  # of honest candidates, to make a mixture of
RATES = tuple(round(0.1 * step, 1) for step in range(1, 10))
INDEPENDENT, MEMORISING = "independent", "memorising"
SENSITIVITIES = (0.5, 0.8, 0.95)
RULE = OverlapRule()
FLAGGED = Structure(frozenset({"numbers"}))


@dataclass(frozen=True)
class Pair:
    """A row of a file: what it is in truth, the kind of change, and what the checks find."""

    truth: str
    kind: str
    fatal: bool
    groups: frozenset[str]


@dataclass(frozen=True)
class Answers:
    """What the answers alone make of candidates: shares, and mean number of answers drawn."""

    accepted: float
    rejected: float
    drawn: float


Table = dict[tuple[str, str, bool], Answers]
"""By truth, kind of solver, and whether structure makes the verdict ask for more."""


def read_pairs(path: Path, limit: int, rng: random.Random) -> list[Pair]:
    """Return up to `limit` rows of a file, drawn at random, checked."""
    rows = [row for row in question_pairs.read_rows(path) if question_pairs.truth_of(row) is not None]
    rows = rng.sample(rows, min(limit, len(rows)))
    return [checked(row) for row in rows]


def checked(row: dict[str, Any]) -> Pair:
    truth = question_pairs.truth_of(row)
    assert truth is not None
    findings = check_candidate(
        row["original_question"], row["question"], answer=question_pairs.answer_of(row)
    )
    return Pair(
        truth=truth,
        kind=question_pairs.kind_of(row),
        fatal=any(finding.severity is Severity.FATAL for finding in findings),
        groups=groups_of(finding.name for finding in findings),
    )


def simulate(rng: Generator, cases: int, rule: OverlapRule) -> tuple[Table, dict[float, Answers]]:
    """Return what answers alone make of each truth, and of honest ones by the question's success rate."""
    table: Table = {}
    by_rate: dict[float, Answers] = {}
    for truth in TRUTHS:
        for name in (INDEPENDENT, MEMORISING):
            drawn: dict[float, list[simulation.Case]] = defaultdict(list)
            for place in range(cases):
                rate = RATES[place % len(RATES)]
                question = simulation.draw_question(rng, rate)
                candidate = simulation.candidate_of(rng, question, truth, RATES, name == MEMORISING)
                drawn[rate].append(simulation.draw_case(rng, question, candidate))
            every = [case for found in drawn.values() for case in found]
            for flagged in (False, True):
                table[truth, name, flagged] = decided(every, rule, flagged)
            if truth == HONEST and name == INDEPENDENT:
                by_rate = {rate: decided(found, rule, False) for rate, found in drawn.items()}
    return table, by_rate


def decided(cases: Sequence[simulation.Case], rule: OverlapRule, flagged: bool) -> Answers:
    used = rule_for(rule, FLAGGED if flagged else Structure())
    outcomes = [simulation.decide(case, used) for case in cases]
    verdicts = Counter(verdict for verdict, _ in outcomes)
    return Answers(
        verdicts[Verdict.ACCEPTED] / len(outcomes),
        verdicts[Verdict.REJECTED] / len(outcomes),
        sum(drawn for _, drawn in outcomes) / len(outcomes),
    )


Flags = Callable[[Pair], bool]


def flagged_by_any(pair: Pair) -> bool:
    return bool(pair.groups & WEIGHING)


def summary(pairs: Sequence[Pair], table: Table, flags: Flags = flagged_by_any) -> dict[str, float]:
    """Return the shares of a list of pairs (of any truths) after structure and answers."""
    found: dict[str, float] = {
        "rows": len(pairs),
        "fatal": mean(pair.fatal for pair in pairs),
        "flagged": mean(not pair.fatal and flags(pair) for pair in pairs),
    }
    for name in (INDEPENDENT, MEMORISING):
        alone = mean(table[pair.truth, name, False].accepted for pair in pairs)
        met = [Answers(0, 1, 0) if p.fatal else table[p.truth, name, flags(p)] for p in pairs]
        accepted = mean(one.accepted for one in met)
        found |= {
            f"accepted_{name}": accepted,
            f"by_answers_alone_{name}": alone,
            f"lost_to_structure_{name}": 1 - accepted / alone if alone else 0.0,
            f"answers_{name}": mean(one.drawn for one in met),
        }
    return found


def mean(values: Iterable[float]) -> float:
    found = [float(value) for value in values]
    return sum(found) / len(found) if found else 0.0


def mixture(
    honest: Sequence[Pair],
    broken: dict[str, list[Sequence[Pair]]],
    table: Table,
    name: str,
    *,
    flags: Flags = flagged_by_any,
    premises_found: float = 0.0,
) -> dict[str, float]:
    """Return what comes of honest and broken candidates at `BROKEN_SHARE`, broken ones by `WEIGHTS`.

    Files of one truth count alike. `premises_found` is the share of unanswerable candidates that a premise
    check blocks.
    """
    good = summary(honest, table, flags)
    accepted, answers, whole = 0.0, 0.0, 0.0
    for truth, files in broken.items():
        of_files = [summary(pairs, table, flags) for pairs in files]
        kept = 1 - premises_found if truth == UNANSWERABLE else 1.0
        accepted += WEIGHTS[truth] * kept * mean(one[f"accepted_{name}"] for one in of_files)
        answers += WEIGHTS[truth] * mean(one[f"answers_{name}"] for one in of_files)
        whole += WEIGHTS[truth]
    bad = BROKEN_SHARE * accepted / whole
    well = (1 - BROKEN_SHARE) * good[f"accepted_{name}"]
    drawn = (1 - BROKEN_SHARE) * good[f"answers_{name}"] + BROKEN_SHARE * answers / whole
    return {
        "broken_among_accepted": bad / (bad + well),
        "accepted": bad + well,
        "answers_per_accepted": drawn / (bad + well),
    }


def percent(share: float) -> str:
    return f"{100 * share:.2f}"


def print_file(name: str, pairs: Sequence[Pair], table: Table) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for truth in TRUTHS:
        of_truth = [pair for pair in pairs if pair.truth == truth]
        if not of_truth:
            continue
        found[truth] = {"all": print_line(f"{name}: {truth}", of_truth, table)}
        kinds = Counter(pair.kind for pair in of_truth)
        for kind, _ in kinds.most_common() if len(kinds) > 1 else ():
            chosen = [pair for pair in of_truth if pair.kind == kind]
            found[truth][kind] = print_line(f"... {kind}", chosen, table)
    return found


def print_line(title: str, pairs: Sequence[Pair], table: Table) -> dict[str, float]:
    one = summary(pairs, table)
    cells: list[str] = [f"{one['rows']:.0f}", percent(one["fatal"]), percent(one["flagged"])]
    for name in (INDEPENDENT, MEMORISING):
        shares = percent(one[f"accepted_{name}"]), percent(one[f"lost_to_structure_{name}"])
        cells += [*shares, f"{one[f'answers_{name}']:.1f}"]
    print_row(title, cells)
    return one


def print_groups(by_file: dict[str, list[Pair]]) -> dict[str, dict[str, float]]:
    """Print how often each group of findings is met on the rows of a file that are not fatal."""
    weigh = ", ".join(sorted(WEIGHING))
    print(f"\n== groups of findings ({weigh} weigh): % of the rows without a fatal one\n")
    passed_at_all = [pair for pairs in by_file.values() for pair in pairs if not pair.fatal]
    names = sorted({group for pair in passed_at_all for group in pair.groups})
    print_head("file", "rows", *names, "any that weighs")
    found: dict[str, dict[str, float]] = {}
    for file, pairs in by_file.items():
        passed = [pair for pair in pairs if not pair.fatal]
        if not passed:
            continue
        found[file] = {name: mean(name in pair.groups for pair in passed) for name in names}
        found[file]["weighing"] = mean(map(flagged_by_any, passed))
        print_row(file, [str(len(passed)), *(f"{100 * share:.1f}" for share in found[file].values())])
    return found


def print_mixtures(
    honest: dict[str, list[Pair]], broken: dict[str, list[Sequence[Pair]]], table: Table
) -> dict[str, Any]:
    weights = ", ".join(f"{truth} {weight:.0%}" for truth, weight in WEIGHTS.items())
    print(f"\n== {BROKEN_SHARE:.0%} broken candidates ({weights}): broken among accepted, in %\n")
    caught = [f"premise check finds {share:.0%}" for share in SENSITIVITIES]
    answers = ("answers per accepted", "findings not weighed")
    print_head("honest candidates of", "solver", "broken", "findings not weighed", *caught, *answers)
    found: dict[str, Any] = {}
    for file, pairs in honest.items():
        if all(pair.fatal for pair in pairs):
            print(f"{file}: every row has a fatal finding")
            continue
        found[file] = {}
        for name in (INDEPENDENT, MEMORISING):
            one = mixture(pairs, broken, table, name)
            blind = mixture(pairs, broken, table, name, flags=lambda _: False)
            checked = {
                str(share): mixture(pairs, broken, table, name, premises_found=share)["broken_among_accepted"]
                for share in SENSITIVITIES
            }
            found[file][name] = {**one, "without_weighing": blind, "premises_found": checked}
            shares = (one["broken_among_accepted"], blind["broken_among_accepted"], *checked.values())
            drawn = (one["answers_per_accepted"], blind["answers_per_accepted"])
            print_row(file, [name, *map(percent, shares), *(f"{value:.1f}" for value in drawn)])
    return found


def main() -> None:
    """Print the report; the last line is one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    question_pairs.add_arguments(parser)
    parser.add_argument("--cases", type=int, default=9000, help="simulated candidates per truth and solver")
    args = parser.parse_args()
    paths = question_pairs.sources(args, parser)
    table, by_rate = simulate(default_rng(args.seed), args.cases, RULE)
    print(f"{args.cases} simulated candidates per truth and kind of solver, seed {args.seed}; {RULE}")
    print("\n== answers alone, in %: not flagged, then flagged\n")
    print_head("truth", "solver", *("accepted", "rejected", "answers") * 2)
    for truth in TRUTHS:
        for name in (INDEPENDENT, MEMORISING):
            both = [table[truth, name, flagged] for flagged in (False, True)]
            cells = [(percent(a.accepted), percent(a.rejected), f"{a.drawn:.1f}") for a in both]
            print_row(truth, [name, *cells[0], *cells[1]])
    print("\nhonest, independent, not flagged, by the question's success (accepted, answers):")
    print(", ".join(f"{r}: {percent(a.accepted)} {a.drawn:.1f}" for r, a in by_rate.items()))
    print("\n== shares in %, for independent and for memorising solvers\n")
    print_head("rows of", "number", "fatal", "flagged", *("accepted", "lost to structure", "answers") * 2)
    files: dict[str, Any] = {}
    by_file: dict[str, list[Pair]] = {}
    honest: dict[str, list[Pair]] = {}
    broken: dict[str, list[Sequence[Pair]]] = defaultdict(list)
    for path in paths:
        pairs = read_pairs(path, args.rows, random.Random(args.seed))
        files[path.stem] = print_file(path.stem, pairs, table)
        for truth in TRUTHS:
            if of_truth := [pair for pair in pairs if pair.truth == truth]:
                by_file[f"{path.stem}: {truth}"] = of_truth
                if truth == HONEST:
                    if len(of_truth) >= FEWEST_ROWS:
                        honest[path.stem] = of_truth
                else:
                    broken[truth].append(of_truth)
    groups = print_groups(by_file)
    mixtures = print_mixtures(honest, broken, table) if honest and broken else {}
    answers = {f"{t}, {n}, {'flagged' if f else 'not flagged'}": vars(a) for (t, n, f), a in table.items()}
    report = {"answers": answers, "files": files, "groups": groups, "mixtures": mixtures}
    print(json.dumps(rounded({"cases": args.cases, "seed": args.seed, **report})))


if __name__ == "__main__":
    main()
