"""Comparison of two answers: the same code in workers, which have algebra, and elsewhere."""

from typing import Literal, NamedTuple

from evaluator.grading.compare import compare, judge, read
from evaluator.grading.extraction import FinalAnswer, answer_of, gold_answer
from evaluator.grading.steps import Algebra
from evaluator.grading.types import (
    NO_ANSWER,
    NO_GOLD,
    AnswerKind,
    Grade,
    GradeCase,
    GradeValue,
)


class Task(NamedTuple):
    """What to do with two answers: grade the second against the first, compare both ways, read the first.

    Of a `response` the second is all of it: its answer is found first, or the user's `own` grader reads it.
    """

    what: Literal["grade", "equal", "read", "response"]
    first: str
    second: str = ""
    kind: AnswerKind = AnswerKind.LATEX
    tolerance: str | None = None
    boxed_only: bool = False
    own: str | None = None


def do_task(task: Task, algebra: Algebra | None = None) -> Grade:
    """Return the grade that a task ends with, `NEEDS_ALGEBRA` if it cannot be told without."""
    if task.what == "grade":
        return judge(task.first, task.second, task.kind, task.tolerance, algebra)
    if task.what == "equal":
        forward = compare(task.first, task.second, algebra)
        return compare(task.second, task.first, algebra) if forward.value is GradeValue.CORRECT else forward
    if task.what == "read":
        return read(task.first, algebra)
    seen = read_case(GradeCase(task.second, task.first, task.kind, task.tolerance, task.boxed_only))
    if isinstance(seen, Grade):
        return seen
    answer, graded = seen
    return with_answer(do_task(graded, algebra), answer)


def read_case(case: GradeCase) -> Grade | tuple[FinalAnswer, Task]:
    """Return a case's answer and its task; without an answer, return its grade."""
    answer = answer_of(case)
    if answer is None:
        return NO_ANSWER if case.gold.strip() else NO_GOLD
    return answer, Task("grade", gold_answer(case.gold), answer.text, case.kind, case.tolerance)


def with_answer(grade: Grade, answer: FinalAnswer) -> Grade:
    """Return the grade with the answer that it is about."""
    return Grade(grade.value, answer.text, grade.reason, answer.source)
