r"""Settles two expressions without algebra where arithmetic or their form is enough. Pure.

Arithmetic compares values; intervals and their unions with plain end points are compared as sets
(`[0,1]\cup[1,2]` is `[0,2]`, and `(0,9)\cup(9,36)` is not `(0,36)`); a plain number is no matrix, inequality
or word. End points that are no constants are left to algebra.
"""

import re
from fractions import Fraction
from itertools import pairwise

from evaluator.grading import normal, structure
from evaluator.grading.arithmetic import constant, is_arithmetic, same_value
from evaluator.grading.types import DIFFERENT, ONE_UNPARSABLE, SYMBOLIC, UNPARSABLE, Judged

_INFINITE = re.compile(r"([-+]?) ?\\infty")
# A place on the line: a number (infinite ones by their first part) and 0 before it, 1 after it.
_Cut = tuple[int, Fraction, int]


def settle(first: str, second: str) -> Judged:
    """The outcome that algebra would reach; None where only algebra can tell."""
    same = same_value(first, second)
    if same is None:
        same = same_region(first, second)
    if same is not None:
        return SYMBOLIC if same else DIFFERENT
    for plain, other in ((first, second), (second, first)):
        if is_arithmetic(plain) and (judged := _against_plain(plain, other)) is not None:
            return judged
    return UNPARSABLE if latex_of(first) is None and latex_of(second) is None else None


def _against_plain(plain: str, other: str) -> Judged:
    r"""A plain expression against what is not one: no mathematics, a matrix, an inequality, an equation.

    An equation stands for the value that all its sides have (`e^{i\pi} = -1` for -1).
    """
    if len(structure.split_list(other)) > 1:
        return None
    if structure.matrix_rows(other) is not None or _INFINITE.fullmatch(other):
        return DIFFERENT
    if latex_of(other) is None:
        return ONE_UNPARSABLE
    if not structure.has_relation(other):
        return None
    sides = structure.sides(other)
    if len(sides) > 1 and not structure.has_inequality(other):
        same = [same_value(left, right) for left, right in pairwise([*map(str.strip, sides), plain])]
        return DIFFERENT if False in same else SYMBOLIC if all(same) else None
    inequality = len(sides) == 1 and structure.has_inequality(other) and normal.exact_number(plain)
    return DIFFERENT if inequality and r"\in" not in other else None


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
    if infinite := _INFINITE.fullmatch(text):
        return (-1 if infinite.group(1) == "-" else 1, Fraction(0), 0)
    number = constant(text)
    return (0, number, int(after)) if number is not None else None


_FUNCTIONS = (
    "sqrt", "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh",
    "tanh", "log", "ln", "exp", "lim", "max", "min", "gcd", "lcm", "pi", "theta", "alpha", "beta",
    "gamma", "phi", "infty", "det", "mod", "binom",
)  # fmt: skip
_BARE_FUNCTION = re.compile(rf"(?<![A-Za-z\\])({'|'.join(_FUNCTIONS)})(?![a-z])")
_WORD = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{4,}")
_PRODUCT = re.compile(r"(?<![_^\d.])(\d+(?:\.\d+)?) ?\((?=[-\d.\\])")  # 2(3) would be read as 2 + 3
_BINOMIAL = re.compile(r"\\[td]?binom ?(\{[^{}]*\}|[A-Za-z\d]) ?(\{[^{}]*\}|[A-Za-z\d])")
_TIMES_BINOMIAL = re.compile(r"(?<!\\log_\{\w\})(?<=[\d)}\]]) ?(?=\(?\\[td]?binom)")  # another sum to it
_DIGIT_GAP = re.compile(r"(?<!_)[\d.] +[\d.]")
_DIGIT_BASE = re.compile(r"\d_")


def latex_of(text: str) -> str | None:
    r"""A tidy answer as latex2sympy should get it; None when it cannot be read as mathematics.

    Fences off what latex2sympy reads wrongly: words as products of letters, `3 4` as a sum, `203_7` as 203,
    and `2(3)` and `2\binom{3}{1}` as 2 + 3.
    """
    latex = _BARE_FUNCTION.sub(lambda match: f"\\{match.group(1)} ", text)
    latex = re.sub(r"\\text\{([A-Za-z])\}", r"\1", latex)
    latex = re.sub(r"\\log ?_(\w) ?", r"\\log_{\1} ", latex)
    latex = _TIMES_BINOMIAL.sub(r"\\cdot ", _BINOMIAL.sub(_braced_binomial, latex))
    latex = _PRODUCT.sub(r"\1\\cdot (", latex)
    latex = re.sub(r"\\sqrt ?\(([^()]*)\)", r"\\sqrt{\1}", latex).replace("\\pi ", "\\pi  ")
    if _DIGIT_GAP.search(latex) or _DIGIT_BASE.search(latex) or _WORD.search(_without_commands(latex)):
        return None
    if r"\text" in latex or latex.count("{") != latex.count("}") or "'" in latex:
        return None
    return latex


def _braced_binomial(match: re.Match[str]) -> str:
    top, bottom = (part if part.startswith("{") else f"{{{part}}}" for part in match.groups())
    return rf"\binom{top}{bottom}"


def _without_commands(latex: str) -> str:
    return re.sub(r"\\(?:begin|end) ?\{[a-z]+\}|\\[A-Za-z]+", " ", latex)
