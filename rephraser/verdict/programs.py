"""Programs as answers: those that pass the question's tests are equal; failures are no evidence.

Programs can fail in any way, so failing together does not indicate the same task. All failures of the
candidate count as one new answer, the strictest reading. Each failure of the question counts as a separate
answer, so that a question that is never solved has no stable answer.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from evaluator.grading import Clustering, Grade, GradeValue
from rephraser.verdict.overlap import OverlapRule

PASSING, FAILING = "passes the tests", "fails"
_REJECT_SHARE = 0.75


def rule_for_programs(rule: OverlapRule) -> OverlapRule:
    """Return the rule for programs: no rejection if over a quarter of the question's programs fail.

    Without a dominant other answer, the only evidence against a candidate is that no program passes; if the
    question itself is hard, a harder wording explains that.
    """
    return replace(rule, reject_original_top=max(1, ceil(_REJECT_SHARE * rule.original_samples)))


def cluster_programs(grades: Sequence[Grade | None], original: int) -> Clustering:
    """Return the classes of programs: first those of the question, `original` of them, then the candidate's.

    None is a response without a program; unknown grades are unsettled.
    """
    classes, assignment, unsettled = [PASSING, FAILING], list[int | None](), list[int]()
    for place, grade in enumerate(grades):
        if grade is None or grade.reason == "no answer found":
            assignment.append(None)
        elif grade.value is GradeValue.CORRECT:
            assignment.append(0)
        elif grade.value is GradeValue.UNKNOWN:
            unsettled.append(place)
            assignment.append(None)
        elif place < original:
            classes.append(grade.extracted or FAILING)
            assignment.append(len(classes) - 1)
        else:
            assignment.append(1)
    return Clustering(tuple(classes), tuple(assignment), 0, 0, tuple(unsettled))
