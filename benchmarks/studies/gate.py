"""The whole gate on real pairs: structural checks of the texts, answers drawn by simulated solvers.

    python -m benchmarks.studies.gate [FOLDER_OR_FILE ...] [--data DIR] [--rows 400] [--cases 9000] [--seed 0]

Reads files of question pairs (`original_question`, `question`; JSON Lines, or parquet as Co-rewarding
publishes it) and names missing files. Each row is honest, changed, changed but with the same answer by
chance, or unanswerable, as its own fields say (`truth_of`). Answers are simulated
(`verdict_simulation.py`) over success rates .1 to .9 by solvers of two kinds: independent ones answer what
they read; memorising ones know the original, and answer that in a share of cases (`MEMORY`). Given the truth
of a row, structure and answers are taken as independent.

Prints per file: rows with a fatal finding, with one other than missing figures, and with a number finding;
accepted candidates and answers drawn. Then mixtures of honest and broken candidates, with premise checks of
several qualities, and the share of each finding. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from numpy.random import Generator, default_rng

from benchmarks.harness import add_data, print_table, rounded
from benchmarks.studies import verdict_simulation as simulation
from benchmarks.studies.verdict_simulation import CHANGED, HONEST, SAME_ANSWER, TRUTHS, UNANSWERABLE
from rephraser.checks.structure import FATAL, FINDINGS, check_candidate
from rephraser.verdict import OverlapRule, Verdict

KEPT = ("preserving", "intended_preserving", "same", "unknown")  # relations that say or mean the same problem
NAMES = {"rephrased_question": "question", "solution": "original_answer"}  # Co-rewarding's columns
PLACEHOLDER = "<rewritten question>"  # some of its rows contain this instead of a rewrite
WEIGHTS = {CHANGED: 0.78, UNANSWERABLE: 0.2, SAME_ANSWER: 0.02}  # as in verdict_simulation.WEIGHTS
BROKEN_SHARE = 0.1
FEWEST_ROWS = 20  # of honest candidates in a mixture
RATES = tuple(round(0.1 * step, 1) for step in range(1, 10))
INDEPENDENT, MEMORISING = "independent", "memorising"
SENSITIVITIES = (0.5, 0.8, 0.95)
FIGURES, NUMBERS = "figure_missing", {"number_missing", "number_added"}


@dataclass(frozen=True)
class Pair:
    """A row of a file: what it is in truth, and the names of its findings."""

    truth: str
    findings: set[str]

    @property
    def fatal(self) -> set[str]:
        return self.findings & set(FATAL)


class Answers(NamedTuple):
    """What answers alone make of candidates: the share accepted, and the mean number of answers drawn."""

    accepted: float
    drawn: float


Table = dict[tuple[str, str], Answers]
"""By truth and kind of solver."""


def sources(args: argparse.Namespace, parser: argparse.ArgumentParser) -> list[Path]:
    """Return the files to read; missing ones are named on standard error, and it is an error if all are."""
    found: list[Path] = []
    for path in args.paths or [args.data]:
        if path.is_dir():
            inside = sorted((*path.glob("*.jsonl"), *path.glob("*.parquet")))
            found += [each for each in inside if read_rows(each)]
        elif path.exists():
            found.append(path)
        else:
            print(f"{path} is not there and was left out", file=sys.stderr)
    if not found:
        places = ", ".join(map(str, args.paths or [args.data]))
        parser.error(f"no file of pairs in {places}; name files or folders")
    return found


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file that have both texts, by the usual names; none of another kind of file."""
    if path.suffix == ".parquet":
        import pyarrow.parquet

        table = pyarrow.parquet.ParquetFile(path)
        columns = {"original_question", "question", *NAMES} & set(table.schema_arrow.names)
        if "original_question" not in columns:
            return []
        rows = table.read(sorted(columns)).to_pylist()
    else:
        with path.open(encoding="utf-8") as lines:
            first = next(lines, "{}")
            if "original_question" not in json.loads(first):
                return []
            rows = [json.loads(line) for line in (first, *lines) if line.strip()]
    rows = [{NAMES.get(name, name): value for name, value in row.items()} for row in rows]
    return [
        row
        for row in rows
        if isinstance(row.get("original_question"), str)
        and isinstance(row.get("question"), str)
        and PLACEHOLDER not in row["question"].lower()
    ]


def truth_of(row: dict[str, Any]) -> str | None:
    """Return what a row is by its own fields; None where both texts are one.

    Rewrites without a label count as what they were meant to be.
    """
    relation = str(row.get("relation") or "")
    same = {"true": True, "1": True, "false": False, "0": False}.get(str(row.get("same_answer")).lower())
    if relation in ("identical", "unlinked"):
        return None
    if relation == "unanswerable":
        return UNANSWERABLE
    if relation in KEPT or not relation:
        return CHANGED if same is False else HONEST
    return SAME_ANSWER if same else CHANGED


def check(row: dict[str, Any]) -> Pair:
    truth = truth_of(row)
    assert truth is not None
    original, answer = row["original_question"], row.get("original_answer") or row.get("answer")
    findings = check_candidate(original, row["question"], answer=str(answer) if answer else None)
    return Pair(truth, {each.name for each in findings})


