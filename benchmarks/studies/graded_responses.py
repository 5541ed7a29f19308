"""The files of graded responses, how their cases are meant, and plain math-verify beside our grader."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import read_jsonl
from evaluator.grading import AnswerKind, GradeCase

RESPONSE_FILES = ("qwen25math_100x8", "gsm8k_openai_model_solutions", "rho_responses")
FILES = ("grader_cases", *RESPONSE_FILES, "natural_gsm8k_responses")

# Tolerances that the test suite gives beside the case (OlympiadBench, eval/scoring_examples.json).
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
