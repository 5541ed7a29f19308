"""Settles two expressions without algebra where arithmetic or their form is enough. Pure."""

import re
from itertools import pairwise

from evaluator.grading import normal, numeric, regions, structure
from evaluator.grading.arithmetic import UnreadableError, tokens_of
from evaluator.grading.latex import latex_of
from evaluator.grading.outcomes import DIFFERENT, ONE_UNPARSABLE, SYMBOLIC, UNPARSABLE, Judged

_INFINITE = re.compile(r"[-+]? ?\\infty")


def settle(first: str, second: str) -> Judged:
    """The outcome that algebra would reach; None where only algebra can tell."""
    same = numeric.same_value(first, second)
    if same is None:
        same = regions.same_region(first, second)
    if same is not None:
        return SYMBOLIC if same else DIFFERENT
    for one, other in ((first, second), (second, first)):
        if _is_plain(one) and (judged := _against_plain(one, other)) is not None:
            return judged
    return UNPARSABLE if latex_of(first) is None and latex_of(second) is None else None


def _is_plain(text: str) -> bool:
    if normal.exact_number(text) is not None:
        return True
    try:
        return bool(tokens_of(text)) and numeric.has_value(text)
    except UnreadableError:
        return False


def _against_plain(plain: str, other: str) -> Judged:
    r"""A plain expression against what is not one: no mathematics, a matrix, an inequality, an equation.

    An equation stands for the value that all its sides have (`e^{i\pi} = -1` for -1).
    """
    if len(structure.split_list(other)) > 1:
        return None
    if structure.matrix_rows(other) is not None:
        return DIFFERENT
    if _INFINITE.fullmatch(other):
        return DIFFERENT
    if latex_of(other) is None:
        return ONE_UNPARSABLE
    if not structure.has_relation(other):
        return None
    sides = structure.sides(other)
    if len(sides) > 1 and not structure.has_inequality(other):
        sides = [*map(str.strip, sides), plain]
        same = [numeric.same_value(one, next_one) for one, next_one in pairwise(sides)]
        return DIFFERENT if False in same else SYMBOLIC if all(same) else None
    inequality = len(sides) == 1 and structure.has_inequality(other) and normal.exact_number(plain)
    return DIFFERENT if inequality and r"\in" not in other else None
