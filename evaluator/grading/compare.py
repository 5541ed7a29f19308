r"""Compares two answers part by part. What needs algebra is handed to a `leaf` function.

The structure (lists, tuples, intervals, matrices, units, names, words) is settled here, so that a list
never equals one of its members and words are never multiplied out as variables. Without a leaf the
comparison is pure text and exact arithmetic, and answers None where algebra would be needed; a worker
process supplies `evaluator.grading.workers.symbolic.compare_expressions` as the leaf.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from evaluator.grading import normal, shortcuts, structure
from evaluator.grading.types import (
    CHOICE,
    DIFFERENT,
    EXACT,
    NO_ANSWER,
    NO_GOLD,
    NUMERIC,
    SEVERAL,
    UNPARSABLE,
    WITHIN_TOLERANCE,
    GradeValue,
    Judged,
    Outcome,
)

Leaf = Callable[[str, str], Outcome]
Near = Callable[[Fraction, Fraction], bool]


class Means(NamedTuple):
    """What settles two parts: `leaf` settles algebra, `near` whether a number is close enough to the gold."""

    leaf: Leaf | None
    near: Near | None
    steps: list[None]  # grows by one with each pair of parts that is looked at

    def settle(self, gold: str, answer: str) -> Judged:
        """What arithmetic or else algebra says, None without algebra."""
        if self.near is None and (settled := shortcuts.settle(gold, answer)) is not None:
            return settled
        return self.leaf(gold, answer) if self.leaf is not None else None


_ZERO_GROUP = re.compile(r",0\d\d(?!\d)")
_PLAIN = re.compile(r"-?\d{1,18}(?:\.\d{1,18})?")
_MOST_STEPS = 4_000
_LONGEST_UNORDERED = 40
_DEEPEST = 12


def compare(gold: str, answer: str, leaf: Leaf | None = None, near: Near | None = None) -> Judged:
    """Grades an answer against a gold; None when that needs algebra and no `leaf` was given.

    `near` accepts numbers that differ from the gold's. An empty gold is unknown, an empty answer wrong.
    Texts longer than `normal.LONGEST_ANSWER` are unknown.
    """
    gold, answer = gold.strip(), answer.strip()
    if _PLAIN.fullmatch(gold) and _PLAIN.fullmatch(answer):
        return _compare_plain(gold, answer, near)
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
    means = Means(leaf, near, [])
    judged = _judge(tidy_gold, tidy_answer, means, 0)
    if judged is None or judged.value is GradeValue.CORRECT:
        return judged
    for other_gold, other_answer in _other_readings(gold, answer, tidy_gold, tidy_answer):
        other = _judge(other_gold, other_answer, means, 0)
        if other is None or other.value is GradeValue.CORRECT:
            return other
    return judged


def _compare_plain(gold: str, answer: str, near: Near | None) -> Outcome:
    if gold == answer:
        return EXACT
    if near is None and "." not in gold and "." not in answer:
        return NUMERIC if int(gold) == int(answer) else DIFFERENT
    first, second = normal.exact_number(gold), normal.exact_number(answer)
    assert first is not None
    assert second is not None
    return _compare_numbers(first, second, near)


def _compare_numbers(gold: normal.ExactNumber, answer: normal.ExactNumber, near: Near | None) -> Outcome:
    if normal.same_number(gold, answer):
        return NUMERIC
    return WITHIN_TOLERANCE if near is not None and near(gold.value, answer.value) else DIFFERENT


def _other_readings(gold: str, answer: str, tidy_gold: str, tidy_answer: str) -> Iterator[tuple[str, str]]:
    r"""What two unequal answers may have meant instead.

    `1,200` is one number, but two against a list; `1,5` is two, but 1.5 against a decimal; `(B) 42` is the
    letter, but 42 against what is none; `1/3 \approx 0.33` stands for 1/3, but for 0.33 against a decimal.
    """
    if "," in gold or "," in answer:
        listed_gold = normal.tidy(gold, join_thousands=False)
        listed_answer = normal.tidy(answer, join_thousands=False)
        apart = (listed_gold == tidy_gold) != (listed_answer == tidy_answer)
        if apart and not _ZERO_GROUP.search(listed_gold + " " + listed_answer):
            yield listed_gold, listed_answer
        for pair in ((tidy_gold, tidy_answer), (tidy_answer, tidy_gold)):
            point = normal.decimal_comma(pair[0])
            if point is not None and ("." in pair[1] or ",00" in pair[0]):
                yield (point, pair[1]) if pair[0] is tidy_gold else (pair[1], point)
    for option, other in ((tidy_gold, tidy_answer), (tidy_answer, tidy_gold)):
        labelled = structure.labelled_choice(option)
        if labelled is not None and structure.labelled_choice(other) is None:
            yield (labelled[1], other) if option is tidy_gold else (other, labelled[1])
    for pair in ((tidy_gold, tidy_answer), (tidy_answer, tidy_gold)):
        approximation = structure.approximation(pair[0])
        if approximation is not None and structure.approximation(pair[1]) is None:
            yield (approximation, pair[1]) if pair[0] is tidy_gold else (pair[1], approximation)


def too_long(answer: str) -> bool:
    """True for answers that are not read at all because of their length."""
    return len(answer) > normal.LONGEST_ANSWER and (
        len(answer) > 50 * normal.LONGEST_ANSWER or len(" ".join(answer.split())) > normal.LONGEST_ANSWER
    )


def _judge(gold: str, answer: str, means: Means, depth: int) -> Judged:
    if gold == answer:
        return EXACT
    means.steps.append(None)
    if depth > _DEEPEST or len(means.steps) > _MOST_STEPS:
        return UNPARSABLE
    gold, answer = structure.exact_part(gold), structure.exact_part(answer)
    if (choice := _judge_choice(gold, answer)) is not None:
        return choice
    if (sentence := _judge_sentence(gold, answer)) is not None:
        return sentence
    gold_list, answer_list = structure.solutions(gold), structure.solutions(answer)
    if len(gold_list) > 1 or len(answer_list) > 1:
        return _judge_lists(gold, answer, gold_list, answer_list, means, depth)
    if (words := _judge_words(gold, answer)) is not None:
        return words
    named = _judge_named(gold, answer, means, depth)
    if named is not None:
        return named[0]
    for judge in (_judge_matrices, _judge_brackets, _judge_unions):
        settled, judged = judge(gold, answer, means, depth)
        if settled:
            return judged
    return _judge_quantities(gold, answer, means, depth)


def _judge_choice(gold: str, answer: str) -> Judged:
    gold_letter, answer_letter = structure.choice_letter(gold), structure.choice_letter(answer)
    if gold_letter and answer_letter:
        return CHOICE if gold_letter == answer_letter else DIFFERENT
    for letter, other in ((gold_letter, answer), (answer_letter, gold)):
        if letter and (labelled := structure.labelled_choice(other)):
            return CHOICE if labelled[0] == letter else DIFFERENT
        if letter and structure.letter_in_front(other) == letter:
            return CHOICE
    several = structure.several_letters(gold)
    return CHOICE if several is not None and structure.several_letters(answer) == several else None


def _judge_sentence(gold: str, answer: str) -> Judged:
    """Settles a word or a name against a sentence about it; None when neither is a sentence."""
    if not structure.is_sentence(gold) and not structure.is_sentence(answer):
        return None
    words = [structure.words_of(text, wanted=True) or text for text in (gold, answer)]
    return EXACT if structure.same_words(*words) else None


def _judge_words(gold: str, answer: str) -> Judged:
    gold_words, answer_words = structure.words_of(gold), structure.words_of(answer)
    if gold_words is None and answer_words is None:
        return None
    gold_words = gold_words or structure.words_of(gold, wanted=True)
    answer_words = answer_words or structure.words_of(answer, wanted=True)
    if gold_words is not None and answer_words is not None:
        return EXACT if structure.same_words(gold_words, answer_words) else DIFFERENT
    words, other = (gold_words, answer) if gold_words is not None else (answer_words, gold)
    number = normal.exact_number(normal.split_unit(other)[0])
    if words in structure.NUMBER_WORDS and number is not None:
        return NUMERIC if number.value == structure.NUMBER_WORDS[words] else DIFFERENT
    return DIFFERENT


def _judge_named(gold: str, answer: str, means: Means, depth: int) -> tuple[Judged] | None:
    """Settles `x = 5` against `5`; None when neither side names its value."""
    gold_name, gold_value = structure.named_value(gold)
    answer_name, answer_value = structure.named_value(answer)
    if gold_value == gold and answer_value == answer:
        return None
    if gold_name and answer_name and gold_name != answer_name:
        # Two functions or coordinates with different names are told apart by algebra: y = x against x = y.
        return (means.settle(gold, answer),)
    if structure.has_relation(gold_value) or structure.has_relation(answer_value):
        gold = gold_value if r"\in" in gold else gold
        return (means.settle(gold, answer_value if r"\in" in answer else answer),)
    return (_judge(gold_value, answer_value, means, depth + 1),)


def _judge_lists(
    gold: str, answer: str, gold_list: list[str], answer_list: list[str], means: Means, depth: int
) -> Judged:
    if len(gold_list) == len(answer_list):
        gold_names = [structure.named_value(part)[0] for part in gold_list]
        answer_names = [structure.named_value(part)[0] for part in answer_list]
        ordered = len(set(filter(None, gold_names))) > 1 and not any(answer_names)
        ordered = ordered or (len(set(filter(None, answer_names))) > 1 and not any(gold_names))
        return _judge_members(gold_list, answer_list, means, depth, ordered=ordered)
    inequalities = any(
        all(map(structure.has_inequality, many)) for many in (gold_list, answer_list) if len(many) > 1
    )
    if inequalities and structure.is_region(gold) and structure.is_region(answer):
        return means.settle(gold, answer)
    for single, many, gold_first in ((gold, answer_list, True), (answer, gold_list, False)):
        if len(many) < 2:
            continue
        inner = structure.bracketed(structure.named_value(single)[1])
        # `\{1,2\}` is the list `1,2`; `(1,2)` without its parentheses must keep the order.
        if inner is not None and len(inner.elements) == len(many) and inner.pair in ("{}", "()"):
            first, second = (inner.elements, many) if gold_first else (many, inner.elements)
            return _judge_members(first, second, means, depth, ordered=inner.pair == "()")
    return SEVERAL if len(answer_list) > len(gold_list) else DIFFERENT


def _judge_matrices(gold: str, answer: str, means: Means, depth: int) -> tuple[bool, Judged]:
    gold_rows, answer_rows = structure.matrix_rows(gold), structure.matrix_rows(answer)
    if gold_rows is None or answer_rows is None:
        return False, None
    if [len(row) for row in gold_rows] != [len(row) for row in answer_rows]:
        return True, DIFFERENT
    gold_cells = [cell for row in gold_rows for cell in row]
    answer_cells = [cell for row in answer_rows for cell in row]
    return True, _judge_members(gold_cells, answer_cells, means, depth, ordered=True)


def _judge_brackets(gold: str, answer: str, means: Means, depth: int) -> tuple[bool, Judged]:
    gold_inner, answer_inner = structure.bracketed(gold), structure.bracketed(answer)
    gold_many = gold_inner is not None and len(gold_inner.elements) > 1
    answer_many = answer_inner is not None and len(answer_inner.elements) > 1
    if gold_inner is not None and answer_inner is not None and gold_many and answer_many:
        same = gold_inner.pair == answer_inner.pair and len(gold_inner.elements) == len(answer_inner.elements)
        if not same:
            return True, DIFFERENT
        ordered = gold_inner.pair != "{}"
        return True, _judge_members(gold_inner.elements, answer_inner.elements, means, depth, ordered=ordered)
    if gold_many or answer_many:
        plain = answer if gold_many else gold
        open_question = structure.has_relation(plain) or "\\cup" in plain or matrix_like(plain)
        return not open_question, DIFFERENT if not open_question else None
    for inner, other in ((gold_inner, answer), (answer_inner, gold)):
        # `\{5\}` is the set of the one answer 5, `(5)` is 5.
        if inner is not None and inner.pair in ("{}", "()") and any(inner.elements[:1]):
            pair = (inner.elements[0], other) if other is answer else (other, inner.elements[0])
            return True, _judge(*pair, means, depth + 1)
    return False, None


def matrix_like(text: str) -> bool:
    """True when a matrix environment stands in the text."""
    return r"\begin" in text


def _judge_unions(gold: str, answer: str, means: Means, depth: int) -> tuple[bool, Judged]:
    if r"\cup" not in gold or r"\cup" not in answer:
        return False, None
    gold_parts = structure.split_top(gold.replace(r"\cup", ";"), ";")
    answer_parts = structure.split_top(answer.replace(r"\cup", ";"), ";")
    if len(gold_parts) == len(answer_parts):
        judged = _judge_members(gold_parts, answer_parts, means, depth, ordered=False)
        if judged is not None and judged.value is GradeValue.CORRECT:
            return True, judged
    return False, None  # [0,1] with [1,2] may still equal [0,2]


def _judge_members(
    gold: Sequence[str], answer: Sequence[str], means: Means, depth: int, *, ordered: bool
) -> Judged:
    if len(gold) != len(answer):
        return DIFFERENT
    if not ordered:
        gold, answer = without_common(gold, answer)
    if ordered or len(gold) > _LONGEST_UNORDERED:
        return all_of([_judge(g, a, means, depth + 1) for g, a in zip(gold, answer, strict=True)])
    return matched([[_judge(g, a, means, depth + 1) for a in answer] for g in gold])


def _judge_quantities(gold: str, answer: str, means: Means, depth: int) -> Judged:
    gold_core, gold_full = normal.split_unit(gold)
    answer_core, answer_full = normal.split_unit(answer)
    (gold_scale, gold_unit), (answer_scale, answer_unit) = map(normal.scale_of, (gold_full, answer_full))
    if normal.units_conflict(gold_unit, answer_unit):
        return DIFFERENT
    if gold_full or answer_full:
        both = 1 not in (gold_scale, answer_scale) and gold_scale != answer_scale  # 3 million, 3 billion
        judged = DIFFERENT if both else _judge(gold_core, answer_core, means, depth + 1)
        if gold_scale == answer_scale or judged is None or judged.value is GradeValue.CORRECT:
            return judged
        wanted, number = normal.exact_number(gold_core), normal.exact_number(answer_core)
        if wanted is None or number is None:
            return judged
        value = number.value * answer_scale / gold_scale
        if value == wanted.value:
            return NUMERIC
        return WITHIN_TOLERANCE if means.near is not None and means.near(wanted.value, value) else DIFFERENT
    gold_number, answer_number = normal.exact_number(gold), normal.exact_number(answer)
    if gold_number is not None and answer_number is not None:
        return _compare_numbers(gold_number, answer_number, means.near)
    gold_base, answer_base = structure.number_in_base(gold), structure.number_in_base(answer)
    if gold_base is not None or answer_base is not None:
        return EXACT if gold_base == answer_base else DIFFERENT
    return means.settle(gold, answer)


_STRENGTH = {"exact": 0, "choice": 0, "numeric": 1, "symbolic": 2, "tolerance": 3}


def without_common(gold: Sequence[str], answer: Sequence[str]) -> tuple[list[str], list[str]]:
    """Both collections without the members that they spell alike."""
    common = Counter(gold) & Counter(answer)
    return _without(gold, common), _without(answer, common)


def _without(members: Sequence[str], common: Counter[str]) -> list[str]:
    left = Counter(common)
    rest = []
    for member in members:
        if left[member]:
            left[member] -= 1
        else:
            rest.append(member)
    return rest


def matched(judged: Sequence[Sequence[Judged]]) -> Judged:
    """The outcome of the best pairing, given the outcome of every row (gold) with every column (answer)."""
    correct = [
        [outcome is not None and outcome.value is GradeValue.CORRECT for outcome in row] for row in judged
    ]
    paired = pairing(correct)
    if paired is None:
        possible = [
            [outcome is None or outcome.value is not GradeValue.WRONG for outcome in row] for row in judged
        ]
        paired = pairing(possible)
    if paired is None:
        return DIFFERENT
    return all_of([judged[row][column] for row, column in enumerate(paired)])


def all_of(judged: Sequence[Judged]) -> Judged:
    """Wrong if any part is wrong, else open if any is open, else unknown if any is unknown, else correct."""
    closed = [part for part in judged if part is not None]
    if any(part.value is GradeValue.WRONG for part in closed):
        return DIFFERENT
    if len(closed) < len(judged):
        return None
    unknown = next((part for part in closed if part.value is GradeValue.UNKNOWN), None)
    return unknown or max(closed, key=lambda part: _STRENGTH.get(part.reason, 0), default=EXACT)


def pairing(allowed: Sequence[Sequence[bool]]) -> list[int] | None:
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
