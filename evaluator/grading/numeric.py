r"""Tells that two expressions differ, by their values at a few points. Pure arithmetic on floats, no sympy.

Only "certainly different" or "cannot say" comes out of here: equality is left to algebra. Errors of rounding
are carried along, and whatever could be read in two ways (`1/2x`, `3\frac{1}{2}`, `f(x)`) is not read at all.
"""

import cmath
import math
import re
from typing import NamedTuple

_TOKEN = re.compile(
    r" *(?:(?P<number>\d+(?:\.\d+)?|\.\d+)|(?P<command>\\(?:frac|sqrt|pi|cdot|times)(?![A-Za-z]))"
    r"|(?P<letter>[A-Za-z])|(?P<sign>[-+*/^(){}!\[\]]))"
)
_EPS = 4e-16
_LARGEST = 1e150
_LONGEST = 300
_DEEPEST = 25
_POINTS = (0.6180339887, 1.3247179572, 2.2360679775, 0.8346268417, 3.1462643699)
_SMALLEST_GAP = 2e-6
"""A decimal may stand for a number that it rounds at the sixth place; see `normal.same_number`."""


class Value(NamedTuple):
    """A complex number and a bound on its error."""

    number: complex
    error: float


class UnreadableError(Exception):
    """The text holds what is not read here."""


def differ(first: str, second: str) -> bool:
    """True when two tidy expressions certainly have different values; False when that cannot be said."""
    if max(len(first), len(second)) > _LONGEST:
        return False
    try:
        sides = _tokens(first), _tokens(second)
        letters = sorted({text for side in sides for kind, text in side if kind == "letter"} - {"e", "i"})
        complex_valued = any(("letter", "i") in side for side in sides)
        for start in range(len(_POINTS) if letters else 1):
            point = {
                letter: _POINTS[(start + 2 * place) % len(_POINTS)] + place // len(_POINTS)
                for place, letter in enumerate(letters)
            }
            left, right = (_Reader(side, point).value() for side in sides)
            if not complex_valued and (abs(left.number.imag) > 0 or abs(right.number.imag) > 0):
                continue
            if _apart(left, right):
                return True
    except (UnreadableError, ArithmeticError, ValueError):
        pass
    return False


def _apart(left: Value, right: Value) -> bool:
    gap = abs(left.number - right.number)
    size = max(abs(left.number), abs(right.number))
    return gap > _SMALLEST_GAP + 1e-8 * size + 10 * (left.error + right.error)


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, position = [], 0
    text = text.rstrip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise UnreadableError
        kind = str(found.lastgroup)
        token = found[kind]
        if kind == "letter":
            if token in "EId":
                raise UnreadableError  # Euler's number or a name, the imaginary unit, a differential
            token = token.lower()  # as latex2sympy reads them
        tokens.append((kind, token))
        position = found.end()
    run = 0
    for kind, _ in tokens:
        run = run + 1 if kind == "letter" else 0
        if run >= 4:
            raise UnreadableError  # a word
    return tokens


