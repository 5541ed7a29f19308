"""What the structural checks notice on honest and on broken rewrites.

    python -m benchmarks.studies.structural_checks [FOLDER_OR_FILE ...] [--data DIR] [--rows N]

Reads every file of question pairs (`original_question`, `question`; JSON Lines, or parquet as Co-rewarding
publishes it). Rows are apart by what they are (`question_pairs.truth_of`): honest, changed, ... Prints per
file the share of rows with a fatal finding, with a fatal one other than figure code left out, and with
evidence of each group; then what each group alone notices; then the share of each finding. `--show` prints
the rows with a finding. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from benchmarks.studies import question_pairs
from benchmarks.studies.verdict_simulation import TRUTHS
from rephraser.checks import FATAL, FINDINGS, GROUPS, check_candidate, groups_of

FIGURES = "figure_missing"


@dataclass(frozen=True)
class Checked:
    """A row with what the checks notice, and the seconds that took."""

    row: dict[str, Any]
    details: dict[str, str]
    seconds: float

    @property
    def fatal(self) -> frozenset[str]:
        return FATAL & set(self.details)

    @property
    def groups(self) -> frozenset[str]:
        return groups_of(self.details)


def check(row: dict[str, Any]) -> Checked:
    started = time.perf_counter()
    findings = check_candidate(
        row["original_question"], row["question"], answer=question_pairs.answer_of(row)
    )
    return Checked(row, {f.name: f.detail for f in findings}, time.perf_counter() - started)


def share(count: int, rows: list[Checked]) -> float:
    return round(count / len(rows), 5)


def shares(rows: list[Checked]) -> dict[str, Any]:
    """Return the shares of rows by severity, by group, by what a group alone notices, and by finding."""
    groups = sorted(set(GROUPS.values()))
    return {
        "rows": len(rows),
        "fatal": share(sum(bool(row.fatal) for row in rows), rows),
        "fatal_but_figures": share(sum(bool(row.fatal - {FIGURES}) for row in rows), rows),
        "evidence": share(sum(bool(row.groups) for row in rows), rows),
        "groups": {name: share(sum(name in row.groups for row in rows), rows) for name in groups},
        "alone": {
            name: share(sum(row.groups == {name} and not row.fatal for row in rows), rows) for name in groups
        },
        "findings": {
            name: share(count, rows)
            for name, count in Counter(name for row in rows for name in row.details).most_common()
        },
    }


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def show(rows: list[Checked], finding: str) -> None:
    for one in rows:
        if finding in one.details:
            print(f"--- {one.row.get('id', '')}: {one.details[finding]}")
            print(f"  original:  {one.row['original_question']}\n  candidate: {one.row['question']}")


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    question_pairs.add_arguments(parser)
    parser.add_argument(
        "--show", metavar="FINDING", choices=FINDINGS, help="print the rows with this finding"
    )
    args = parser.parse_args()
    report: dict[str, dict[str, Any]] = {}
    every: list[Checked] = []
    for path in question_pairs.sources(args, parser):
        rows = [row for row in question_pairs.read_rows(path) if question_pairs.truth_of(row) is not None]
        drawn = random.Random(args.seed).sample(rows, min(args.rows, len(rows)))
        for truth in TRUTHS:
            if checked := [check(row) for row in drawn if question_pairs.truth_of(row) == truth]:
                every += checked
                report[f"{path.stem}: {truth}"] = shares(checked)
                if args.show:
                    show(checked, args.show)
    groups = sorted(set(GROUPS.values()))
    print(f"{len(every) / sum(one.seconds for one in every):.0f} pairs a second\n\nShares of rows, in %\n")
    question_pairs.print_head("file", "rows", "fatal", "... figures aside", *groups, "any of them")
    for name, one in report.items():
        cells = (one["fatal"], one["fatal_but_figures"], *one["groups"].values(), one["evidence"])
        question_pairs.print_row(name, [str(one["rows"]), *map(percent, cells)])
    print("\nNoticed by one group alone, in % of the rows\n")
    question_pairs.print_head("file", "rows", *groups)
    for name, one in report.items():
        question_pairs.print_row(name, [str(one["rows"]), *map(percent, one["alone"].values())])
    print("\nBy finding, in % of the rows; fatal ones in bold\n")
    question_pairs.print_head("finding", *report)
    for finding in FINDINGS:
        found = [one["findings"].get(finding, 0.0) for one in report.values()]
        if any(found):
            name = f"**{finding}**" if finding in FATAL else finding
            question_pairs.print_row(name, [percent(value) for value in found])
    print(json.dumps(report))


if __name__ == "__main__":
    main()
