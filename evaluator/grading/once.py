"""Grades one response at a time. Starts no process unless algebra is needed."""

import atexit
import threading

from evaluator.grading.extraction import find_answer
from evaluator.grading.grader import NO_GOLD, NOT_FOUND, Grader, gold_answer
from evaluator.grading.kinds import judge
from evaluator.grading.types import AnswerKind, Grade, GradeCase

_lock = threading.Lock()
_grader: Grader | None = None


def grade(
    response: str,
    answer: str,
    kind: AnswerKind | str = AnswerKind.LATEX,
    *,
    tolerance: str | None = None,
    boxed_only: bool = False,
) -> Grade:
    r"""Grades one response against the gold answer of its problem.

    `kind` is latex, integer, choice or tolerance; with `boxed_only` nothing but a box is an answer. What
    spelling and exact arithmetic cannot settle goes to a worker process with the limits of `Grader`; it is
    started at the first such case and kept until the program ends. For many responses use
    `Grader.grade_many`. Raises InputError for a bad tolerance and ValueError for an unknown kind.

    >>> grade(r"so \boxed{\frac{2}{4}}", "0.5").value
    <GradeValue.CORRECT: 'correct'>
    """
    kind = AnswerKind(kind)
    found = find_answer(response, kind, boxed_only=boxed_only)
    if found is None:
        return NOT_FOUND if answer.strip() else NO_GOLD
    outcome = judge(gold_answer(answer), found.text, kind, tolerance)
    if outcome is not None:
        return Grade(outcome.value, found.text, outcome.reason, found.source)
    return _shared_grader().grade_many([GradeCase(response, answer, kind, tolerance, boxed_only)])[0]


def _shared_grader() -> Grader:
    global _grader
    with _lock:
        if _grader is None:
            _grader = Grader(workers=1)
            atexit.register(_grader.close)
        return _grader
