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
import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.harness import add_data, print_table, read_jsonl, rounded
from evaluator.grading import AnswerKind, Grade, GradeCase, Grader, GradeValue

Report = dict[str, Any]
RESPONSE_FILES = ("qwen25math_100x8", "gsm8k_openai_model_solutions", "rho_responses")
FILES = ("grader_cases", *RESPONSE_FILES, "natural_gsm8k_responses")

# Tolerances that the test suite names for a case (OlympiadBench, eval/scoring_examples.json).
TOLERANCES = {"olympiad_20.0": "1e34", "olympiad_21.0": "1e34,1e-3", "olympiad_22.0": "1e-3"}


@dataclass(frozen=True)
class Row:
    """A response; `label` and `gold_near_end` are None where they are not known."""

    file: str
    id: str
    case: GradeCase
    label: bool | None
    model: str = ""
    boxed: bool = False
    gold_near_end: bool | None = None


def load(folder: Path, file: str) -> list[Row]:
    """The responses of a file; rows without a response or a gold are left out."""
    rows = read_jsonl(folder / f"{file}.jsonl")
    return [_row(file, row) for row in rows if row.get("response") is not None and _gold(row) is not None]


def load_folders(
    folders: Sequence[Path], only: Sequence[str] | None
) -> Iterator[tuple[str, list[Row] | None]]:
    """Every file of responses in the folders, and None for the usual or wanted ones that are missing."""
    places = {path.stem: path.parent for folder in folders for path in sorted(folder.glob("*.jsonl"))}
    for file in only or dict.fromkeys((*FILES, *sorted(places))):
        if file not in places:
            yield file, None
        elif rows := (load(places[file], file) if _holds_responses(places[file] / f"{file}.jsonl") else []):
            yield file, rows


def thinned(rows: list[Row], most: int | None) -> list[Row]:
    """At most so many rows of each model, evenly drawn from the file."""
    if most is None:
        return rows
    places: dict[str, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        places[row.model].append(place)
    chosen = {
        of_model[step * len(of_model) // min(most, len(of_model))]
        for of_model in places.values()
        for step in range(min(most, len(of_model)))
    }
    return [rows[place] for place in sorted(chosen)]


def _holds_responses(path: Path) -> bool:
    with path.open(encoding="utf-8") as lines:
        return "response" in json.loads(next(lines, "{}"))


def _gold(row: dict[str, Any]) -> str | None:
    gold = row.get("answer", row.get("gold"))
    return str(gold) if gold is not None else None


def _row(file: str, row: dict[str, Any]) -> Row:
    gold, label, name = str(_gold(row)), row.get("label"), str(row.get("id", ""))
    near = row.get("gold_near_end", gold.replace(",", "") in row["response"][-300:].replace(",", ""))
    tolerance = TOLERANCES.get(name)
    if (precision := (row.get("extra") or {}).get("precision")) is not None:
        tolerance = f"5e-{int(precision) + 1}"  # math-verify rounds both sides to so many decimals
    kind = AnswerKind.LATEX if tolerance is None else AnswerKind.TOLERANCE
    return Row(
        file=file,
        id=name,
        case=GradeCase(row["response"], gold, kind, tolerance),
        label=bool(label) if label is not None else None,
        model=str(row.get("model") or ""),
        boxed="boxed" in row["response"],
        gold_near_end=bool(near) if label is None else None,
    )


def plain_math_verify(rows: Sequence[Row]) -> list[bool | None]:
    """`verify(parse(gold), parse(response))` one by one, as users call it; None for an error."""
    from math_verify import parse, verify

    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    logging.getLogger("latex2sympy2_extended").setLevel(logging.CRITICAL)
    verdicts: list[bool | None] = []
    for row in rows:
        gold = row.case.gold
        try:
            parsed = parse(gold if row.file == "grader_cases" else f"${gold}$")
            verdicts.append(bool(verify(parsed, parse(row.case.response))))
        except Exception:  # sympy raises anything
            verdicts.append(None)
    return verdicts


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
        for file, rows in load_folders(folders, args.files):
            if rows is None:
                print(f"\n{file}: not in {', '.join(map(str, folders))}")
                report[file] = None
                continue
            rows = thinned(rows, args.rows)
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
    verdicts = plain_math_verify(rows) if plain else None
    others = [
        replace(row, case=replace(row.case, gold=other.case.gold), label=False)
        for row, other in zip(rows, [*rows[1:], *rows[:1]], strict=True)
    ]
    equal = grader.equal_many(
        [(row.case.gold, other.case.gold) for row, other in zip(rows, others, strict=True)]
    )
    rotated = [(place, other) for place, other in enumerate(others) if equal[place] is GradeValue.WRONG]
    accepted = dict.fromkeys(range(len(rows)), (None, None))
    rotated_plain = plain_math_verify([other for _, other in rotated]) if plain else [None] * len(rotated)
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