def simulate(rng: Generator, cases: int, rule: OverlapRule) -> Table:
    """Return what answers alone make of candidates of each truth."""
    table: Table = {}
    for truth, name in product(TRUTHS, (INDEPENDENT, MEMORISING)):
        accepted = total = 0
        for place in range(cases):
            question = simulation.draw_question(rng, RATES[place % len(RATES)])
            candidate = simulation.candidate_of(rng, question, truth, RATES, name == MEMORISING)
            verdict, drawn = simulation.decide(simulation.draw_case(rng, question, candidate), rule)
            accepted += verdict is Verdict.ACCEPTED
            total += drawn
        table[truth, name] = Answers(accepted / cases, total / cases)
    return table


def summarize(pairs: Sequence[Pair], table: Table) -> dict[str, float]:
    """Return the shares of a list of pairs (of any truths) after structure and answers."""
    found: dict[str, float] = {
        "rows": len(pairs),
        "fatal": mean(bool(pair.fatal) for pair in pairs),
        "fatal_without_figures": mean(bool(pair.fatal - {FIGURES}) for pair in pairs),
        "numbers": mean(bool(pair.findings & NUMBERS) for pair in pairs),
    }
    for name in (INDEPENDENT, MEMORISING):
        met = [Answers(0, 0) if pair.fatal else table[pair.truth, name] for pair in pairs]
        found[f"accepted_{name}"] = mean(one.accepted for one in met)
        found[f"answers_{name}"] = mean(one.drawn for one in met)
    return found


def mean(values: Iterable[float]) -> float:
    found = [float(value) for value in values]
    return sum(found) / len(found) if found else 0.0


def mixture(
    honest: Sequence[Pair], broken: dict[str, list[Sequence[Pair]]], table: Table, name: str
) -> dict[str, float]:
    """Return what comes of honest and broken candidates at `BROKEN_SHARE`, broken ones by `WEIGHTS`.

    Files of one truth count alike. A premise check blocks a share of the unanswerable candidates.
    """
    good = summarize(honest, table)
    whole = sum(WEIGHTS[truth] for truth in broken)
    accepted, answers = {}, 0.0
    for truth, files in broken.items():
        of_files = [summarize(pairs, table) for pairs in files]
        share = BROKEN_SHARE * WEIGHTS[truth] / whole
        accepted[truth] = share * mean(one[f"accepted_{name}"] for one in of_files)
        answers += share * mean(one[f"answers_{name}"] for one in of_files)
    well = (1 - BROKEN_SHARE) * good[f"accepted_{name}"]
    bad = sum(accepted.values())
    blocked = {
        f"premise check finds {share:.0%}": bad - share * accepted.get(UNANSWERABLE, 0.0)
        for share in SENSITIVITIES
    }
    return {
        "broken_among_accepted": bad / (bad + well),
        "accepted": bad + well,
        "answers_per_accepted": ((1 - BROKEN_SHARE) * good[f"answers_{name}"] + answers) / (bad + well),
        **{check: left / (left + well) for check, left in blocked.items()},
    }


def main() -> None:
    """Print the report; the last line is one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "paths", nargs="*", type=Path, help="folders or files of pairs; by default that of --data"
    )
    add_data(parser)
    parser.add_argument("--rows", type=int, default=400, help="most rows of a file, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=9000, help="simulated candidates per truth and solver")
    args = parser.parse_args()
    paths = sources(args, parser)
    rule = OverlapRule()
    table = simulate(default_rng(args.seed), args.cases, rule)
    answers = [{"truth": truth, "solver": name, **one._asdict()} for (truth, name), one in table.items()]
    print_table(f"answers alone, {args.cases} candidates per truth and kind of solver; {rule}", answers)
    files: dict[str, Any] = {}
    by_file: dict[str, list[Pair]] = {}
    honest: dict[str, list[Pair]] = {}
    broken: dict[str, list[Sequence[Pair]]] = defaultdict(list)
    for path in paths:
        rows = [row for row in read_rows(path) if truth_of(row) is not None]
        drawn = random.Random(args.seed).sample(rows, min(args.rows, len(rows)))
        pairs = [check(row) for row in drawn]
        files[path.stem] = {}
        for truth in TRUTHS:
            if of_truth := [pair for pair in pairs if pair.truth == truth]:
                by_file[f"{path.stem}: {truth}"] = of_truth
                files[path.stem][truth] = summarize(of_truth, table)
                if truth != HONEST:
                    broken[truth].append(of_truth)
                elif len(of_truth) >= FEWEST_ROWS and not all(pair.fatal for pair in of_truth):
                    honest[path.stem] = of_truth
    mixtures = {
        file: {name: mixture(good, broken, table, name) for name in (INDEPENDENT, MEMORISING)}
        for file, good in (honest.items() if broken else ())
    }
    findings = {
        name: {file: mean(name in pair.findings for pair in pairs) for file, pairs in by_file.items()}
        for name in FINDINGS
    }
    findings = {name: shares for name, shares in findings.items() if any(shares.values())}
    print_table(
        "files",
        (
            {"file": file, "truth": truth, **one}
            for file, truths in files.items()
            for truth, one in truths.items()
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
    report = {"answers": answers, "files": files, "mixtures": mixtures, "findings": findings}
    print(json.dumps(rounded({"cases": args.cases, "seed": args.seed, **report})))


if __name__ == "__main__":
    main()
