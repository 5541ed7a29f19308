"""Agreement of the grader with labelled responses, misses and false positives on unlabelled ones.

Reads every JSON Lines file of the folders that holds responses (`response`; `answer` or `gold`; `label`,
`model` where they are known), names the usual ones that are missing, and prints for each file and model rows,
agreement of our grader and of plain math-verify with the label, and how often the response is accepted with
the gold of the next row (golds rotated within the file; rows whose two golds are equal are left out). Where
there is no label, responses that box nothing are counted by whether the gold appears near their end. `--out`
writes every disagreement. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.harness import add_data, print_table, rounded
from benchmarks.studies import graded_responses as data
from benchmarks.studies.graded_responses import Row
from evaluator.grading import Grade, Grader, GradeValue

Report = dict[str, Any]


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", type=Path, nargs="*", help="folders of responses; by default that of --data")
    add_data(parser)
    parser.add_argument("--files", nargs="+", metavar="NAME", help="only these files, without .jsonl")
    parser.add_argument("--rows", type=int, help="at most so many rows a file and model, evenly drawn")
    parser.add_argument("--out", type=Path, help="write the disagreements here, one JSON object a line")
    parser.add_argument("--workers", type=int, help="processes of the grader")
    parser.add_argument("--skip-math-verify", action="store_true", help="do not run plain math-verify beside")
    args = parser.parse_args()

    folders = args.paths or [args.data]
    report: Report = {}
    disagreements: list[Report] = []
    with Grader(workers=args.workers) as grader:
        for file, rows in data.load_folders(folders, args.files):
            if rows is None:
                print(f"\n{file}: not in {', '.join(map(str, folders))}")
                report[file] = None
                continue
            rows = data.thinned(rows, args.rows)
            file_report, differing = measure(grader, rows, plain=not args.skip_math_verify)
            report[file] = file_report
            disagreements += differing
            print_table(file, ({"model": name, **one} for name, one in file_report.items()))
    if args.out is not None:
        with args.out.open("w", encoding="utf-8") as lines:
            lines.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in disagreements)
        print(f"\nwrote {len(disagreements)} disagreements to {args.out}")
    print(json.dumps(rounded(report)))


def measure(grader: Grader, rows: Sequence[Row], *, plain: bool) -> tuple[Report, list[Report]]:
    """Figures of a file, as a whole and by model, and its disagreements."""
    grades = grader.grade_many([row.case for row in rows])
    verdicts = data.plain_math_verify(rows) if plain else None
    others = [
        replace(row, case=replace(row.case, gold=other.case.gold), label=False)
        for row, other in zip(rows, [*rows[1:], *rows[:1]], strict=True)
    ]
    equal = grader.equal_many(
        [(row.case.gold, other.case.gold) for row, other in zip(rows, others, strict=True)]
    )
    rotated = [(place, other) for place, other in enumerate(others) if equal[place] is GradeValue.WRONG]
    accepted = dict.fromkeys(range(len(rows)), (None, None))
    rotated_plain = (
        data.plain_math_verify([other for _, other in rotated]) if plain else [None] * len(rotated)
    )
    rotated_grades = grader.grade_many([other.case for _, other in rotated])
    for (place, _), grade, verdict in zip(rotated, rotated_grades, rotated_plain, strict=True):
        accepted[place] = (correct(grade), verdict)
    groups: dict[str, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        groups["all"].append(place)
        if row.model:
            groups[row.model].append(place)
    return (
        {name: figures(places, rows, grades, verdicts, accepted) for name, places in groups.items()},
        [
            disagreement(row, grade, verdicts[place] if verdicts is not None else None)
            for place, (row, grade) in enumerate(zip(rows, grades, strict=True))
            if row.label is not None and correct(grade) != row.label
        ],
    )


def figures(
    places: Sequence[int],
    rows: Sequence[Row],
    grades: Sequence[Grade],
    verdicts: Sequence[bool | None] | None,
    accepted: dict[int, tuple[bool | None, bool | None]],
) -> Report:
    """Counts over some rows of a file."""
    labelled = [place for place in places if rows[place].label is not None]
    ours = {place for place in places if correct(grades[place])}
    plain = {place for place in places if verdicts is not None and verdicts[place]}
    rotated = [accepted[place] for place in places if accepted[place][0] is not None]
    right = {place for place in labelled if rows[place].label}
    report: Report = {
        "rows": len(places),
        "correct": len(ours),
        "unknown": sum(grades[place].value is GradeValue.UNKNOWN for place in places),
        "labelled": len(labelled),
        "agree": share(sum((place in ours) == (place in right) for place in labelled), len(labelled)),
        "math-verify agrees": share(
            sum((place in plain) == (place in right) for place in labelled),
            0 if verdicts is None else len(labelled),
        ),
        "false correct": len(ours & set(labelled) - right),
        "false wrong": len(right - ours),
    }
    for name, near in (("near", True), ("not near", False)):
        chosen = {place for place in places if not rows[place].boxed and rows[place].gold_near_end is near}
        report[f"gold {name} the end"] = len(chosen)
        report[f"{name}, correct"] = len(chosen & ours)
        report[f"{name}, math-verify"] = len(chosen & plain)
    report["rotated"] = len(rotated)
    report["rotated, correct"] = sum(bool(ours) for ours, _ in rotated)
    report["rotated, math-verify"] = sum(bool(verdict) for _, verdict in rotated)
    return report


def share(count: int, total: int) -> float | None:
    """A share; None of nothing."""
    return count / total if total else None


def correct(grade: Grade) -> bool:
    """True for a correct grade; unknown is not."""
    return grade.value is GradeValue.CORRECT


def disagreement(row: Row, grade: Grade, verdict: bool | None) -> Report:
    """A disagreement as it is written to the file."""
    return {
        "file": row.file,
        "id": row.id,
        "model": row.model,
        "label": int(bool(row.label)),
        "grade": grade.value.value,
        "reason": grade.reason,
        "source": grade.source,
        "gold": row.case.gold,
        "extracted": grade.extracted,
        "math_verify": verdict,
    }


if __name__ == "__main__":
    main()
