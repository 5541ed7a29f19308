"""The whole gate on real pairs: structural checks of the texts, answers drawn by simulated solvers.

    python -m benchmarks.studies.gate [FOLDER_OR_FILE ...] [--data DIR] [--rows 400] [--cases 9000] [--seed 0]

Reads files of question pairs (`original_question`, `question`; JSON Lines, or parquet as Co-rewarding
publishes it) and names missing files. Each row is honest, changed, changed but with the same answer by
chance, or unanswerable, as its own fields say (`question_pairs.truth_of`). Answers are simulated
(`verdict_simulation.py`) over success rates .1 to .9 by solvers of two kinds: independent ones answer what
they read; memorising ones know the original, and answer that in a share of cases (`MEMORY`). Given the truth
of a row, structure and answers are taken as independent.

Prints per file and per kind of change: rows with a fatal finding, with one other than missing figures, and
with a number finding; accepted candidates and answers drawn. Then mixtures of honest and broken candidates,
with premise checks of several qualities, and the share of each finding. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.random import Generator, default_rng

from benchmarks.harness import print_table, rounded
from benchmarks.studies import question_pairs
from benchmarks.studies import verdict_simulation as simulation
from benchmarks.studies.verdict_simulation import CHANGED, HONEST, SAME_ANSWER, TRUTHS, UNANSWERABLE
from rephraser.checks.structure import FATAL, FINDINGS, check_candidate
from rephraser.verdict import OverlapRule, Verdict

WEIGHTS = {CHANGED: 0.78, UNANSWERABLE: 0.2, SAME_ANSWER: 0.02}  # as in verdict_simulation.WEIGHTS
BROKEN_SHARE = 0.1
FEWEST_ROWS = 20  # of honest candidates in a mixture
RATES = tuple(round(0.1 * step, 1) for step in range(1, 10))
INDEPENDENT, MEMORISING = "independent", "memorising"
SENSITIVITIES = (0.5, 0.8, 0.95)
FIGURES, NUMBERS = "figure_missing", {"number_missing", "number_added"}


@dataclass(frozen=True)
class Pair:
    """A row of a file: what it is in truth, the kind of change, and the names of its findings."""

    truth: str
    kind: str
    findings: set[str]

    @property
    def fatal(self) -> set[str]:
        return self.findings & set(FATAL)


@dataclass(frozen=True)
class Answers:
    """What answers alone make of candidates: shares, and the mean number of answers drawn."""

    accepted: float
    rejected: float
    drawn: float


Table = dict[tuple[str, str], Answers]
"""By truth and kind of solver."""


def check(row: dict[str, Any]) -> Pair:
    truth = question_pairs.truth_of(row)
    assert truth is not None
    findings = check_candidate(
        row["original_question"], row["question"], answer=question_pairs.answer_of(row)
    )
    return Pair(truth, question_pairs.kind_of(row), {each.name for each in findings})


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
            table[truth, name] = decide([case for found in drawn.values() for case in found], rule)
            if truth == HONEST and name == INDEPENDENT:
                by_rate = {rate: decide(found, rule) for rate, found in drawn.items()}
    return table, by_rate


def decide(cases: Sequence[simulation.Case], rule: OverlapRule) -> Answers:
    outcomes = [simulation.decide(case, rule) for case in cases]
    verdicts = Counter(verdict for verdict, _ in outcomes)
    return Answers(
        verdicts[Verdict.ACCEPTED] / len(outcomes),
        verdicts[Verdict.REJECTED] / len(outcomes),
        sum(drawn for _, drawn in outcomes) / len(outcomes),
    )


def summarize(pairs: Sequence[Pair], table: Table) -> dict[str, float]:
    """Return the shares of a list of pairs (of any truths) after structure and answers."""
    found: dict[str, float] = {
        "rows": len(pairs),
        "fatal": mean(bool(pair.fatal) for pair in pairs),
        "fatal_without_figures": mean(bool(pair.fatal - {FIGURES}) for pair in pairs),
        "numbers": mean(bool(pair.findings & NUMBERS) for pair in pairs),
    }
    for name in (INDEPENDENT, MEMORISING):
        met = [Answers(0, 1, 0) if pair.fatal else table[pair.truth, name] for pair in pairs]
        found[f"accepted_{name}"] = mean(one.accepted for one in met)
        found[f"answers_{name}"] = mean(one.drawn for one in met)
    return found


def mean(values: Iterable[float]) -> float:
    found = [float(value) for value in values]
    return sum(found) / len(found) if found else 0.0


def mixture(
    honest: Sequence[Pair],
    broken: dict[str, list[Sequence[Pair]]],
    table: Table,
    name: str,
    premises_found: float = 0.0,
) -> dict[str, float]:
    """Return what comes of honest and broken candidates at `BROKEN_SHARE`, broken ones by `WEIGHTS`.

    Files of one truth count alike. `premises_found` is the share of unanswerable candidates that a premise
    check blocks.
    """
    good = summarize(honest, table)
    accepted, answers, whole = 0.0, 0.0, 0.0
    for truth, files in broken.items():
        of_files = [summarize(pairs, table) for pairs in files]
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


def summarize_file(pairs: Sequence[Pair], table: Table) -> dict[str, dict[str, dict[str, float]]]:
    """Return the shares of a file by truth and kind of change."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for truth in TRUTHS:
        of_truth = [pair for pair in pairs if pair.truth == truth]
        if of_truth:
            kinds = Counter(pair.kind for pair in of_truth)
            found[truth] = {"all": summarize(of_truth, table)}
            for kind, _ in kinds.most_common() if len(kinds) > 1 else ():
                found[truth][kind] = summarize([pair for pair in of_truth if pair.kind == kind], table)
    return found


