r"""Compares expressions of plain arithmetic by their values to 50 digits. Pure.

Constants that agree to 25 digits are equal; expressions in variables are equal when they agree at four points
or more (Schwartz-Zippel) and differ when they do at one. These are the rules of `algebra` without its cost.
What could be read in two ways (`1/2x`, `3\frac{1}{2}`, `f(x)`) or is not plain arithmetic is left to algebra.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import mpmath

_TOKEN = re.compile(
    r" *(?:(?P<number>\d+(?:\.\d+)?|\.\d+)|(?P<command>\\(?:frac|sqrt|pi|cdot|times)(?![A-Za-z]))"
    r"|(?P<letter>[A-Za-z](?:_(?:[A-Za-z0-9]|\{[A-Za-z0-9]\}))?)|(?P<sign>[-+*/^(){}\[\]]))"
)
_DIGITS = 50
_SAME = 1e-25
_CANCELLED = 1e-12
"""A sum that is smaller than its terms by this factor has lost too many digits."""
_SMALLEST_GAP = 2e-6
"""A decimal may stand for a number that it rounds at the sixth place; see `quantity.same_number`."""
_TINY = 1e-60
_LARGEST_POWER = 300
_LONGEST = 300
_LONGEST_PRODUCT = 3
_DEEPEST = 25
_CLOSING = {"(": ")", "{": "}", "[": "]"}
_FACTORS = ("(", "\\sqrt", "\\pi", "\\frac")
_POINTS = ("0.618034", "-1.324718", "2.236068", "-0.434627", "1.732051", "5.146264", "0.130395", "3.4716")
_FEWEST_POINTS = 4
_FEW_DIGITS = 12

Token = tuple[str, str]


class UnreadableError(Exception):
    """The text holds something other than plain arithmetic, or has no value at this point."""


def same_value(first: str, second: str) -> bool | None:
    """Return whether two normalized expressions have the same value; None when arithmetic cannot tell."""
    if max(len(first), len(second)) > _LONGEST:
        return None
    try:
        sides = _tokens_of(first), _tokens_of(second)
    except UnreadableError:
        return None
    letters = [{text for kind, text in side if kind == "letter"} - {"e", "i"} for side in sides]
    names = sorted(letters[0] | letters[1])
    agreed = 0
    with mpmath.workdps(_DIGITS):
        for start in range(len(_POINTS) if names else 1):
            point = {
                name: mpmath.mpf(_POINTS[(start + 3 * place) % len(_POINTS)]) + place // len(_POINTS)
                for place, name in enumerate(names)
            }
            left, right = (_value_at(side, point) for side in sides)
            if left is None and right is None:
                continue  # undefined at this point, or unreadable everywhere
            if left is None or right is None:
                return None
            gap, size = abs(left - right), max(abs(left), abs(right))
            if gap > _SMALLEST_GAP + size * 1e-8:
                return False
            if gap > size * _SAME:
                return None
            agreed += 1
    if not names:  # rational numbers of few digits that differ at all differ by more than 1e-25
        return True if agreed and all(map(_decides, sides)) else None
    return True if agreed >= _FEWEST_POINTS and letters[0] == letters[1] else None


def _tokens_of(text: str) -> list[Token]:
    """Return (kind, text) tokens; raise UnreadableError for anything but arithmetic."""
    tokens: list[Token] = []
    position, run = 0, 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise UnreadableError
        kind = str(match.lastgroup)
        token = match[kind]
        run = run + 1 if kind == "letter" else 0
        # Euler's number or a name, the imaginary unit; a word; a differential.
        name = kind == "letter" and (token in "EI" or run > _LONGEST_PRODUCT)
        if name or (run > 1 and tokens[-1][1] == "d"):
            raise UnreadableError
        tokens.append((kind, token.lower() if kind == "letter" else token))  # as latex2sympy reads them
        position = match.end()
    return tokens


def _value_at(tokens: Sequence[Token], point: Mapping[str, Any]) -> Any:
    """Return the value at a point, None if there is none."""
    try:
        return _Reader(tokens, point).value()
    except (UnreadableError, ArithmeticError):
        return None


def _decides(tokens: Sequence[Token]) -> bool:
    """Return whether 25 equal digits are proof: a constant is irrational, or rational with few digits."""
    if any(token in ("\\sqrt", "\\pi", "e") or kind == "letter" for kind, token in tokens):
        return True
    digits = sum(len(token) for kind, token in tokens if kind == "number")
    return digits <= _FEW_DIGITS and ("sign", "^") not in tokens


class _Reader:
    """A recursive descent over tokens, with a value for each variable."""

    def __init__(self, tokens: Sequence[Token], point: Mapping[str, Any]) -> None:
        self._tokens = [*tokens, ("end", "")]
        self._values = {"e": mpmath.e, "i": mpmath.mpc(0, 1)} | dict(point)
        self._at = 0
        self._depth = 0

    def _peek(self) -> Token:
        return self._tokens[self._at]

    def _take(self, *wanted: str) -> bool:
        matches = self._peek()[1] in wanted
        self._at += matches
        return matches

    def value(self, closing: str = "") -> Any:
        """Return the value up to a closing bracket or the end; raise UnreadableError or ArithmeticError."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UnreadableError
        total = self._sign() * self._product()
        while self._peek()[1] in ("+", "-"):
            term = self._sign() * self._product()
            largest, total = max(abs(total), abs(term)), total + term
            if total and abs(total) < largest * _CANCELLED:
                raise UnreadableError
        self._depth -= 1
        if not self._take(closing):
            raise UnreadableError
        return total

    def _sign(self) -> int:
        sign = 1
        while (token := self._peek()[1]) in ("+", "-"):
            sign *= -1 if token == "-" else 1
            self._at += 1
        return sign

    def _product(self) -> Any:
        result = self._power()
        divided = False
        while True:
            before = self._tokens[self._at - 1]
            kind, token = self._peek()
            if self._take("*", "\\cdot", "\\times"):
                result *= self._power()
            elif self._take("/"):
                divided = True
                result = _divide(result, self._power())
            elif kind in ("number", "letter") or token in _FACTORS:
                mixed = before[0] == "number" and token in ("\\frac", "(")
                called = before[0] == "letter" and before[1] != "i" and token == "("
                if kind == "number" or mixed or called or divided:
                    raise UnreadableError  # x2, 3\frac12, 2(3), f(x), 1/2x
                result *= self._power()
            else:
                return result

    def _power(self) -> Any:
        base = self._atom()
        if not self._take("^"):
            return base
        kind, token = self._peek()
        if token != "{" and kind not in ("number", "letter"):
            raise UnreadableError
        exponent = self._atom()
        if self._peek()[1] == "^":
            raise UnreadableError
        return _raise(base, exponent)

    def _group(self, opening: str) -> Any:
        if not self._take(opening):
            raise UnreadableError
        return self.value(_CLOSING[opening])

    def _atom(self) -> Any:
        kind, token = self._peek()
        if token in ("(", "{"):
            return self._group(token)
        self._at += 1
        if kind == "number":
            return mpmath.mpf("0" + token)  # mpmath does not read ".0"
        if kind == "letter":
            return +self._values[token]
        if token == "\\pi":
            return +mpmath.pi
        if token == "\\frac":
            return _divide(self._group("{"), self._group("{"))
        if token == "\\sqrt":
            degree = self._group("[") if self._peek()[1] == "[" else 2
            base = self._group("{")
            return _raise(base, _divide(mpmath.mpf(1), degree)) if base else base
        raise UnreadableError


def _divide(left: Any, right: Any) -> Any:
    if abs(right) < _TINY:
        raise UnreadableError
    return left / right


def _raise(base: Any, exponent: Any) -> Any:
    if exponent.imag or abs(exponent) > _LARGEST_POWER:
        raise UnreadableError
    whole = int(exponent.real)
    if exponent == whole:
        if whole <= 0 and abs(base) < _TINY:
            raise UnreadableError
        return base**whole
    if base.imag or base.real <= _TINY:
        raise UnreadableError
    return base.real**exponent.real