class _Reader:
    """A recursive descent over tokens at one point."""

    def __init__(self, tokens: list[tuple[str, str]], point: dict[str, float]) -> None:
        self._tokens = tokens
        self._point = point
        self._at = 0
        self._depth = 0

    def value(self) -> Value:
        result = self._sum()
        if self._at < len(self._tokens):
            raise UnreadableError
        return result

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", "")

    def _take(self, wanted: str) -> None:
        if self._peek()[1] != wanted:
            raise UnreadableError
        self._at += 1

    def _sum(self) -> Value:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UnreadableError
        sign = self._sign()
        total = _scaled(self._product(), sign)
        while self._peek()[1] in ("+", "-"):
            sign = self._sign()
            total = _add(total, _scaled(self._product(), sign))
        self._depth -= 1
        return total

    def _sign(self) -> int:
        sign = 1
        while self._peek()[1] in ("+", "-"):
            sign *= -1 if self._peek()[1] == "-" else 1
            self._at += 1
        return sign

    def _product(self) -> Value:
        result = self._power()
        divided = joined = False
        while True:
            before = self._tokens[self._at - 1]
            kind, token = self._peek()
            if token in ("*", "\\cdot", "\\times"):
                self._at += 1
                result = _multiply(result, _scaled(self._power(), 1))
            elif token == "/":
                self._at += 1
                divided = True
                result = _divide(result, self._power())
            elif kind in ("number", "letter") or token in ("(", "\\sqrt", "\\pi", "\\frac"):
                ambiguous = kind == "number" or (before[0] == "number" and token in ("\\frac", "("))
                if ambiguous or (before[0] == "letter" and token == "("):
                    raise UnreadableError  # 3\frac12, 2(3), x2, f(x)
                joined = True
                result = _multiply(result, self._power())
            else:
                break
        if divided and joined:
            raise UnreadableError  # 1/2x
        return result

    def _power(self) -> Value:
        base = self._atom()
        while self._peek()[1] == "!":
            self._at += 1
            base = _factorial(base)
        if self._peek()[1] != "^":
            return base
        self._at += 1
        kind, token = self._peek()
        if token == "{":
            exponent = self._group("{", "}")
        elif kind == "number" or kind == "letter":
            exponent = self._atom()
        else:
            raise UnreadableError
        if self._peek()[1] in ("^", "!"):
            raise UnreadableError
        return _raise(base, exponent)

    def _group(self, opening: str, closing: str) -> Value:
        self._take(opening)
        result = self._sum()
        self._take(closing)
        return result

    def _atom(self) -> Value:
        kind, token = self._peek()
        self._at += 1
        if kind == "number":
            number = float(token)
            return Value(number, abs(number) * _EPS)
        if kind == "letter":
            if token in "ei":
                return Value(math.e, _EPS * 3) if token == "e" else Value(1j, 0.0)
            return Value(self._point[token], 0.0)
        if token == "\\pi":
            return Value(math.pi, math.pi * _EPS)
        if token == "\\frac":
            return _divide(self._group("{", "}"), self._group("{", "}"))
        if token == "\\sqrt":
            if self._peek()[1] == "[":
                degree = self._group("[", "]")
                return _raise(self._group("{", "}"), _divide(Value(1, 0.0), degree))
            return _raise(self._group("{", "}"), Value(0.5, 0.0))
        if token in ("(", "{"):
            self._at -= 1
            return self._group(token, ")" if token == "(" else "}")
        raise UnreadableError


def _checked(number: complex, error: float) -> Value:
    number = complex(number)
    if not abs(number) < _LARGEST or not error < _LARGEST:
        raise UnreadableError
    return Value(number, error + abs(number) * _EPS)


def _scaled(value: Value, sign: int) -> Value:
    return Value(sign * value.number, value.error)


def _add(left: Value, right: Value) -> Value:
    return _checked(left.number + right.number, left.error + right.error)


def _multiply(left: Value, right: Value) -> Value:
    error = abs(left.number) * right.error + abs(right.number) * left.error + left.error * right.error
    return _checked(left.number * right.number, error)


def _divide(left: Value, right: Value) -> Value:
    size = abs(right.number)
    if size <= 1e3 * right.error or size < 1e-100:
        raise UnreadableError
    number = left.number / right.number
    return _checked(number, 2 * (left.error + abs(number) * right.error) / size)


def _raise(base: Value, exponent: Value) -> Value:
    size = abs(base.number)
    if size <= 1e3 * base.error or size < 1e-100:
        raise UnreadableError
    log = cmath.log(base.number)
    if abs(exponent.number) * abs(log) > 300:
        raise UnreadableError
    if base.number.imag == 0 and exponent.number.imag == 0 and base.number.real < 0:
        whole = exponent.number.real
        number = complex(base.number.real**whole) if whole == int(whole) else base.number**whole
    elif base.number.imag == 0 and exponent.number.imag == 0:
        number = complex(base.number.real**exponent.number.real)
    else:
        number = base.number**exponent.number
    relative = abs(exponent.number) * base.error / size + abs(log) * exponent.error
    return _checked(number, abs(number) * (2 * relative + 10 * _EPS * (1 + abs(exponent.number))))


def _factorial(value: Value) -> Value:
    whole = value.number.real
    if value.number.imag != 0 or whole != int(whole) or not 0 <= whole <= 90:
        raise UnreadableError
    return _checked(float(math.factorial(int(whole))), 0.0)
