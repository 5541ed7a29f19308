r"""Compares an answer with a gold by the kind of answer that the problem asks for.

Latex answers go to `compare`; integers, choices and numbers with a tolerance have rules of their own first.
Like `compare`, nothing here needs algebra, and None means that algebra would settle it.
"""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from evaluator.grading import normal, structure
from evaluator.grading.compare import Leaf, compare, matched, too_long
from evaluator.grading.types import (
    CHOICE,
    DIFFERENT,
    NO_ANSWER,
    NO_GOLD,
    NOT_RUN,
    SEVERAL,
    UNPARSABLE,
    WITHIN_TOLERANCE,
    AnswerKind,
    GradeValue,
    Judged,
    Outcome,
)
from service.errors import InputError

DEFAULT_TOLERANCE = "1%"
"""Of a gold without a tolerance of its own: the threshold of Minerva's grader (arXiv 2206.14858)."""

_LETTERS = re.compile(r"(?<![A-Za-z\\])(?:\\text ?\{ ?)?\(?([A-J])\)?(?![A-Za-z])(?! ?=)")
_LONE_LETTER = re.compile(r"\(?([A-Ja-j])\)?[.:)]?")
_LETTERS_IN_A_ROW = re.compile(r"(?:\([A-J]\) ?){2,}|(?:[A-J][.):] ?){2,}[A-J]")
# An option and its text, which begins with no label and no initial, and names no option in parentheses.
_LABELLED_PART = re.compile(r"(\(?)([A-J])([.):])(?:(?:(?<=\)) ?| )(?!\(?[A-Z][.)])(?:(?!\([A-J]\)).)*)?")
_NAMED_CHOICE = re.compile(r"(?:option|choice|answer)s?:? ?(.+)", re.IGNORECASE)
_TOLERANCE = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?%?")


class Limit(NamedTuple):
    """How far a number may be from the gold: a share of the gold, or a number."""

    size: Fraction
    relative: bool


class Algebra(NamedTuple):
    """What a worker process adds: `compare` settles two expressions, `value` a number as a fraction."""

    compare: Leaf
    value: Callable[[str], Fraction | None]


def judge(
    gold: str,
    answer: str,
    kind: AnswerKind = AnswerKind.LATEX,
    tolerance: str | None = None,
    algebra: Algebra | None = None,
) -> Judged:
    """Grades an answer against a gold of the given kind; None when that needs algebra and none was given.

    An empty gold, or one that is not of its kind, is unknown; an empty answer is wrong. Raises InputError for
    a tolerance that cannot be read.
    """
    leaf = algebra.compare if algebra is not None else None
    if kind is AnswerKind.CHOICE:
        return judge_choice(gold, answer)
    if kind is AnswerKind.INTEGER:
        return _judge_integer(gold, answer, leaf)
    if kind is AnswerKind.TOLERANCE:
        return _judge_tolerance(gold, answer, tolerance, algebra)
    if kind is AnswerKind.CODE:
        return NOT_RUN
    return compare(gold, answer, leaf)


def judge_choice(gold: str, answer: str) -> Outcome:
    r"""Grades a letter A to J: `B`, `(b)`, `\text{(B)}`, `B) 42`, `option B`; several letters are wrong."""
    if not gold.strip():
        return NO_GOLD
    if not answer.strip():
        return NO_ANSWER
    wanted = choice_letters(gold)
    if len(wanted) != 1 or too_long(answer):
        return UNPARSABLE
    chosen = choice_letters(answer)
    if len(chosen) > 1:
        return SEVERAL
    return CHOICE if chosen == wanted else DIFFERENT


