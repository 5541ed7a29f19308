"""The files of graded responses, how their cases are meant, and plain math-verify beside our grader."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluator.grading import AnswerKind, Grade, GradeCase, GradeValue, grader, normal, structure

RESPONSE_FILES = ("qwen25math_100x8", "gsm8k_openai_model_solutions", "rho_responses")
FILES = ("grader_cases", *RESPONSE_FILES)

# Tolerances that the test suite gives beside the case (OlympiadBench, eval/scoring_examples.json).
TOLERANCES = {"olympiad_20.0": "1e34", "olympiad_21.0": "1e34,1e-3", "olympiad_22.0": "1e-3"}

POLICIES = {
    "mathverify_test_all.test_latex_notation.5": "line breaks inside $...$ do not make a formula unreadable",
    "mathverify_test_all.test_set_rel_assymetry.3": "an inequality equals its interval",
    "mathverify_test_numina_cases.test_numina_cases.24": "the gold is cut off; W(n) is not W(x)",
    "mathverify_test_yujianll.test_string_extraction.9": "the values differ: a known wrong label",
    "mathverify_test_boxed.test_boxed.0": "boxes joined by arbitrary signs are not a list",
    "mathverify_test_strict.test_strict_variable_comparison.1": "f(x) and f(y) differ; no lenient mode",
    "skythought_7": "2 is not 2.0001 unless the problem has a tolerance",
    "skythought_8": "75 is not 0.75 without a percent sign",
    "hendrycks_test_order": "the members of a list may come in any order",
    "hendrycks_test_decimals": "the members of a list may come in any order",
}
"""Why our grade differs from the label, for the cases of `grader_cases` where it does."""


@dataclass(frozen=True)
class Row:
    """A labelled response."""

    file: str
    id: str
    case: GradeCase
    label: bool


def load(folder: Path, file: str) -> list[Row]:
    """The labelled responses of a file."""
    with (folder / f"{file}.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [Row(file, row["id"], _case(row), bool(row["label"])) for row in rows]


def _case(row: dict[str, Any]) -> GradeCase:
    tolerance = TOLERANCES.get(row["id"])
    if (precision := (row.get("extra") or {}).get("precision")) is not None:
        tolerance = f"5e-{int(precision) + 1}"  # math-verify rounds both sides to so many decimals
    kind = AnswerKind.LATEX if tolerance is None else AnswerKind.TOLERANCE
    return GradeCase(row["response"], row["answer"], kind, tolerance)


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


def rule_of_difference(row: Row, grade: Grade) -> str:
    """The rule by which our grade differs from plain math-verify's; "unexplained" where none is known."""
    from math_verify import parse, verify

    gold = grader.gold_answer(row.case.gold)
    answer = grade.extracted or ""
    ours = grade.value is GradeValue.CORRECT
    tidy_gold, tidy_answer = normal.tidy(gold), normal.tidy(answer)
    both = (tidy_gold, tidy_answer)
    if grade.extracted is None:
        return "a response without an answer is wrong"
    if row.case.kind is AnswerKind.TOLERANCE:
        return "the tolerance of the case is used"
    if grade.reason == "several answers":
        return "more answers than the gold has are wrong"
    if grade.value is GradeValue.UNKNOWN:
        return "what cannot be read is unknown"
    if grade.source == "bare":
        return "a response that is nothing but an answer is read whole"
    if any(structure.words_of(text) for text in both):
        return "words are compared as words"
    if any(normal.split_unit(text)[1] for text in both):
        return "a unit, degree or percent sign on one side does not count"
    try:
        on_answer = bool(verify(parse(f"${tidy_gold}$"), parse(f"${tidy_answer}$")))
    except Exception:  # sympy raises anything
        on_answer = not ours
    if on_answer == ours:
        return "math-verify takes another part of the response"
    if any(normal.decimal_comma(text) for text in both):
        return "a comma is a decimal point where the other side has one"
    if any(r"\approx" in text for text in both):
        return "an approximation beside the exact value does not count"
    if any(r"\begin" in text for text in both):
        return "matrices are compared cell by cell"
    if any(len(structure.solutions(text)) > 1 for text in both):
        return "lists are compared member by member in any order"
    if any(structure.has_relation(text) for text in both):
        return "an equation equals another one or the value it names, not one of its sides"
    if any(structure.bracketed(text) for text in both):
        return "brackets count, and the order inside them"
    if any(normal.exact_number(text) for text in both):
        return "a decimal stands for what it rounds from six places on"
    return "unexplained"
