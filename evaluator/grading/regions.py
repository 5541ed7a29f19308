r"""Compares intervals and their unions with plain end points. Pure.

`[0,1]\cup[1,2]` is `[0,2]`, and `(0,9)\cup(9,36)` is not `(0,36)`. End points that
are no constants are left to algebra.
"""

import re
from fractions import Fraction

from evaluator.grading import numeric, structure

_INFINITE = re.compile(r"([-+]?) ?\\infty")
# A place on the line: a number (infinite ones by their first part) and 0 before it, 1 after it.
_Cut = tuple[int, Fraction, int]


def same_region(first: str, second: str) -> bool | None:
    """Whether two tidy unions of intervals are the same set; None when one of them cannot be read here."""
    if not any(bracket in text for text in (first, second) for bracket in "[("):
        return None
    left = _region(first)
    right = _region(second) if left is not None else None
    if left is None or right is None or not (left or right):
        return None
    return left == right


def _region(text: str) -> list[tuple[_Cut, _Cut]] | None:
    intervals = []
    for part in structure.split_top(structure.membership(text).replace(r"\cup", ";"), ";"):
        interval = _interval(part)
        if interval is None:
            return None
        intervals.append(interval)
    joined: list[tuple[_Cut, _Cut]] = []
    for start, end in sorted(interval for interval in intervals if interval[0] < interval[1]):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _interval(text: str) -> tuple[_Cut, _Cut] | None:
    inner = structure.bracketed(text)
    if inner is None or len(inner.elements) != 2 or inner.pair not in ("[]", "()", "[)", "(]"):
        return None
    start = _end_point(inner.elements[0], after=inner.pair[0] == "(")
    end = _end_point(inner.elements[1], after=inner.pair[1] == "]")
    return (start, end) if start is not None and end is not None else None


def _end_point(text: str, *, after: bool) -> _Cut | None:
    if found := _INFINITE.fullmatch(text):
        return (-1 if found.group(1) == "-" else 1, Fraction(0), 0)
    number = numeric.constant(text)
    return (0, number, int(after)) if number is not None else None
