r"""Compares expressions of plain arithmetic by their values to 50 digits, with bounds on the error. Pure.

Constants that agree to 25 digits are equal; expressions in variables are equal when they agree at four points
or more (Schwartz-Zippel) and differ when they do at one. These are the rules of `symbolic` without its cost.
What could be read in two ways (`1/2x`, `3\frac{1}{2}`, `f(x)`) or is not plain arithmetic is left to algebra.
"""

import decimal
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from evaluator.grading.normal import exact_number

_TOKEN = re.compile(
    r" *(?:(?P<number>\d+(?:\.\d+)?|\.\d+)|(?P<command>\\(?:frac|sqrt|pi|cdot|times|ln|exp)(?![A-Za-z]))"
    r"|(?P<letter>[A-Za-z](?:_(?:[A-Za-z0-9]|\{[A-Za-z0-9]\}))?)|(?P<sign>[-+*/^(){}!|\[\]]))"
)
_EPS = Decimal("1e-48")
_TINY = Decimal("1e-60")
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")
_E = Decimal("2.71828182845904523536028747135266249775724709369995957496696763")
_LARGEST_POWER = 300
_LARGEST_FACTORIAL = 90
_DEEPEST = 25
_LONGEST_RUN = 3
_FACTORS = ("(", "\\sqrt", "\\pi", "\\frac", "\\ln", "\\exp")

Token = tuple[str, str]


class UnreadableError(Exception):
    """The text holds what is not plain arithmetic, or has no value at this point."""


class Value(NamedTuple):
    """A complex number and a bound on its error."""

    real: Decimal
    imag: Decimal = Decimal(0)
    error: Decimal = Decimal(0)

    @property
    def size(self) -> Decimal:
        """The absolute value, up to a factor of 2."""
        return abs(self.real) + abs(self.imag)


def tokens_of(text: str) -> list[Token]:
    """The (kind, text) tokens of a tidy expression; raises UnreadableError for anything but arithmetic."""
    if (number := exact_number(text)) is not None:
        return [("fraction", str(number.value.numerator) + "/" + str(number.value.denominator))]
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
        name = kind == "letter" and (token in "EI" or run > _LONGEST_RUN)
        if name or (run > 1 and tokens[-1][1] == "d"):
            raise UnreadableError
        tokens.append((kind, token.lower() if kind == "letter" else token))  # as latex2sympy reads them
        position = match.end()
    return tokens


class Reader:
    """A recursive descent over tokens, with a value for each variable."""

    def __init__(self, tokens: Sequence[Token], point: Mapping[str, Decimal]) -> None:
        self._tokens = tokens
        self._point = point
        self._at = 0
        self._depth = 0
        self._bars = 0

    def value(self) -> Value:
        """The value of the whole; raises UnreadableError or ArithmeticError. Call in a decimal context."""
        result = self._sum()
        if self._at < len(self._tokens):
            raise UnreadableError
        return result

    def _peek(self) -> Token:
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
        divided = False
        while True:
            before = self._tokens[self._at - 1]
            kind, token = self._peek()
            if token in ("*", "\\cdot", "\\times"):
                self._at += 1
                result = _multiply(result, self._power())
            elif token == "/":
                self._at += 1
                divided = True
                result = _divide(result, self._power())
            elif kind in ("number", "letter") or token in _FACTORS or (token == "|" and not self._bars):
                mixed = before[0] == "number" and token in ("\\frac", "(")
                called = before[0] == "letter" and before[1] != "i" and token == "("
                if kind == "number" or mixed or called:
                    raise UnreadableError  # x2, 3\frac12, 2(3), f(x)
                if divided:
                    raise UnreadableError  # 1/2x
                result = _multiply(result, self._power())
            else:
                break
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
        elif kind in ("number", "letter"):
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
            return Value(Decimal(token))
        if kind == "letter":
            if token == "i":
                return Value(Decimal(0), Decimal(1))
            return Value(_E, error=_EPS) if token == "e" else Value(self._point[token])
        if token == "\\pi":
            return Value(_PI, error=_EPS)
        if token == "\\frac":
            return _divide(self._group("{", "}"), self._group("{", "}"))
        if token == "\\sqrt":
            degree = self._group("[", "]") if self._peek()[1] == "[" else None
            base = self._group("{", "}")
            return _root(base) if degree is None else _raise(base, _divide(Value(Decimal(1)), degree))
        if token == "|":
            self._bars += 1
            inner = self._sum()
            self._take("|")
            self._bars -= 1
            return _absolute(inner)
        if kind == "fraction":
            top, bottom = token.split("/")
            return _divide(Value(Decimal(top)), Value(Decimal(bottom)))
        if token == "\\exp":
            return _raise(Value(_E, error=_EPS), self._group("(", ")"))
        if token == "\\ln":
            return _log(self._group("(", ")") if self._peek()[1] == "(" else self._atom())
        if token in ("(", "{"):
            self._at -= 1
            return self._group(token, ")" if token == "(" else "}")
        raise UnreadableError


