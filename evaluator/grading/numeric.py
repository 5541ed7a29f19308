r"""Compares two expressions by their values to 50 digits. Pure arithmetic on decimals, no sympy.

Constants that agree to 25 digits are equal; expressions in variables are equal when they agree at four points
or more (Schwartz-Zippel) and differ when they do at one. These are the rules of `symbolic` without its cost.
Bounds on the error are carried along, and what could be read in two ways (`1/2x`, `3\frac{1}{2}`, `f(x)`) or
is not plain arithmetic is left to algebra.
"""

import decimal
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

from evaluator.grading import normal
from evaluator.grading.arithmetic import Reader, Token, UnreadableError, Value, tokens_of

_CONTEXT = decimal.Context(prec=50, Emax=400, Emin=-400, traps=[decimal.InvalidOperation, decimal.Overflow])
_LONGEST = 300
_POINTS = tuple(
    map(
        Decimal,
        ("0.618034", "-1.324718", "2.236068", "-0.434627", "1.732051", "5.146264", "0.130395", "3.4716"),
    )
)
_FEWEST_POINTS = 4
_FEW_DIGITS = 12
_SAME = Decimal("1e-25")
_SMALLEST_GAP = Decimal("2e-6")
"""A decimal may stand for a number that it rounds at the sixth place; see `normal.same_number`."""


def same_value(first: str, second: str) -> bool | None:
    """Whether two tidy expressions have the same value; None when arithmetic cannot say."""
    if max(len(first), len(second)) > _LONGEST:
        return None
    try:
        left, right = tokens_of(first), tokens_of(second)
    except UnreadableError:
        return None
    letters = [{text for kind, text in side if kind == "letter"} - {"e", "i"} for side in (left, right)]
    names = sorted(letters[0] | letters[1])
    agreed = 0
    with decimal.localcontext(_CONTEXT):
        for start in range(len(_POINTS) if names else 1):
            point = {
                name: _POINTS[(start + 3 * place) % len(_POINTS)] + place // len(_POINTS)
                for place, name in enumerate(names)
            }
            values = [_at(side, point) for side in (left, right)]
            if values[0] is None and values[1] is None:
                continue  # not defined here, or not readable anywhere
            if values[0] is None or values[1] is None:
                return None  # one is defined where the other is not
            same = _same(values[0], values[1])
            if same is not True:
                return same
            agreed += 1
    if not names:  # rational numbers of few digits that differ at all differ by more than 1e-25
        return True if agreed and all(_decides(side) for side in (left, right)) else None
    return True if agreed >= _FEWEST_POINTS and letters[0] == letters[1] else None


def _at(side: Sequence[Token], point: Mapping[str, Decimal]) -> Value | None:
    try:
        return Reader(side, point).value()
    except (UnreadableError, ArithmeticError):
        return None


def constant(text: str) -> Fraction | None:
    """The value of a tidy real constant to 30 digits, exactly where it is plain; None for anything else."""
    if (number := normal.exact_number(text)) is not None:
        return number.value
    try:
        with decimal.localcontext(_CONTEXT):
            value = Reader(tokens_of(text), {}).value()
            certain = not value.imag and value.error <= value.size * _SAME
            return Fraction(round(value.real, 30)) if certain else None
    except (UnreadableError, ArithmeticError, KeyError):
        return None


def has_value(text: str) -> bool:
    """True when the whole text is plain arithmetic."""
    try:
        tokens = tokens_of(text)
        point = {token: _POINTS[3] + place for place, (kind, token) in enumerate(tokens) if kind == "letter"}
        with decimal.localcontext(_CONTEXT):
            Reader(tokens, point).value()
    except (UnreadableError, ArithmeticError):
        return False
    return True


def _decides(tokens: list[Token]) -> bool:
    """Whether 25 equal digits are proof: constants are irrational, or rational with few digits."""
    if any(token in ("\\sqrt", "\\pi", "\\ln", "e") or kind == "letter" for kind, token in tokens):
        return True
    digits = sum(len(token) for kind, token in tokens if kind in ("number", "fraction"))
    powers = any(token in ("^", "!") for _, token in tokens)
    return not powers and digits <= _FEW_DIGITS


def _same(left: Value, right: Value) -> bool | None:
    gap = abs(left.real - right.real) + abs(left.imag - right.imag)
    size = max(left.size, right.size)
    error = left.error + right.error
    if gap > _SMALLEST_GAP + size * Decimal("1e-8") + 10 * error:
        return False
    return True if gap <= size * _SAME and error <= size * _SAME else None
