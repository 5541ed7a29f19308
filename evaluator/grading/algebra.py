r"""Algebra on two expressions, by latex2sympy, sympy and math-verify. Runs in worker processes only.

math-verify decides. Its own time-outs use SIGALRM and are switched off; the pool's clock and memory limit
hold. Its known errors are fenced off: text is never multiplied out as variables, `3 4` is not a sum, `203_7`
is not 203, an equation never equals a number, equations without solutions are not all equal, and both
directions must agree.
"""

import logging
from fractions import Fraction
from functools import lru_cache
from typing import Any

import sympy
from latex2sympy2_extended.math_normalization import NormalizationConfig, normalize_latex
from math_verify import verify
from math_verify.parser import parse_latex_cached
from sympy.core.relational import Relational

from evaluator.grading.quantity import latex_of
from evaluator.grading.steps import Limit
from evaluator.grading.types import (
    DIFFERENT,
    ONE_UNPARSABLE,
    SYMBOLIC,
    TOO_LARGE,
    UNPARSABLE,
    WITHIN_TOLERANCE,
    Grade,
)

logging.getLogger("math_verify").setLevel(logging.ERROR)
logging.getLogger("latex2sympy2_extended").setLevel(logging.ERROR)

LARGEST_BITS = 200_000
"""Integers that would need more bits than this are not computed (a power tower has no useful value)."""

_NORMALIZATION = NormalizationConfig(
    basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none", equations=False
)
_PRECISION = 30
_CLEAR_GAP = 1e-5


class TooLargeError(Exception):
    """The expression holds an integer too large to compute."""


def compare_expressions(gold: str, answer: str, limit: Limit | None = None) -> Grade:
    """Grade one normalized expression against another; real numbers may differ by the limit.

    Correct only if the two are equal in both directions; unknown if neither can be read, or if a number in
    them is too large to compute.
    """
    try:
        first, second = parse(gold), parse(answer)
        if first is None or second is None:
            return UNPARSABLE if first is second else ONE_UNPARSABLE
        if _equal(first, second):
            return SYMBOLIC
        if limit is None:
            return DIFFERENT
        left, right = _real_value(first), _real_value(second)
        is_near = left is not None and right is not None and limit.allows(left, right)
        return WITHIN_TOLERANCE if is_near else DIFFERENT
    except TooLargeError:
        return TOO_LARGE
    except RecursionError:
        return UNPARSABLE


def _real_value(parsed: Any) -> Fraction | None:
    value = sympy.N(parsed, _PRECISION) if isinstance(parsed, sympy.Expr) else None
    return Fraction(str(value)) if isinstance(value, sympy.Float | sympy.Rational) else None


@lru_cache(maxsize=512)
def parse(text: str) -> Any:
    """The sympy object of a tidy expression, or None when it cannot be read as one.

    Raises TooLargeError for integers of more than `LARGEST_BITS` bits.
    """
    latex = latex_of(text)
    if latex is None:
        return None
    try:
        parsed = parse_latex_cached(normalize_latex(latex, _NORMALIZATION))
    except MemoryError:
        raise
    except Exception:  # latex2sympy raises bare Exception, AttributeError and others on what it cannot read
        return None
    if not isinstance(parsed, sympy.Basic | sympy.MatrixBase):
        return None
    # latex2sympy reads the i of 3 + 4i as a variable.
    parsed = parsed.xreplace({symbol: sympy.I for symbol in parsed.free_symbols if symbol.name == "i"})
    for part in parsed if isinstance(parsed, sympy.MatrixBase) else [parsed]:
        _estimate_bits(part)
    if isinstance(parsed, sympy.Basic) and parsed.has(sympy.nan, sympy.zoo):
        return None
    return parsed


def _estimate_bits(expression: Any) -> float:
    """Return a rough upper estimate of log2 |value| for constants; a symbol counts as one bit.

    Raises TooLargeError instead of an estimate above `LARGEST_BITS`.
    """
    if isinstance(expression, sympy.Rational):
        bits = float(max(abs(int(expression.p)).bit_length(), int(expression.q).bit_length()))
    elif isinstance(expression, sympy.Float):
        bits = abs(float(sympy.log(abs(expression), 2))) if expression else 0.0
    else:
        sizes = [_estimate_bits(argument) for argument in expression.args]
        largest = max(sizes, default=1.0)
        if isinstance(expression, sympy.Pow):
            is_rational = isinstance(expression.exp, sympy.Rational)
            power = abs(float(expression.exp)) if is_rational else 2.0 ** min(sizes[1], 64)
            bits = max(sizes[0], 1.0) * power if is_rational or expression.exp.is_number else largest
        elif isinstance(expression, sympy.factorial | sympy.factorial2 | sympy.gamma | sympy.subfactorial):
            bits = 2.0 ** min(largest, 64) * max(largest, 1.0)
        elif isinstance(expression, sympy.binomial | sympy.exp):
            bits = 1.5 * 2.0 ** min(largest, 64)
        else:
            bits = sum(sizes) if isinstance(expression, sympy.Add | sympy.Mul) else largest
    if bits > LARGEST_BITS:
        raise TooLargeError
    return bits


def _equal(first: Any, second: Any) -> bool:
    kinds = {_kind(first), _kind(second)}
    if "expression" in kinds and kinds & {"relation", "set"}:
        return False
    if kinds == {"relation"} and not _comparable(first, second):
        return False
    if kinds == {"expression"}:
        first, second = _evaluated(first), _evaluated(second)
        if first == second or _differ(first, second):
            return bool(first == second)
    return all(
        verify(*pair, allow_set_relation_comp=True, timeout_seconds=None)
        for pair in ((first, second), (second, first))
    )


def _kind(expression: Any) -> str:
    if isinstance(expression, sympy.MatrixBase | sympy.MatrixExpr):
        return "matrix"
    if isinstance(expression, sympy.Set | sympy.Tuple):
        return "set"
    if isinstance(expression, sympy.logic.boolalg.Boolean) and not isinstance(expression, sympy.Symbol):
        return "relation"
    return "expression"


def _evaluated(expression: Any) -> Any:
    try:
        return expression.doit()
    except (ArithmeticError, AttributeError, NotImplementedError, TypeError, ValueError):
        return expression


def _differ(first: Any, second: Any) -> bool:
    """Return whether the values of two expressions differ at a point, which is quick to find."""
    symbols = sorted(first.free_symbols | second.free_symbols, key=str)
    point = {symbol: sympy.Rational(37 + 22 * place, 100) for place, symbol in enumerate(symbols)}
    values = [sympy.N(side.subs(point), 20) for side in (first, second)]
    if not all(value.is_number and value.is_finite for value in values):
        return False
    return bool(abs(values[0] - values[1]) > _CLEAR_GAP * max(1, *map(abs, values)))


def _comparable(first: Any, second: Any) -> bool:
    """Return False for relations of something other than numbers, and for equations without solutions."""
    if not (isinstance(first, Relational) and isinstance(second, Relational)) or first == second:
        return True
    if not all(isinstance(side, sympy.Expr) for side in (*first.args, *second.args)):
        return False
    return not isinstance(first, sympy.Eq) or (_solvable(first) and _solvable(second))


def _solvable(equation: Any) -> bool:
    try:
        return bool(sympy.solve(equation, equation.free_symbols))
    except (NotImplementedError, TypeError, ValueError):
        return False
