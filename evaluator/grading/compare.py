r"""Compare an answer with a gold according to the answer kind.

A normalized pair goes through the steps of `exact`, then those of `quantity`; see `steps` for the protocol.
Without algebra a grade may be `NEEDS_ALGEBRA`; a worker process supplies `algebra.compare_expressions`.
"""

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Literal, NamedTuple, TypeAlias

from evaluator.grading import exact, quantity, structure
from evaluator.grading.exact import choice_letters
from evaluator.grading.extraction import FinalAnswer, answer_of, gold_answer
from evaluator.grading.normalize import normalize, too_long
from evaluator.grading.steps import Algebra, Limit, PartComparison, best_pairing
from evaluator.grading.types import (
    CHOICE,
    CRASHED,
    DIFFERENT,
    EXACT,
    NEEDS_ALGEBRA,
    NO_ANSWER,
    NO_GOLD,
    NOT_RUN,
    NUMERIC,
    SEVERAL,
    UNPARSABLE,
    AnswerKind,
    Grade,
    GradeCase,
    GradeValue,
)
from service.errors import InputError

STEPS = (*exact.STEPS, *quantity.STEPS)

DEFAULT_TOLERANCE = "1%"
"""Of a gold without a tolerance of its own: the threshold of Minerva's grader (arXiv 2206.14858)."""

_TOLERANCE = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?%?")
_INTEGER = re.compile(r"-?\d{1,18}")
_RATIO = re.compile(r"\d[\d:]*")  # or a time
_ZERO_GROUP = re.compile(r",0\d\d(?!\d)")


def judge(
    gold: str,
    answer: str,
    kind: AnswerKind = AnswerKind.LATEX,
    tolerance: str | None = None,
    algebra: Algebra | None = None,
) -> Grade:
    """Grade an answer against a gold of the given kind.

    An empty gold, or one that is not of its kind, is unknown; an empty answer is wrong. Raises InputError for
    a tolerance that cannot be read.
    """
    if kind is AnswerKind.CHOICE:
        return _judge_choice(gold, answer)
    if kind is AnswerKind.INTEGER:
        return _judge_integer(gold, answer, algebra)
    if kind is AnswerKind.TOLERANCE:
        return _judge_tolerance(gold, answer, tolerance, algebra)
    return NOT_RUN if kind is AnswerKind.CODE else compare(gold, answer, algebra)


def _judge_choice(gold: str, answer: str) -> Grade:
    r"""Grade a letter A to J: `B`, `(b)`, `\text{(B)}`, `B) 42`, `option B`; several letters are wrong."""
    if not gold.strip():
        return NO_GOLD
    if not answer.strip():
        return NO_ANSWER
    expected = choice_letters(gold)
    if len(expected) != 1 or too_long(answer):
        return UNPARSABLE
    letters = choice_letters(answer)
    if len(letters) > 1:
        return SEVERAL
    return CHOICE if letters == expected else DIFFERENT


def _judge_integer(gold: str, answer: str, algebra: Algebra | None) -> Grade:
    """Grade an answer of AMC or AIME, without an option's letter or what comes before an equals sign."""
    number = quantity.exact_number(quantity.split_unit(normalize(gold))[0])
    if gold.strip() and (number is None or number.value.denominator != 1):
        return UNPARSABLE
    grade = compare(gold, answer, algebra)
    if grade is NEEDS_ALGEBRA or grade.value is GradeValue.CORRECT:
        return grade
    text = normalize(answer)
    if structure.has_inequality(text):
        return grade
    again = compare(gold, structure.sides(text)[-1], algebra)  # m + n = 73
    return again if again is NEEDS_ALGEBRA or again.value is GradeValue.CORRECT else grade


def _judge_tolerance(gold: str, answer: str, tolerance: str | None, algebra: Algebra | None) -> Grade:
    """Grade each number within its tolerance.

    Several tolerances belong to the gold's numbers in order; the answer may list its numbers in any order.
    """
    limits = read_tolerance(tolerance)
    if len(limits) == 1:
        return compare(gold, answer, algebra, limits[0])
    expected, listed = (structure.split_list(normalize(text)) for text in (gold, answer))
    if len(limits) != len(expected):
        raise InputError(
            f"tolerance {tolerance!r} has {len(limits)} numbers, but the gold answer has {len(expected)}"
        )
    if len(listed) != len(expected):
        return compare(gold, answer, algebra)
    return best_pairing(
        [
            [compare(number, other, algebra, limit) for other in listed]
            for number, limit in zip(expected, limits, strict=True)
        ]
    )


def read_tolerance(tolerance: str | None) -> list[Limit]:
    """Read `1e-2` (absolute), `1%` (relative), `1e-2,1e-1` (one for each number); None is 1%.

    Raises InputError for anything else.
    """
    limits = []
    for part in (tolerance or DEFAULT_TOLERANCE).split(","):
        part = part.strip()
        if not _TOLERANCE.fullmatch(part):
            raise InputError(f"tolerance {tolerance!r} is not valid. Write 1e-2, 1% or 1e-2,1e-1")
        relative = part.endswith("%")
        limits.append(Limit(Fraction(part.rstrip("%")) / (100 if relative else 1), relative))
    return limits


