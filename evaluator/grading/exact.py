r"""Steps that compare exactly: letters of options, words, lists, names, matrices, brackets, unions.

They settle the structure, so that a list never equals one of its members and words are never multiplied out
as variables. They leave single numbers, quantities and expressions to `quantity`.
"""

import re

from evaluator.grading import structure
from evaluator.grading.normalize import normalize, too_long
from evaluator.grading.quantity import compare_expressions, exact_number, split_unit
from evaluator.grading.steps import PartComparison, Step
from evaluator.grading.types import CHOICE, DIFFERENT, EXACT, NUMERIC, SEVERAL, Grade

_LETTERS = re.compile(r"(?<![A-Za-z\\])(?:\\text ?\{ ?)?\(?([A-J])\)?(?![A-Za-z])(?! ?=)")
_LONE_LETTER = re.compile(r"\(?([A-Ja-j])\)?[.:)]?")
_LETTERS_IN_A_ROW = re.compile(r"(?:\([A-J]\) ?){2,}|(?:[A-J][.):] ?){2,}[A-J]")
# An option and its text, which begins with no label and no initial, and names no option in parentheses.
_LABELLED_PART = re.compile(r"(\(?)([A-J])([.):])(?:(?:(?<=\)) ?| )(?!\(?[A-Z][.)])(?:(?!\([A-J]\)).)*)?")
_NAMED_CHOICE = re.compile(r"(?:option|choice|answer)s?:? ?(.+)", re.IGNORECASE)


def choice_letters(text: str) -> list[str]:
    """Return the different letters that an answer names, in order, without looking into options' texts."""
    if too_long(text):
        return []
    text = normalize(text)
    words = " ".join(re.sub(r"\\text\{|[{}]", " ", text).split())
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
    """Return the options of a list of nothing else, all labelled in one way.

    The C of `(B) A, C` is text, and so is everything after the D of `(D) both (A) and (C)`.
    """
    if _LETTERS_IN_A_ROW.fullmatch(words):
        return list(dict.fromkeys(re.findall("[A-J]", words)))
    parts = structure.split_list(words)
    if all(_LONE_LETTER.fullmatch(part) for part in parts):
        return list(dict.fromkeys(part.strip("().:").upper() for part in parts))
    labelled = [part for part in map(_LABELLED_PART.fullmatch, parts) if part is not None]
    alike = len(labelled) == len(parts) > 1 and len({each[1] + each[3] for each in labelled}) == 1
    return list(dict.fromkeys(each[2] for each in labelled)) if alike else []


def compare_exact_parts(gold: str, answer: str, comparison: PartComparison) -> Grade | None:
    r"""`1/3 \approx 0.33` is compared as `1/3`."""
    sides = structure.approximated(gold), structure.approximated(answer)
    if sides == (None, None):
        return None
    return comparison.compare(sides[0][0] if sides[0] else gold, sides[1][0] if sides[1] else answer)


def compare_choices(gold: str, answer: str, _: PartComparison) -> Grade | None:
    """Compare letters of options, alone or in front of the option's text."""
    letters = structure.choice_letter(gold), structure.choice_letter(answer)
    if all(letters):
        return CHOICE if letters[0] == letters[1] else DIFFERENT
    for letter, other in ((letters[0], answer), (letters[1], gold)):
        if letter and (labelled := structure.labelled_choice(other)):
            return CHOICE if labelled[0] == letter else DIFFERENT
    return None


def compare_sentences(gold: str, answer: str, _: PartComparison) -> Grade | None:
    """Accept a word or a name against a sentence about it."""
    if not structure.is_sentence(gold) and not structure.is_sentence(answer):
        return None
    words = [structure.words_of(text, wanted=True) or text for text in (gold, answer)]
    return EXACT if structure.same_words(*words) else None


