"""Agreement of the grader with labelled responses, and its differences from plain math-verify.

Grades every response of four files with the kind and tolerance that the case is meant for. Prints agreement,
the policy behind each disagreement with `grader_cases`, and each verdict that differs from plain math-verify
with the rule it differs by (ids only). `--out` writes every disagreement with its reason. The last line is
one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from evaluator.grading import Grade, Grader, GradeValue

Report = dict[str, Any]


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--out", type=Path, help="write the disagreements here, one JSON object a line")
    parser.add_argument("--workers", type=int, help="processes of the grader")
    parser.add_argument("--skip-math-verify", action="store_true", help="do not run plain math-verify beside")
    args = parser.parse_args()

    import grading_data as data

    report: Report = {}
    disagreements: list[dict[str, Any]] = []
    differences: Counter[str] = Counter()
    with Grader(workers=args.workers) as grader:
        for file in data.FILES:
            rows = data.load(args.data, file)
            grades = grader.grade_many([row.case for row in rows])
            plain = None if args.skip_math_verify else data.plain_math_verify(rows)
            report[file] = summary(rows, grades, plain)
            print_file(file, report[file])
            for place, (row, grade) in enumerate(zip(rows, grades, strict=True)):
                verdict = plain[place] if plain is not None else None
                if correct(grade) != row.label:
                    disagreements.append(disagreement(row, grade, plain is not None, verdict))
                    print(f"  {row.id}: {disagreements[-1]['why']}")
                if plain is not None and correct(grade) != bool(verdict):
                    rule = data.rule_of_difference(row, grade)
                    differences[rule] += 1
                    print(f"  {row.id}: {grade.value}, plain math-verify {said(verdict)}: {rule}")
    if args.out is not None:
        with args.out.open("w", encoding="utf-8") as lines:
            lines.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in disagreements)
        print(f"\nwrote {len(disagreements)} disagreements to {args.out}")
    if not args.skip_math_verify:
        print("\ndifferences from plain math-verify by rule")
        for rule, count in differences.most_common():
            print(f"  {count:4d}  {rule}")
        report["differs_from_math_verify"] = dict(differences.most_common())
    print(json.dumps(report))


def correct(grade: Grade) -> bool:
    """True for a correct grade; unknown is not."""
    return grade.value is GradeValue.CORRECT


def said(verdict: bool | None) -> str:
    """A verdict of math-verify in words."""
    return {True: "correct", False: "wrong", None: "error"}[verdict]


def summary(rows: Sequence[Any], grades: Sequence[Grade], plain: Sequence[bool | None] | None) -> Report:
    """Shares and counts of a file."""
    pairs = list(zip(rows, grades, strict=True))
    report: Report = {
        "rows": len(rows),
        "agree": round(sum(correct(grade) == row.label for row, grade in pairs) / len(rows), 5),
        "false_correct": sum(correct(grade) and not row.label for row, grade in pairs),
        "false_wrong": sum(grade.value is GradeValue.WRONG and row.label for row, grade in pairs),
        "unknown": sum(grade.value is GradeValue.UNKNOWN for grade in grades),
        "sources": dict(Counter(grade.source or "none" for grade in grades).most_common()),
        "reasons": dict(Counter(grade.reason for grade in grades).most_common()),
    }
    if plain is not None:
        agreed = sum(bool(verdict) == row.label for row, verdict in zip(rows, plain, strict=True))
        report["math_verify_agree"] = round(agreed / len(rows), 5)
    return report


def disagreement(row: Any, grade: Grade, asked: bool, verdict: bool | None) -> dict[str, Any]:
    """A disagreement as it is written to the file."""
    import grading_data as data

    why = data.POLICIES.get(row.id)
    if why is None:
        side = f"; plain math-verify says {said(verdict)}" if asked else ""
        why = f"{grade.reason}, answer {grade.source or 'not found'}{side}"
    return {
        "file": row.file,
        "id": row.id,
        "label": int(row.label),
        "grade": grade.value.value,
        "reason": grade.reason,
        "source": grade.source,
        "gold": row.case.gold,
        "extracted": grade.extracted,
        "why": why,
    }


def print_file(file: str, report: Report) -> None:
    """Print the figures of a file."""
    plain = f", plain math-verify {report['math_verify_agree']:.2%}" if "math_verify_agree" in report else ""
    against = f"{report['false_correct']} correct and {report['false_wrong']} wrong against the label"
    print(f"\n{file}: {report['rows']} rows, {report['agree']:.2%} agree{plain}")
    print(f"  {against}, {report['unknown']} unknown")


if __name__ == "__main__":
    main()