def mix(
    honest: dict[str, list[Pair]], broken: dict[str, list[Sequence[Pair]]], table: Table
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return what comes of honest and broken candidates, by file of honest ones and kind of solver."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for file, pairs in honest.items():
        if all(pair.fatal for pair in pairs):
            continue
        found[file] = {}
        for name in (INDEPENDENT, MEMORISING):
            checked = {
                f"premise check finds {share:.0%}": mixture(pairs, broken, table, name, share)[
                    "broken_among_accepted"
                ]
                for share in SENSITIVITIES
            }
            found[file][name] = {**mixture(pairs, broken, table, name), **checked}
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
    rule = OverlapRule()
    table, by_rate = simulate(default_rng(args.seed), args.cases, rule)
    answers = [{"truth": truth, "solver": name, **vars(one)} for (truth, name), one in table.items()]
    print_table(f"answers alone, {args.cases} candidates per truth and kind of solver; {rule}", answers)
    print_table(
        "honest, independent, by the question's success",
        ({"success": rate, **vars(one)} for rate, one in by_rate.items()),
    )
    files: dict[str, Any] = {}
    by_file: dict[str, list[Pair]] = {}
    honest: dict[str, list[Pair]] = {}
    broken: dict[str, list[Sequence[Pair]]] = defaultdict(list)
    seconds = 0.0
    for path in paths:
        rows = [row for row in question_pairs.read_rows(path) if question_pairs.truth_of(row) is not None]
        drawn = random.Random(args.seed).sample(rows, min(args.rows, len(rows)))
        started = time.perf_counter()
        pairs = [check(row) for row in drawn]
        seconds += time.perf_counter() - started
        files[path.stem] = summarize_file(pairs, table)
        for truth in TRUTHS:
            if of_truth := [pair for pair in pairs if pair.truth == truth]:
                by_file[f"{path.stem}: {truth}"] = of_truth
                if truth != HONEST:
                    broken[truth].append(of_truth)
                elif len(of_truth) >= FEWEST_ROWS:
                    honest[path.stem] = of_truth
    mixtures = mix(honest, broken, table) if honest and broken else {}
    findings = {
        name: {file: mean(name in pair.findings for pair in pairs) for file, pairs in by_file.items()}
        for name in FINDINGS
    }
    findings = {name: shares for name, shares in findings.items() if any(shares.values())}
    print_table(
        "files",
        (
            {"file": file, "truth": truth, "kind": kind, **one}
            for file, found in files.items()
            for truth, kinds in found.items()
            for kind, one in kinds.items()
        ),
    )
    weights = ", ".join(f"{truth} {weight:.0%}" for truth, weight in WEIGHTS.items())
    print_table(
        f"{BROKEN_SHARE:.0%} broken candidates ({weights})",
        (
            {"honest candidates from": file, "solver": name, **one}
            for file, solvers in mixtures.items()
            for name, one in solvers.items()
        ),
    )
    print_table("findings", ({"finding": name, **shares} for name, shares in findings.items()))
    checked = [pair for pairs in by_file.values() for pair in pairs]
    print(f"\n{len(checked) / seconds:.0f} pairs checked per second")
    report = {"answers": answers, "files": files, "mixtures": mixtures, "findings": findings}
    print(json.dumps(rounded({"cases": args.cases, "seed": args.seed, **report})))


if __name__ == "__main__":
    main()