def choice_letters(text: str) -> list[str]:
    """The different letters that an answer names, in order; the text of an option is not looked into."""
    if too_long(text):
        return []
    text = normal.tidy(text)
    words = structure.plain_words(text)
    if named := _NAMED_CHOICE.fullmatch(words):
        words = named.group(1).strip()
    if alone := _LONE_LETTER.fullmatch(words):
        return [alone.group(1).upper()]
    if listed := _listed_letters(words):
        return listed
    if (labelled := structure.labelled_choice(text) or structure.labelled_choice(words)) is not None:
        return [labelled[0]]
    return list(dict.fromkeys(_LETTERS.findall(text)))


def _listed_letters(words: str) -> list[str]:
    """The options of a list of nothing else, with their texts or without, all labelled in one way.

    The C of `(B) A, C` is text, and so is what stands behind the D of `(D) both (A) and (C)`.
    """
    if _LETTERS_IN_A_ROW.fullmatch(words):
        return list(dict.fromkeys(re.findall("[A-J]", words)))
    parts = structure.split_list(words)
    if all(_LONE_LETTER.fullmatch(part) for part in parts):
        return list(dict.fromkeys(part.strip("().:").upper() for part in parts))
    labelled = [part for part in map(_LABELLED_PART.fullmatch, parts) if part is not None]
    alike = len(labelled) == len(parts) > 1 and len({each[1] + each[3] for each in labelled}) == 1
    return list(dict.fromkeys(each[2] for each in labelled)) if alike else []


def _judge_integer(gold: str, answer: str, leaf: Leaf | None) -> Judged:
    """AMC and AIME: neither a leading zero, a unit, a degree sign, an option's letter nor what
    stands before an equals sign counts.
    """
    wanted = normal.exact_number(normal.split_unit(normal.tidy(gold))[0])
    if gold.strip() and (wanted is None or wanted.value.denominator != 1):
        return UNPARSABLE
    judged = compare(gold, answer, leaf)
    if judged is None or judged.value is GradeValue.CORRECT:
        return judged
    text = normal.tidy(answer)
    if (labelled := structure.labelled_choice(text)) is not None:
        text = labelled[1]
    if not structure.has_inequality(text):
        text = structure.sides(text)[-1]  # m + n = 73
    again = compare(gold, text, leaf)
    return judged if again is not None and again.value is not GradeValue.CORRECT else again


def _judge_tolerance(gold: str, answer: str, tolerance: str | None, algebra: Algebra | None) -> Judged:
    """Each number within its tolerance; anything that is no number as in `compare`.

    Several tolerances belong to the gold's numbers in order; the answer may list its numbers in any order.
    """
    limits = read_tolerance(tolerance)
    if len(limits) == 1:
        return _compare_near(gold, answer, limits[0], algebra)
    wanted, listed = (structure.split_list(normal.tidy(text)) for text in (gold, answer))
    if len(limits) != len(wanted):
        raise InputError(
            f"tolerance {tolerance!r} has {len(limits)} numbers, but the gold answer has {len(wanted)}"
        )
    if len(listed) != len(wanted):
        return compare(gold, answer, algebra.compare if algebra is not None else None)
    judged = [
        [_compare_near(number, other, limit, algebra) for other in listed]
        for number, limit in zip(wanted, limits, strict=True)
    ]
    return matched(judged)


def _compare_near(gold: str, answer: str, limit: Limit, algebra: Algebra | None) -> Judged:
    def near(wanted: Fraction, value: Fraction) -> bool:
        allowed = limit.size * abs(wanted) if limit.relative else limit.size
        return abs(wanted - value) <= allowed

    def leaf(first: str, second: str) -> Outcome:
        assert algebra is not None
        outcome = algebra.compare(first, second)
        if outcome.value is GradeValue.CORRECT:
            return outcome
        wanted, value = algebra.value(first), algebra.value(second)
        close = wanted is not None and value is not None and near(wanted, value)
        return WITHIN_TOLERANCE if close else outcome

    return compare(gold, answer, leaf if algebra is not None else None, near)


def read_tolerance(tolerance: str | None) -> list[Limit]:
    """Reads `1e-2` (absolute), `1%` (relative), `1e-2,1e-1` (one for each number); None is 1%.

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