def _value(real: Decimal, imag: Decimal, error: Decimal) -> Value:
    return Value(real, imag, error + (abs(real) + abs(imag)) * _EPS)


def _scaled(value: Value, sign: int) -> Value:
    return value if sign > 0 else Value(-value.real, -value.imag, value.error)


def _add(left: Value, right: Value) -> Value:
    return _value(left.real + right.real, left.imag + right.imag, left.error + right.error)


def _multiply(left: Value, right: Value) -> Value:
    error = left.size * right.error + right.size * left.error + left.error * right.error
    real = left.real * right.real - left.imag * right.imag
    imag = left.real * right.imag + left.imag * right.real
    # Real and imaginary part may cancel; the products they come from may not.
    return Value(real, imag, error + left.size * right.size * _EPS)


def _divide(left: Value, right: Value) -> Value:
    square = right.real * right.real + right.imag * right.imag
    if right.size <= 1000 * right.error or right.size < _TINY:
        raise UnreadableError
    real = (left.real * right.real + left.imag * right.imag) / square
    imag = (left.imag * right.real - left.real * right.imag) / square
    size = abs(real) + abs(imag)
    error = 4 * (left.error + size * right.error) / right.size + 4 * left.size / right.size * _EPS
    return Value(real, imag, error)


def _raise(base: Value, exponent: Value) -> Value:
    if exponent.imag or abs(exponent.real) > _LARGEST_POWER:
        raise UnreadableError
    whole = int(exponent.real)
    if exponent.error == 0 and whole == exponent.real:
        result = Value(Decimal(1))
        for bit in bin(abs(whole))[2:]:
            result = _multiply(result, result)
            if bit == "1":
                result = _multiply(result, base)
        if whole == 0 and base.size <= 1000 * base.error + _TINY:
            raise UnreadableError
        return result if whole >= 0 else _divide(Value(Decimal(1)), result)
    if base.imag or base.real <= 1000 * base.error + _TINY:
        raise UnreadableError
    number = base.real**exponent.real
    relative = abs(exponent.real) * base.error / base.real + abs(base.real.ln()) * exponent.error
    return _value(number, Decimal(0), number * (2 * relative + (2 + abs(exponent.real)) * 100 * _EPS))


def _root(base: Value) -> Value:
    if base.imag or base.real < 0 or (base.error and base.real <= 1000 * base.error):
        raise UnreadableError
    number = base.real.sqrt()
    return _value(number, Decimal(0), base.error / number if number else Decimal(0))


def _absolute(value: Value) -> Value:
    if value.imag:
        raise UnreadableError
    return Value(abs(value.real), error=value.error)


def _log(value: Value) -> Value:
    if value.imag or value.real <= 1000 * value.error + _TINY:
        raise UnreadableError
    return _value(value.real.ln(), Decimal(0), 2 * value.error / value.real + _EPS)


def _factorial(value: Value) -> Value:
    whole = int(value.real)
    if value.imag or value.error or whole != value.real or not 0 <= whole <= _LARGEST_FACTORIAL:
        raise UnreadableError
    result = Decimal(1)
    for factor in range(2, whole + 1):
        result *= factor
    return _value(result, Decimal(0), result * _EPS * whole)


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
            values = [_value_at(side, point) for side in (left, right)]
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


def _value_at(tokens: Sequence[Token], point: Mapping[str, Decimal]) -> Value | None:
    """The value at a point, None where there is none; call in the decimal context."""
    try:
        return Reader(tokens, point).value()
    except (UnreadableError, ArithmeticError):
        return None


def constant(text: str) -> Fraction | None:
    """The value of a tidy real constant to 30 digits, exactly where it is plain; None for anything else."""
    if (number := exact_number(text)) is not None:
        return number.value
    try:
        with decimal.localcontext(_CONTEXT):
            value = Reader(tokens_of(text), {}).value()
            certain = not value.imag and value.error <= value.size * _SAME
            return Fraction(round(value.real, 30)) if certain else None
    except (UnreadableError, ArithmeticError, KeyError):
        return None


def is_arithmetic(text: str) -> bool:
    """True when the whole text is plain arithmetic that has a value."""
    if exact_number(text) is not None:
        return True
    try:
        tokens = tokens_of(text)
    except UnreadableError:
        return False
    point = {token: _POINTS[3] + place for place, (kind, token) in enumerate(tokens) if kind == "letter"}
    with decimal.localcontext(_CONTEXT):
        return _value_at(tokens, point) is not None


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