def compare_lists(gold: str, answer: str, comparison: PartComparison) -> Grade | None:
    """Compare lists in any order, unless names or parentheses on one side give the order."""
    golds, answers = structure.solutions(gold), structure.solutions(answer)
    if len(golds) < 2 and len(answers) < 2:
        return None
    if len(golds) == len(answers):
        names = [{structure.named_value(part)[0] for part in parts} - {None} for parts in (golds, answers)]
        ordered = sorted(map(len, names))[0] == 0 and sorted(map(len, names))[1] > 1
        return comparison.compare_members(golds, answers, ordered=ordered)
    inequalities = any(all(map(structure.has_inequality, many)) for many in (golds, answers) if len(many) > 1)
    if inequalities and structure.is_region(gold) and structure.is_region(answer):
        return compare_expressions(gold, answer, comparison)
    for single, many in ((gold, answers), (answer, golds)):
        inner = structure.bracketed(structure.named_value(single)[1])
        # `\{1,2\}` is the list `1,2`; `(1,2)` without its parentheses must keep the order.
        if inner is not None and len(inner.elements) == len(many) > 1 and inner.pair in ("{}", "()"):
            both = (inner.elements, many) if many is answers else (many, inner.elements)
            return comparison.compare_members(*both, ordered=inner.pair == "()")
    return SEVERAL if len(answers) > len(golds) else DIFFERENT


def compare_words(gold: str, answer: str, _: PartComparison) -> Grade | None:
    """Compare words with words, and number words with numbers."""
    if structure.words_of(gold) is None and structure.words_of(answer) is None:
        return None
    words = [structure.words_of(text, wanted=True) for text in (gold, answer)]
    if words[0] is not None and words[1] is not None:
        return EXACT if structure.same_words(words[0], words[1]) else DIFFERENT
    spelled, other = (words[0], answer) if words[0] is not None else (words[1], gold)
    number = exact_number(split_unit(other)[0])
    same = number is not None and number.value == structure.NUMBER_WORDS.get(spelled or "")
    return NUMERIC if same else DIFFERENT


def compare_named(gold: str, answer: str, comparison: PartComparison) -> Grade | None:
    """Compare `x = 5` with `5`."""
    gold_name, gold_value = structure.named_value(gold)
    answer_name, answer_value = structure.named_value(answer)
    if gold_value == gold and answer_value == answer:
        return None
    if gold_name and answer_name and gold_name != answer_name:
        # Algebra tells functions and coordinates with different names apart: y = x and x = y.
        return compare_expressions(gold, answer, comparison)
    if structure.has_relation(gold_value) or structure.has_relation(answer_value):
        sets = structure.membership(gold), structure.membership(answer)
        return compare_expressions(*sets, comparison)
    return comparison.compare(gold_value, answer_value)


def compare_matrices(gold: str, answer: str, comparison: PartComparison) -> Grade | None:
    """Compare matrices cell by cell."""
    gold_rows, answer_rows = structure.matrix_rows(gold), structure.matrix_rows(answer)
    if gold_rows is None or answer_rows is None:
        return None
    if [len(row) for row in gold_rows] != [len(row) for row in answer_rows]:
        return DIFFERENT
    cells = [[cell for row in rows for cell in row] for rows in (gold_rows, answer_rows)]
    return comparison.compare_members(*cells, ordered=True)


def compare_brackets(gold: str, answer: str, comparison: PartComparison) -> Grade | None:
    """Compare tuples, intervals and sets; brackets around a single value do not count."""
    inner = structure.bracketed(gold), structure.bracketed(answer)
    first, second = inner
    many = [each is not None and len(each.elements) > 1 for each in inner]
    if first is not None and second is not None and all(many):
        if first.pair != second.pair or len(first.elements) != len(second.elements):
            return DIFFERENT
        return comparison.compare_members(first.elements, second.elements, ordered=first.pair != "{}")
    if any(many):
        other = answer if many[0] else gold
        is_open = structure.has_relation(other) or "\\cup" in other or r"\begin" in other
        return None if is_open else DIFFERENT
    for each, is_gold in ((first, True), (second, False)):
        # `\{5\}` is the set of the one answer 5, `(5)` is 5.
        if each is not None and each.pair in ("{}", "()") and any(each.elements[:1]):
            value = each.elements[0]
            return comparison.compare(value, answer) if is_gold else comparison.compare(gold, value)
    return None


STEPS: tuple[Step, ...] = (
    compare_exact_parts,
    compare_choices,
    compare_sentences,
    compare_lists,
    compare_words,
    compare_named,
    compare_matrices,
    compare_brackets,
)
