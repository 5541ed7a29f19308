"""Neighbors of questions that ask for programs: checks of a candidate, and what its programs show."""

import pytest

from evaluator.grading import Grade, GradeValue
from rephraser.checks.structure import check_candidate
from rephraser.run.judge import count_classes
from rephraser.verdict import Verdict, judge
from rephraser.verdict.judge import cluster_programs, rule_for_programs
from rephraser.verdict.overlap import OverlapRule

QUESTION = '''from typing import List

def halves(numbers: List[int]) -> List[float]:
    """Halve each of 3 or more numbers; x^2 + 1 is no number.
    >>> halves([2, 4])
    [1.0, 2.0]
    """'''
HONEST = '''from typing import List

def halves(numbers: List[int]) -> List[float]:
    """What is left of every number, three of them or more, if half of it goes away?
    >>> halves([2, 4])
    [1.0, 2.0]
    """'''


def names(candidate: str, question: str = QUESTION) -> set[str]:
    return {finding.name for finding in check_candidate(question, candidate, names=("halves",))}


def test_an_honest_candidate_has_no_findings() -> None:
    assert names(HONEST) == set()
    assert names(QUESTION.replace("    ", "  ")) == {"same_as_original"}


def test_names_and_signatures_stay() -> None:
    line, changed = "def halves(numbers: List[int]) -> List[float]:", {"signature_changed"}
    for signature in (line.replace("halves", "thirds"), line.replace("])", "], n: int)", 1)):
        assert names(HONEST.replace(line, signature)) == changed
    assert names("Halve the numbers.", "Write `halves`, which halves numbers.") == changed
    assert names("Let `halves` halve numbers.", "Write `halves`, which halves numbers.") == set()


def test_examples_stay_and_no_code_is_given_away() -> None:
    (missing,) = check_candidate(
        QUESTION, HONEST.replace(">>> halves([2, 4])", ">>> halves([2, 6])"), names=("halves",)
    )
    assert (missing.name, missing.severity) == ("example_missing", "evidence")
    given_away = HONEST + "\n    return [number / 2 for number in numbers]"
    (solved,) = check_candidate(QUESTION, given_away, names=("halves",))
    assert (solved.name, solved.severity) == ("solution_included", "fatal")
    assert names("") == {"empty"}


def grade(*, passes: bool) -> Grade:
    value = GradeValue.CORRECT if passes else GradeValue.WRONG
    return Grade(value, "how", "tests passed" if passes else "tests failed")


def verdict(original: list[Grade | None], candidate: list[Grade | None]) -> Verdict:
    rule = rule_for_programs(OverlapRule())
    clustering = cluster_programs([*original, *candidate], len(original))
    counts = count_classes([""] * len(original), [""] * len(candidate), clustering)
    return judge(counts, rule).verdict


def programs(right: int, wrong: int) -> list[Grade | None]:
    return [*[grade(passes=True)] * right, *[grade(passes=False)] * wrong]


@pytest.mark.parametrize(
    ("original", "candidate", "expected"),
    [
        ((32, 0), (12, 0), Verdict.ACCEPTED),
        ((32, 0), (9, 3), Verdict.ACCEPTED),
        ((9, 23), (9, 3), Verdict.ACCEPTED),
        ((32, 0), (8, 4), Verdict.UNDECIDED),
        ((32, 0), (10, 6), Verdict.UNDECIDED),  # a condition that half of the programs guess
        ((32, 0), (11, 5), Verdict.ACCEPTED),
        ((32, 0), (0, 12), Verdict.REJECTED),
        ((24, 8), (0, 12), Verdict.REJECTED),
        ((23, 9), (0, 16), Verdict.UNDECIDED),  # a harder wording would do
        ((32, 0), (1, 11), Verdict.UNDECIDED),
        ((0, 32), (0, 12), Verdict.UNDECIDED),  # failing together shows nothing
        ((0, 32), (12, 0), Verdict.UNDECIDED),
    ],
)
def test_verdicts_by_programs(
    original: tuple[int, int], candidate: tuple[int, int], expected: Verdict
) -> None:
    assert verdict(programs(*original), programs(*candidate)) is expected
