r"""Compares two answers part by part. What needs algebra is handed to a `leaf` function.

The structure (lists, tuples, intervals, matrices, units, names, words) is settled here, so that a list
never equals one of its members and words are never multiplied out as variables. Without a leaf the
comparison is pure text and exact arithmetic, and answers None where algebra would be needed; a worker
process supplies `evaluator.grading.symbolic.compare_expressions` as the leaf.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from evaluator.grading import normal, structure
from evaluator.grading.types import GradeValue


class Outcome(NamedTuple):
    """A grade value and its reason."""

    value: GradeValue
    reason: str


Leaf = Callable[[str, str], Outcome]
Judged = Outcome | None

EXACT = Outcome(GradeValue.CORRECT, "exact")
NUMERIC = Outcome(GradeValue.CORRECT, "numeric")
CHOICE = Outcome(GradeValue.CORRECT, "choice")
DIFFERENT = Outcome(GradeValue.WRONG, "different")
SEVERAL = Outcome(GradeValue.WRONG, "several answers")
NO_ANSWER = Outcome(GradeValue.WRONG, "no answer found")
NO_GOLD = Outcome(GradeValue.UNKNOWN, "no answer")
UNPARSABLE = Outcome(GradeValue.UNKNOWN, "unparsable")

_ZERO_GROUP = re.compile(r",0\d\d(?!\d)")
_LONGEST_UNORDERED = 16
_DEEPEST = 12


def compare(gold: str, answer: str, leaf: Leaf | None = None) -> Judged:
    """Grades an answer against a gold; None when that needs algebra and no `leaf` was given.

    An empty gold is unknown, an empty answer wrong. Texts longer than `normal.LONGEST_ANSWER` are unknown.
    """
    gold, answer = gold.strip(), answer.strip()
    if not gold:
        return NO_GOLD
    if not answer:
        return NO_ANSWER
    if too_long(gold) or too_long(answer):
        return UNPARSABLE
    tidy_gold, tidy_answer = normal.tidy(gold), normal.tidy(answer)
    if not tidy_gold:
        return NO_GOLD if not tidy_answer else UNPARSABLE
    if not tidy_answer:
        return NO_ANSWER
    if tidy_gold == tidy_answer:
        return EXACT
    judged = _judge(tidy_gold, tidy_answer, leaf, 0)
    if judged is not None and judged.value is not GradeValue.CORRECT:
        # `1,200` reads as one number; against a list it may have been meant as two.
        listed_gold = normal.tidy(gold, join_thousands=False)
        listed_answer = normal.tidy(answer, join_thousands=False)
        apart = (listed_gold == tidy_gold) != (listed_answer == tidy_answer)
        if apart and not _ZERO_GROUP.search(listed_gold + " " + listed_answer):
            other = _judge(listed_gold, listed_answer, leaf, 0)
            if other is None or other.value is GradeValue.CORRECT:
                return other
    return judged


def too_long(answer: str) -> bool:
    """True for answers that are not read at all because of their length."""
    return len(answer) > normal.LONGEST_ANSWER and (
        len(answer) > 50 * normal.LONGEST_ANSWER or len(" ".join(answer.split())) > normal.LONGEST_ANSWER
    )


def _judge(gold: str, answer: str, leaf: Leaf | None, depth: int) -> Judged:
    if gold == answer:
        return EXACT
    if depth > _DEEPEST:
        return UNPARSABLE
    if (choice := _judge_choice(gold, answer)) is not None:
        return choice
    gold_list, answer_list = structure.split_list(gold), structure.split_list(answer)
    if len(gold_list) > 1 or len(answer_list) > 1:
        return _judge_lists(gold, answer, gold_list, answer_list, leaf, depth)
    if (words := _judge_words(gold, answer)) is not None:
        return words
    named = _judge_named(gold, answer, leaf, depth)
    if named is not None:
        return named[0]
    for judge in (_judge_matrices, _judge_brackets, _judge_unions):
        done, judged = judge(gold, answer, leaf, depth)
        if done:
            return judged
    return _judge_quantities(gold, answer, leaf, depth)


def _judge_choice(gold: str, answer: str) -> Judged:
    gold_letter, answer_letter = structure.choice_letter(gold), structure.choice_letter(answer)
    if gold_letter and answer_letter:
        return CHOICE if gold_letter == answer_letter else DIFFERENT
    for letter, other in ((gold_letter, answer), (answer_letter, gold)):
        if letter and (labelled := structure.labelled_choice(other)):
            return CHOICE if labelled[0] == letter else DIFFERENT
    return None


def _judge_words(gold: str, answer: str) -> Judged:
    gold_words, answer_words = structure.words_of(gold), structure.words_of(answer)
    if gold_words is None and answer_words is None:
        return None
    gold_words = gold_words or structure.words_of(gold, wanted=True)
    answer_words = answer_words or structure.words_of(answer, wanted=True)
    if gold_words is not None and answer_words is not None:
        return EXACT if gold_words.casefold() == answer_words.casefold() else DIFFERENT
    words, other = (gold_words, answer) if gold_words is not None else (answer_words, gold)
    number = normal.exact_number(normal.split_unit(other)[0])
    if words in normal.NUMBER_WORDS and number is not None:
        return NUMERIC if number.value == normal.NUMBER_WORDS[words] else DIFFERENT
    return DIFFERENT


def _judge_named(gold: str, answer: str, leaf: Leaf | None, depth: int) -> tuple[Judged] | None:
    """Settles `x = 5` against `5`; None when neither side names its value."""
    gold_name, gold_value = structure.named_value(gold)
    answer_name, answer_value = structure.named_value(answer)
    if gold_value == gold and answer_value == answer:
        return None
    if gold_name and answer_name and gold_name != answer_name:
        # Two functions or coordinates with different names are told apart by algebra: y = x against x = y.
        return (leaf(gold, answer) if leaf else None,)
    if structure.has_relation(gold_value) or structure.has_relation(answer_value):
        if leaf is None:
            return (None,)
        gold = gold_value if r"\in" in gold else gold
        return (leaf(gold, answer_value if r"\in" in answer else answer),)
    return (_judge(gold_value, answer_value, leaf, depth + 1),)


def _judge_lists(
    gold: str, answer: str, gold_list: list[str], answer_list: list[str], leaf: Leaf | None, depth: int
) -> Judged:
    if len(gold_list) == len(answer_list):
        gold_names = [structure.named_value(part)[0] for part in gold_list]
        answer_names = [structure.named_value(part)[0] for part in answer_list]
        ordered = len(set(gold_names)) > 1 and not any(answer_names)
        ordered = ordered or (len(set(answer_names)) > 1 and not any(gold_names))
        return _judge_members(gold_list, answer_list, leaf, depth, ordered=ordered)
    inequalities = any(
        all(map(structure.has_inequality, many)) for many in (gold_list, answer_list) if len(many) > 1
    )
    if inequalities and structure.is_region(gold) and structure.is_region(answer):
        return leaf(gold, answer) if leaf else None
    for one, many, gold_first in ((gold, answer_list, True), (answer, gold_list, False)):
        if len(many) < 2:
            continue
        inner = structure.bracketed(structure.named_value(one)[1])
        # `\{1,2\}` is the list `1,2`; `(1,2)` without its parentheses must keep the order.
        if inner is not None and len(inner.elements) == len(many) and inner.pair in ("{}", "()"):
            first, second = (inner.elements, many) if gold_first else (many, inner.elements)
            return _judge_members(first, second, leaf, depth, ordered=inner.pair == "()")
    return SEVERAL if len(answer_list) > len(gold_list) else DIFFERENT


def _judge_matrices(gold: str, answer: str, leaf: Leaf | None, depth: int) -> tuple[bool, Judged]:
    gold_rows, answer_rows = structure.matrix_rows(gold), structure.matrix_rows(answer)
    if gold_rows is None or answer_rows is None:
        return False, None
    if [len(row) for row in gold_rows] != [len(row) for row in answer_rows]:
        return True, DIFFERENT
    gold_cells = [cell for row in gold_rows for cell in row]
    answer_cells = [cell for row in answer_rows for cell in row]
    return True, _judge_members(gold_cells, answer_cells, leaf, depth, ordered=True)


def _judge_brackets(gold: str, answer: str, leaf: Leaf | None, depth: int) -> tuple[bool, Judged]:
    gold_inner, answer_inner = structure.bracketed(gold), structure.bracketed(answer)
    gold_many = gold_inner is not None and len(gold_inner.elements) > 1
    answer_many = answer_inner is not None and len(answer_inner.elements) > 1
    if gold_inner is not None and answer_inner is not None and gold_many and answer_many:
        same = gold_inner.pair == answer_inner.pair and len(gold_inner.elements) == len(answer_inner.elements)
        if not same:
            return True, DIFFERENT
        ordered = gold_inner.pair != "{}"
        return True, _judge_members(gold_inner.elements, answer_inner.elements, leaf, depth, ordered=ordered)
    if gold_many or answer_many:
        plain = answer if gold_many else gold
        open_question = structure.has_relation(plain) or "\\cup" in plain or matrix_like(plain)
        return not open_question, DIFFERENT if not open_question else None
    for inner, other in ((gold_inner, answer), (answer_inner, gold)):
        # `\{5\}` is the set of the one answer 5, `(5)` is 5.
        if inner is not None and inner.pair in ("{}", "()") and inner.elements[0]:
            pair = (inner.elements[0], other) if other is answer else (other, inner.elements[0])
            return True, _judge(*pair, leaf, depth + 1)
    return False, None


def matrix_like(text: str) -> bool:
    """True when a matrix environment stands in the text."""
    return r"\begin" in text


def _judge_unions(gold: str, answer: str, leaf: Leaf | None, depth: int) -> tuple[bool, Judged]:
    if r"\cup" not in gold or r"\cup" not in answer:
        return False, None
    gold_parts = structure.split_top(gold.replace(r"\cup", ";"), ";")
    answer_parts = structure.split_top(answer.replace(r"\cup", ";"), ";")
    if len(gold_parts) == len(answer_parts):
        judged = _judge_members(gold_parts, answer_parts, leaf, depth, ordered=False)
        if judged is not None and judged.value is GradeValue.CORRECT:
            return True, judged
    return False, None  # [0,1] with [1,2] may still equal [0,2]


def _judge_members(
    gold: Sequence[str], answer: Sequence[str], leaf: Leaf | None, depth: int, *, ordered: bool
) -> Judged:
    if len(gold) != len(answer):
        return DIFFERENT
    if ordered or len(gold) > _LONGEST_UNORDERED:
        return _all_of([_judge(g, a, leaf, depth + 1) for g, a in zip(gold, answer, strict=True)])
    judged = [[_judge(g, a, leaf, depth + 1) for a in answer] for g in gold]
    correct = [[j is not None and j.value is GradeValue.CORRECT for j in row] for row in judged]
    if (pairing := _pairing(correct)) is not None:
        return _all_of([judged[row][column] for row, column in enumerate(pairing)])
    open_or_correct = [[j is None or j.value is not GradeValue.WRONG for j in row] for row in judged]
    pairing = _pairing(open_or_correct)
    if pairing is None:
        return DIFFERENT
    return _all_of([judged[row][column] for row, column in enumerate(pairing)])


def _all_of(judged: list[Judged]) -> Judged:
    """Wrong if any part is wrong, else open if any is open, else unknown if any is unknown, else correct."""
    known = [part for part in judged if part is not None]
    for value in (GradeValue.WRONG, None, GradeValue.UNKNOWN):
        if value is None:
            if len(known) < len(judged):
                return None
            continue
        for part in known:
            if part.value is value:
                return DIFFERENT if value is GradeValue.WRONG else part
    strength = {"exact": 0, "choice": 0, "numeric": 1, "symbolic": 2}
    return max(known, key=lambda part: strength.get(part.reason, 0), default=EXACT)


def _pairing(allowed: list[list[bool]]) -> list[int] | None:
    """A perfect matching of rows to columns (augmenting paths), or None when there is none."""
    row_of: dict[int, int] = {}

    def augment(row: int, seen: set[int]) -> bool:
        for column, fits in enumerate(allowed[row]):
            if fits and column not in seen:
                seen.add(column)
                if column not in row_of or augment(row_of[column], seen):
                    row_of[column] = row
                    return True
        return False

    if not all(augment(row, set()) for row in range(len(allowed))):
        return None
    return [column for column, _ in sorted(row_of.items(), key=lambda item: item[1])]


def _judge_quantities(gold: str, answer: str, leaf: Leaf | None, depth: int) -> Judged:
    gold_core, gold_unit = normal.split_unit(gold)
    answer_core, answer_unit = normal.split_unit(answer)
    if normal.units_conflict(gold_unit, answer_unit):
        return DIFFERENT
    percent = (gold_unit == "percent") - (answer_unit == "percent")
    if gold_unit or answer_unit:
        judged = _judge(gold_core, answer_core, leaf, depth + 1)
        if percent == 0 or judged is None or judged.value is GradeValue.CORRECT:
            return judged
        one, other = (gold_core, answer_core) if percent > 0 else (answer_core, gold_core)
        share, number = normal.exact_number(one), normal.exact_number(other)
        if share is not None and number is not None:
            return NUMERIC if share.value == 100 * number.value else DIFFERENT
        return judged
    gold_number, answer_number = normal.exact_number(gold), normal.exact_number(answer)
    if gold_number is not None and answer_number is not None:
        return NUMERIC if normal.same_number(gold_number, answer_number) else DIFFERENT
    gold_base, answer_base = structure.number_in_base(gold), structure.number_in_base(answer)
    if gold_base is not None or answer_base is not None:
        return EXACT if gold_base == answer_base else DIFFERENT
    return leaf(gold, answer) if leaf else None