def compare(gold: str, answer: str, algebra: Algebra | None = None, limit: Limit | None = None) -> Grade:
    """Grade an answer of no special kind; texts longer than `LONGEST_ANSWER` are unknown."""
    gold, answer = gold.strip(), answer.strip()
    if limit is None and _INTEGER.fullmatch(gold) and _INTEGER.fullmatch(answer):  # most of all answers
        return EXACT if gold == answer else NUMERIC if int(gold) == int(answer) else DIFFERENT
    if not gold:
        return NO_GOLD
    if not answer:
        return NO_ANSWER
    if too_long(gold) or too_long(answer):
        return UNPARSABLE
    first, second = normalize(gold), normalize(answer)
    if not first:
        return NO_GOLD if not second else UNPARSABLE
    if not second:
        return NO_ANSWER
    if first == second:
        return EXACT
    grade = PartComparison(STEPS, algebra, limit).compare(first, second)
    if grade is NEEDS_ALGEBRA or grade.value is GradeValue.CORRECT:
        return grade
    readings = [(reading, second) for reading in _other_readings(first, second)]
    readings += [(first, reading) for reading in _other_readings(second, first)]
    if "," in gold or "," in answer:  # `1,200` is one number, but two against a list
        lists = normalize(gold, join_thousands=False), normalize(answer, join_thousands=False)
        if (lists[0] == first) != (lists[1] == second) and not _ZERO_GROUP.search(" ".join(lists)):
            readings.insert(0, lists)
    for pair in readings:
        other = PartComparison(STEPS, algebra, limit).compare(*pair)
        if other is NEEDS_ALGEBRA or other.value is GradeValue.CORRECT:
            return other
    return grade


def _other_readings(text: str, other: str) -> Iterator[str]:
    r"""Yield what an answer may mean instead, given the one that it is compared with.

    `1,5` is two numbers, but 1.5 against a decimal; `(B) 42` is the letter, but 42 against a value;
    `1/3 \approx 0.33` means 1/3, but 0.33 against a decimal.
    """
    point = quantity.decimal_comma(text)
    if point is not None and ("." in other or ",00" in text):
        yield point
    if (labelled := structure.labelled_choice(text)) and structure.labelled_choice(other) is None:
        yield labelled[1]
    if (sides := structure.approximated(text)) and structure.approximated(other) is None:
        yield sides[1]


def read(answer: str, algebra: Algebra | None = None) -> Grade:
    """Return a grade that is "unparsable" if an answer, or a member of a list, cannot be read at all."""
    if too_long(answer):
        return UNPARSABLE
    parts = [part for part in structure.split_list(normalize(answer)) if not _RATIO.fullmatch(part)]
    grades = [compare(part, "0", algebra) for part in parts]
    return next(
        (grade for grade in grades if grade is NEEDS_ALGEBRA or grade.reason == "unparsable"), DIFFERENT
    )


class Task(NamedTuple):
    """What to do with two answers: grade the second against the first, compare both ways, read the first."""

    what: Literal["grade", "equal", "read"]
    first: str
    second: str = ""
    kind: AnswerKind = AnswerKind.LATEX
    tolerance: str | None = None


WorkerTask: TypeAlias = Task | GradeCase


def do_task(task: WorkerTask | Grade, algebra: Algebra | None = None) -> Grade:
    """Return the grade of a task or of a case; its reason is that of `NEEDS_ALGEBRA` if it needs algebra."""
    if isinstance(task, Grade):
        return task
    if isinstance(task, GradeCase):
        answer, comparison = read_case(task)
        return with_answer(do_task(comparison, algebra), answer)
    if task.what == "grade":
        return judge(task.first, task.second, task.kind, task.tolerance, algebra)
    if task.what == "read":
        return read(task.first, algebra)
    forward = compare(task.first, task.second, algebra)
    return compare(task.second, task.first, algebra) if forward.value is GradeValue.CORRECT else forward


def read_case(case: GradeCase) -> tuple[FinalAnswer | None, Task | Grade]:
    """Return the answer of a case and how to grade it; without an answer, the grade."""
    try:
        answer = answer_of(case)
        gold = gold_answer(case.gold)
    except MemoryError:  # a worker reports it
        raise
    except Exception:  # one unreadable response must not stop the others
        return None, CRASHED
    if answer is None:
        return None, NO_ANSWER if case.gold.strip() else NO_GOLD
    return answer, Task("grade", gold, answer.text, case.kind, case.tolerance)


def with_answer(grade: Grade, answer: FinalAnswer | None) -> Grade:
    """Return the grade with the answer that it is about."""
    return Grade(grade.value, answer.text, grade.reason, answer.source) if answer is not None else grade
