r"""Algebra on two expressions, by latex2sympy, sympy and math-verify. Runs in worker processes only.

math-verify's own time-outs use SIGALRM and are switched off; the pool's clock and memory limit hold. Its
known errors are fenced off: text is never multiplied out as variables, `3 4` is not a sum, `203_7` is not
203, equations without solutions are not all equal, and both directions must agree.
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

from evaluator.grading import structure
from evaluator.grading.quantity import decimal_stands_for, exact_number, latex_of
from evaluator.grading.steps import Limit
from evaluator.grading.types import (
    DIFFERENT,
    ONE_UNPARSABLE,
    SYMBOLIC,
    TOO_LARGE,
    UNPARSABLE,
    WITHIN_TOLERANCE,
    Grade,
    GradeValue,
)

logging.getLogger("math_verify").setLevel(logging.ERROR)
logging.getLogger("latex2sympy2_extended").setLevel(logging.ERROR)

LARGEST_BITS = 200_000
"""Integers that would need more bits than this are not computed (a power tower has no useful value)."""

_NORMALIZATION = NormalizationConfig(
    basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none", equations=False
)
_POINTS = (0.37, -1.21, 2.73, -0.58, 1.93, 5.11, 0.11, 3.47)
_PRECISION = 30


class TooLargeError(Exception):
    """The expression holds an integer too large to compute."""


def compare_expressions(gold: str, answer: str, limit: Limit | None = None) -> Grade:
    """Grade one normalized expression against another; real numbers may differ by the limit.

    Correct only if the two are equal in both directions; unknown if neither can be read, or if a number in
    them is too large to compute.
    """
    try:
        grade = _compare(gold, answer)
        if limit is None or grade.value is GradeValue.CORRECT:
            return grade
        numbers = _real_value(gold), _real_value(answer)
        is_near = numbers[0] is not None and numbers[1] is not None and limit.allows(numbers[0], numbers[1])
        return WITHIN_TOLERANCE if is_near else grade
    except TooLargeError:
        return TOO_LARGE
    except RecursionError:
        return UNPARSABLE


def _compare(gold: str, answer: str) -> Grade:
    if len(structure.split_list(gold)) > 1 or len(structure.split_list(answer)) > 1:
        return _compare_regions(gold, answer)
    first, second = parse(gold), parse(answer)
    if first is None or second is None:
        return UNPARSABLE if first is second else ONE_UNPARSABLE
    return SYMBOLIC if _equal(first, second, gold, answer) else DIFFERENT


def _compare_regions(gold: str, answer: str) -> Grade:
    r"""Compare `x < 3 or x > 5` with `(-\infty, 3) \cup (5, \infty)`, both as sets of numbers."""
    regions = []
    for text in (gold, answer):
        parsed = [parse(structure.membership(part)) for part in structure.split_list(text)]
        if any(part is None or _kind(part) not in ("relation", "set") for part in parsed):
            return UNPARSABLE
        regions.append(sympy.Union(*[part if _kind(part) == "set" else _as_set(part) for part in parsed]))
    return SYMBOLIC if regions[0] == regions[1] else DIFFERENT


def _real_value(text: str) -> Fraction | None:
    parsed = parse(text)
    value = sympy.N(_evaluated(parsed), _PRECISION) if isinstance(parsed, sympy.Expr) else None
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


def _equal(first: Any, second: Any, gold: str, answer: str) -> bool:
    kinds = (_kind(first), _kind(second))
    if kinds == ("expression", "expression"):
        return _equal_expressions(first, second, gold, answer)
    if kinds == ("relation", "relation"):
        return _equal_relations(first, second)
    if set(kinds) == {"expression", "relation"}:
        return _equal_to_identity(first, second, gold, answer)
    if "set" in kinds and "expression" in kinds:
        return False
    return _verified(first, second)


def _verified(first: Any, second: Any) -> bool:
    """Return whether math-verify finds the two equal in both directions."""
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


def _equal_expressions(first: Any, second: Any, gold: str, answer: str) -> bool:
    first, second = _evaluated(first), _evaluated(second)
    if first == second:
        return True
    if first.is_Rational and second.is_Rational:
        return False
    symbols = sorted(first.free_symbols | second.free_symbols, key=str)
    if not symbols:
        return _equal_constants(first, second, gold, answer)
    complex_valued = first.has(sympy.I) or second.has(sympy.I)
    return _agree_at_points(first, second, symbols, complex_valued)


def _equal_to_identity(first: Any, second: Any, gold: str, answer: str) -> bool:
    """`e^{i\\pi} = -1` is a way of writing -1; `x + y = 5` is not a way of writing 5."""
    relation, expression = (first, second) if _kind(first) == "relation" else (second, first)
    if not isinstance(relation, sympy.Eq) or not all(isinstance(side, sympy.Expr) for side in relation.args):
        return False
    return _equal_expressions(relation.lhs, relation.rhs, "", "") and _equal_expressions(
        relation.rhs, expression, gold, answer
    )


def _evaluated(expression: Any) -> Any:
    """The expression worked out, its decimals as exact fractions."""
    exact = {number: sympy.Rational(str(number)) for number in expression.atoms(sympy.Float)}
    # latex2sympy reads the i of 3 + 4i as a variable.
    exact |= {symbol: sympy.I for symbol in expression.free_symbols if symbol.name == "i"}
    if exact:
        expression = expression.xreplace(exact)
    try:
        return expression.doit()
    except (ArithmeticError, AttributeError, NotImplementedError, TypeError, ValueError):
        return expression


def _equal_constants(first: Any, second: Any, gold: str, answer: str) -> bool:
    left, right = sympy.N(first, _PRECISION), sympy.N(second, _PRECISION)
    if not (left.is_number and right.is_number and left.is_finite and right.is_finite):
        return bool(left == right)
    scale = max(abs(left), abs(right))
    gap = abs(sympy.N(first - second, _PRECISION))
    if scale == 0 or gap <= scale * sympy.Float("1e-25", _PRECISION):
        return True
    for text, exact in ((gold, right), (answer, left)):
        number = exact_number(text)
        if number is not None and number.decimals and exact.is_real:
            return decimal_stands_for(number, Fraction(str(exact)))
    return False


def _agree_at_points(first: Any, second: Any, symbols: list[Any], complex_valued: bool) -> bool:
    """Equal at every point where both are defined, at four points or more (Schwartz-Zippel)."""
    agreed = 0
    for start in range(len(_POINTS)):
        values = {
            symbol: sympy.Rational(str(_POINTS[(start + shift * 3) % len(_POINTS)]))
            + sympy.Rational(shift, 7)
            for shift, symbol in enumerate(symbols)
        }
        left, right = (sympy.N(side.subs(values), 20) for side in (first, second))
        if not (left.is_number and right.is_number):
            break
        if not (left.is_finite and right.is_finite):
            continue
        if not complex_valued and not (left.is_real and right.is_real):
            continue
        if abs(left - right) > sympy.Float("1e-12") * max(1, abs(left), abs(right)):
            return False
        agreed += 1
    if agreed >= 4:
        return True
    return _verified(first, second)


def _equal_relations(first: Any, second: Any) -> bool:
    if isinstance(first, Relational) and isinstance(second, Relational) and first != second:
        if not all(isinstance(side, sympy.Expr) for side in (*first.args, *second.args)):
            return False
        if isinstance(first, sympy.Eq) and not (_solvable(first) and _solvable(second)):
            return False  # math-verify takes equations without solutions for equal
    return _verified(first, second)


def _solvable(equation: Any) -> bool:
    try:
        return bool(sympy.solve(equation, equation.free_symbols))
    except (NotImplementedError, TypeError, ValueError):
        return False


def _as_set(relation: Any) -> Any:
    parts = getattr(relation, "_unsorted_args", [relation])  # of a chain of inequalities
    return sympy.Intersection(*(part.as_set() for part in parts))
