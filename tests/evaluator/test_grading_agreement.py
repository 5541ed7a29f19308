"""Grades without algebra agree with algebra and with the labels of real responses; golds with themselves."""

import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evaluator.grading import Grader, GradeValue, algebra
from evaluator.grading.arithmetic import same_value
from evaluator.grading.compare import compare
from evaluator.grading.extraction import find_answer
from evaluator.grading.normalize import normalize

EMPTY = {"math_train_05341", "math_train_05343"}


def rows_of(folder: Path, file: str) -> list[dict[str, object]]:
    with (folder / f"{file}.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


numbers = st.integers(-40, 40).map(str) | st.sampled_from(["0.5", "2.25", r"\frac{3}{4}", r"\frac{7}{2}"])
atoms = numbers.map(lambda text: f"({text})" if text.startswith("-") else text) | st.sampled_from(
    [r"\sqrt{2}", r"\sqrt{12}", r"\sqrt[3]{5}", r"\pi", "x", "y", "x^2", r"\frac{x}{3}", r"\sqrt{x}", "|x|"]
)


def _joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(parts, parts).map(lambda two: f"({two[0]}+{two[1]})"),
        st.tuples(parts, parts).map(lambda two: f"({two[0]}-{two[1]})"),
        st.tuples(parts, parts).map(lambda two: rf"{two[0]} \cdot {two[1]}"),
        st.tuples(parts, parts).map(lambda two: rf"\frac{{{two[0]}}}{{{two[1]}}}"),
        parts.map(lambda one: f"({one})^2"),
        parts.map(lambda one: f"({one})^{{-1}}"),
    )


expressions = st.recursive(atoms, _joined, max_leaves=5)


@pytest.mark.slow
@example("x+x", r"((x+|x|)^{-1})^{-1}")  # the second is defined for positive x only
@settings(max_examples=40, deadline=None)
@given(expressions, expressions)
def test_arithmetic_agrees_with_algebra_on_any_two_expressions(first, second):
    first, second = normalize(first), normalize(second)
    same = same_value(first, second)
    assert same == same_value(second, first)
    if same is not None:
        outcome = algebra.compare_expressions(first, second)
        if outcome.value is not GradeValue.UNKNOWN and outcome.reason != "unparsable":
            assert (outcome.value is GradeValue.CORRECT) == same


@pytest.mark.parametrize(
    ("text", "product", "total"),
    [
        ("2(3)", "6", "5"),
        (r"3\binom{5}{2}", "30", "13"),
        (r"\binom52\binom62", "150", "25"),
        (r"(1+2)\dbinom{4}{2}", "18", "9"),
        (r"2\left(\binom{4}{2}\right)", "12", "8"),
        (r"7(\frac{1}{2})", "3.5", "7.5"),
        (r"7\left(\frac12\right)", "3.5", "7.5"),
        (r"7\frac{1}{2}", "7.5", "3.5"),
        (r"\log_2\binom{4}{1}", "2", "8"),
    ],
)
def test_a_factor_before_a_binomial_or_a_bracket(text, product, total):
    for gold, value in ((product, GradeValue.CORRECT), (total, GradeValue.WRONG)):
        judged = compare(gold, text, algebra.compare_expressions)
        assert judged.value is value


@pytest.mark.shared
@pytest.mark.parametrize("file", ["gsm_hard", "math_train", "math_perturb_simple"])
def test_grading_is_reflexive_on_every_gold(data_folder, file):
    """Those of benchmarks are checked as they are loaded: test_benchmarks.py."""
    rows = rows_of(data_folder, file)
    with Grader(workers=1) as grader:
        grades = grader.check_golds([str(row["answer"]) for row in rows])
    failed = {
        str(row["id"]) for row, one in zip(rows, grades, strict=True) if one.value is not GradeValue.CORRECT
    }
    assert failed == (EMPTY if file == "math_train" else set())


@pytest.mark.shared
def test_labels_of_sampled_responses(data_folder):
    rows = rows_of(data_folder, "gsm8k_openai_model_solutions")
    with Grader(workers=1) as grader:
        grades = grader.grade_many([(str(row["response"]), str(row["answer"])) for row in rows])
    assert [one.value is GradeValue.CORRECT for one in grades] == [bool(row["label"]) for row in rows]
    sources = {found.source for row in rows if (found := find_answer(str(row["response"]))) is not None}
    assert sources <= {"marker", "last sentence"}
