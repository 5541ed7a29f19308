r"""Steps that compare by quantity: numbers with their units and scales, then expressions by their value.

Pure text and exact arithmetic; what needs algebra is handed to the comparison's `algebra`.
"""

import re
from fractions import Fraction
from typing import NamedTuple

from evaluator.grading import structure
from evaluator.grading.steps import PartComparison, Step
from evaluator.grading.types import (
    DIFFERENT,
    EXACT,
    NEEDS_ALGEBRA,
    NUMERIC,
    SYMBOLIC,
    UNPARSABLE,
    WITHIN_TOLERANCE,
    Grade,
    GradeValue,
)

_DECIMAL = r"(?:\d+(?:\.\d*)?|\.\d+)"
_NUMBER = re.compile(rf"([-+]?){_DECIMAL}")
_RATIO = re.compile(rf"[-+]?\(?(?P<top>{_DECIMAL})\)?/\(?(?P<bottom>[-+]?{_DECIMAL})\)?")
_MIXED = re.compile(
    rf"[-+]?(?P<whole>\d*) ?\\frac\{{(?P<top>[-+]?{_DECIMAL})\}}\{{(?P<bottom>[-+]?{_DECIMAL})\}}"
)
_MIXED_RATIO = re.compile(r"[-+]?(?P<whole>\d+) (?P<top>\d+)/(?P<bottom>\d+)")
_REPEATING = re.compile(r"[-+]?(\d*)\.(\d*)\\overline ?\{(\d+)\}")
_POWER_OF_TEN = re.compile(
    rf"([-+]?)(?:({_DECIMAL}) ?(?:\\times|\\cdot|\*|x) ?)?10\^ ?(?:\{{([-+]?\d{{1,3}})\}}|([-+]?\d{{1,3}}))"
)
_E_NOTATION = re.compile(rf"([-+]?)({_DECIMAL})[eE](?:([-+]?\d{{1,3}})|\{{([-+]?\d{{1,3}})\}})")
_PARENTHESISED = re.compile(r"\(([^()]*)\)|\{([^{}]*)\}")


class ExactNumber(NamedTuple):
    """A rational number and its number of digits after the decimal point (0 for fractions)."""

    value: Fraction
    decimals: int = 0


def exact_number(text: str) -> ExactNumber | None:
    r"""Reads tidy text as an exact rational: `-12`, `.5`, `3/4`, `\frac{3}{4}`, `1\frac{1}{2}`, `1 1/2`,
    `7 \times 10^{35}`, `7e35`. None for anything else, also for percentages and a zero denominator.
    """
    while match := _PARENTHESISED.fullmatch(text):
        text = (match.group(1) if match.group(1) is not None else match.group(2)).strip()
    if _NUMBER.fullmatch(text):
        return ExactNumber(Fraction(text), len(text.partition(".")[2]))
    sign = -1 if text.startswith("-") else 1
    if match := _POWER_OF_TEN.fullmatch(text) or _E_NOTATION.fullmatch(text):
        power = int(match.group(3) or match.group(4))
        return ExactNumber(sign * Fraction(match.group(2) or 1) * Fraction(10) ** power)
    if match := _REPEATING.fullmatch(text):
        whole, fixed, period = match.group(1) or "0", match.group(2), match.group(3)
        scale = 10 ** len(fixed)
        repeated = Fraction(int(period), (10 ** len(period) - 1) * scale)
        return ExactNumber(sign * (Fraction(int(whole + fixed), scale) + repeated))
    match = _RATIO.fullmatch(text) or _MIXED.fullmatch(text) or _MIXED_RATIO.fullmatch(text)
    if match is None:
        return None
    parts = match.groupdict()
    whole, top, bottom = (Fraction(parts.get(name) or 0) for name in ("whole", "top", "bottom"))
    if not bottom or (parts.get("whole") and (top < 0 or bottom < 0)):
        return None
    return ExactNumber(sign * (whole + top / bottom))


def decimal_comma(text: str) -> str | None:
    """`1.5` of `1,5`, `1.5 kg` of `1,5 kg`; None for anything else, also for `1,500`, which has thousands."""
    number = split_unit(text)[0] if "," in text else text
    if not re.fullmatch(r"[-+]?\d+,\d+", number) or re.fullmatch(r"[-+]?[1-9]\d{0,2},\d{3}", number):
        return None
    return text.replace(number, number.replace(",", "."), 1)


def same_number(first: ExactNumber, second: ExactNumber) -> bool:
    """Equal exactly, or a long decimal that stands for the other number.

    A decimal of six places and six significant digits equals a number that rounds to it and is itself no
    decimal (0.333333 and 1/3, not 0.3333 and 1/3). From twelve significant digits on, the last ones may be
    noise of floating-point arithmetic (3.0000000000000004 and 3), and so may a fraction over a power of two
    that spells a floating-point number out.
    """
    if first.value == second.value:
        return True
    for spelled, decimal in ((first, second), (second, first)):
        bottom = spelled.value.denominator
        is_float = bottom >= 2**30 and bottom & (bottom - 1) == 0
        if is_float and abs(first.value - second.value) <= abs(decimal.value) / 10**12:
            return True
    rounded, exact = (first, second) if first.decimals > second.decimals else (second, first)
    return decimal_stands_for(rounded, exact.value, exact_is_decimal=exact.decimals > 0)


def decimal_stands_for(rounded: ExactNumber, exact: Fraction, *, exact_is_decimal: bool = False) -> bool:
    """Whether a decimal is the rounded form of an exact number; see `same_number`."""
    places = rounded.decimals
    digits = len(str(abs(rounded.value.numerator * 10**places // rounded.value.denominator)))
    gap = abs(rounded.value - exact)
    if digits >= 12 and places >= 6 and gap <= abs(exact) / 10**10:
        return True
    return not exact_is_decimal and min(digits, places) >= 6 and 2 * gap <= Fraction(1, 10**places)


_UNIT_WORDS = {
    "cm": "centimeter", "mm": "millimeter", "m": "meter", "km": "kilometer", "metre": "meter",
    "centimetre": "centimeter", "kilometre": "kilometer", "millimetre": "millimeter", "ft": "foot",
    "feet": "foot", "in": "inch", "inche": "inch", "yd": "yard", "mi": "mile", "hr": "hour", "h": "hour",
    "min": "minute", "sec": "second", "s": "second", "lb": "pound", "oz": "ounce", "kg": "kilogram",
    "g": "gram", "l": "liter", "litre": "liter", "ml": "milliliter", "sq": "square", "cu": "cubic",
    "usd": "dollar", "buck": "dollar", "deg": "degree", "pct": "percent", "percentage": "percent",
    "mph": "mile per hour", "kph": "kilometer per hour", "pm": "p.m.", "am": "a.m.", "penny": "cent",
    "pennie": "cent", "euro": "euro", "gal": "gallon",
}  # fmt: skip
_MEASURES = frozenset(_UNIT_WORDS.values()) | frozenset((
    "week", "day", "month", "year", "ounce", "ton", "acre", "cent", "degree", "percent", "celsius",
    "fahrenheit", "radian", "yen", "rupee",
))  # fmt: skip
_SUFFIX = re.compile(
    r"(?P<core>.*?[^\\ ]) ?(?:(?P<percent>\\?%)|(?P<degree>\^\\circ ?(?:\\text\{)? ?[CFcf]?\}?)"
    r"|\\text\{(?P<text>[^{}]*)\} ?(?:\^ ?\{?(?P<power>[23])\}?)?)"
)
_BARE_SUFFIX = re.compile(
    r"(?P<core>[-+]?[\d.,/ ]*\d|[-+]?\d* ?\\frac\{\d+\}\{\d+\}) ?"
    r"(?P<text>[A-Za-z][A-Za-z.]+(?: [A-Za-z.]+){0,4}|[A-Za-z]{1,2}(?=\^[23]$))(?:\^(?P<power>[23]))?"
)
_RATE = re.compile(
    r"(?P<core>[-+]?[\d.,]*\d) (?P<over>[A-Za-z]{1,12})/(?P<under>[A-Za-z]{1,12})(?:\^\{?(?P<power>[23])\}?)?"
)
FOREIGN = "\u0400-\u1fff\u3040-\ud7ff"  # letters of other scripts than Latin and Greek, inside [...]
FOREIGN_NUMERAL = r"[十百千万萬亿億兆半십백천만억]|分之|(?:тыс|млн|млрд|миллион|миллиард|процент)"  # no units
_FOREIGN_SUFFIX = re.compile(
    rf"(?P<core>[^{FOREIGN}]*(?:\d|\}}|\\pi)) ?(?!{FOREIGN_NUMERAL})(?P<text>[{FOREIGN}]+(?: [{FOREIGN}]+)?)"
)
_ORDINAL = re.compile(r"(?P<core>\d+) ?\^?\{? ?(?:\\text ?\{ ?)?(?P<text>st|nd|rd|th) ?\}{0,2}")
_CLOCK = re.compile(r"(?P<core>\d{1,2}):00 ?(?:\\text\{)? ?(?P<half>[ap]\.m\.)\}?")
_CURRENCIES = {r"\$": "dollar", r"\pounds": "pound", "£": "pound", "€": "euro", "¥": "yen", "₹": "rupee"}
_MARK = r"\\\$|\\pounds ?|[£€¥₹]"
_MONEY = re.compile(
    rf"(?P<sign>[-+])?(?:(?P<mark>{_MARK}) ?(?P<core>.+)|(?P<amount>[\d.,/ ]*\d) ?(?P<behind>{_MARK}))"
)
_SCALES = {"percent": Fraction(1, 100)} | {
    word: Fraction(10) ** power
    for word, power in (("hundred", 2), ("thousand", 3), ("million", 6), ("billion", 9), ("trillion", 12))
}
_NOT_A_UNIT = frozenset((
    "or", "and", "to", "not", "if", "is", "than", "plus", "minus", "times", "over", "pi", "sqrt",
    "through", "where", "with", "for",
))  # fmt: skip


def split_unit(text: str) -> tuple[str, str | None]:
    r"""Split normalized text into a core and its unit in one spelling; the unit is None if there is none.

    >>> split_unit(r"9\text{ square inches}")
    ('9', 'square inch')
    """
    if match := _CLOCK.fullmatch(text):
        return match["core"], match["half"]
    if match := _ORDINAL.fullmatch(text) or _FOREIGN_SUFFIX.fullmatch(text):
        return match["core"], match["text"]
    if match := _MONEY.fullmatch(text):
        core, unit = split_unit((match["sign"] or "") + (match["core"] or match["amount"]))
        scales = [word for word in (unit or "").split() if word in _SCALES]
        return core, " ".join([*scales, _CURRENCIES[(match["mark"] or match["behind"]).strip()]])
    if (match := _RATE.fullmatch(text)) and is_measure(match["over"]) and is_measure(match["under"]):
        return match["core"], _one_unit(f"{match['over']}/{match['under']}", match["power"])
    if match := _SUFFIX.fullmatch(text):
        if match["percent"]:
            return match["core"], "percent"
        if match["degree"]:
            return match["core"], "degree"
        words = match["text"]
    elif (match := _BARE_SUFFIX.fullmatch(text)) is not None:
        words = match["text"]
    else:
        return text, None
    if any(word in _NOT_A_UNIT for word in words.lower().split()):
        return text, None
    if match.re is _BARE_SUFFIX and not _bare_unit(words, match["power"]):
        return text, None
    core = match["core"].rstrip("\\ ").strip()
    if not core or (match.re is _SUFFIX and not re.search(r"\d|\\pi|\\frac|\\sqrt|[a-z]", core)):
        return text, None
    return core, _one_unit(words, match["power"])


def _bare_unit(words: str, power: str | None) -> bool:
    """Words outside `\\text{}` count as a unit only when they cannot be a product of variables."""
    unit_like = [
        is_measure(word) or len(word) >= 4 or word in ("per", "of") for word in words.lower().split()
    ]
    single = re.fullmatch(r"[A-Za-z]", words) is not None
    measure = _one_unit(words, None) in _MEASURES
    return all(unit_like) and (measure if power is not None else not single)


def _one_unit(words: str, power: str | None) -> str:
    if "/" in words:
        over, _, under = words.partition("/")
        return f"{_one_unit(over, None)} per {_one_unit(under, power)}"
    spelled = []
    for word in words.lower().split():
        word = word if word in ("p.m.", "a.m.") else word.strip(".,;()")
        word = _UNIT_WORDS.get(word, word)
        singular = word[:-1] if word.endswith("s") and len(word) > 2 else word
        spelled.append(_UNIT_WORDS.get(singular, singular))
    name = " ".join(spelled)
    return {"2": f"square {name}", "3": f"cubic {name}"}.get(power or "", name)


def scale_of(unit: str | None) -> tuple[Fraction, str | None]:
    """The factor in a unit and what is left of it: of million dollar 1,000,000 and dollar, percent 1/100."""
    scale, words = Fraction(1), (unit or "").split()
    while words and words[0] in _SCALES:
        scale *= _SCALES[words.pop(0)]
    return scale, "percent" if unit == "percent" else " ".join(words) or None


def units_conflict(first: str | None, second: str | None) -> bool:
    """True when known measures differ, as inch and foot, not ways and paths; in other scripts all differ."""
    if first is None or second is None or first == second:
        return False
    if not (first.isascii() and second.isascii()):
        return True
    return all(any(word in _MEASURES for word in unit.split()) for unit in (first, second))


def is_measure(word: str) -> bool:
    """True for a unit of measurement in any spelling or a scale: `cm`, `hours`, `square feet`, `million`."""
    spelled = word.lower().rstrip(".").rstrip("23²³^").strip()[:100]
    return any(part in _MEASURES or part in _SCALES for part in _one_unit(spelled, None).split())


_FUNCTIONS = (
    "sqrt", "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh",
    "tanh", "log", "ln", "exp", "lim", "max", "min", "gcd", "lcm", "pi", "theta", "alpha", "beta",
    "gamma", "phi", "infty", "det", "mod", "binom",
)  # fmt: skip
_BARE_FUNCTION = re.compile(rf"(?<![A-Za-z\\])({'|'.join(_FUNCTIONS)})(?![a-z])")
_WORD = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{4,}")
_PRODUCT = re.compile(r"(?<![_^\d.])(\d+(?:\.\d+)?) ?\((?=[-\d.\\])")  # 2(3) would be read as 2 + 3
_BINOMIAL = re.compile(r"\\[td]?binom ?(?:\{([^{}]*)\}|([A-Za-z\d])) ?(?:\{([^{}]*)\}|([A-Za-z\d]))")
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
    latex = _TIMES_BINOMIAL.sub(r"\\cdot ", _BINOMIAL.sub(r"\\binom{\1\2}{\3\4}", latex))
    latex = _PRODUCT.sub(r"\1\\cdot (", latex)
    latex = re.sub(r"\\sqrt ?\(([^()]*)\)", r"\\sqrt{\1}", latex).replace("\\pi ", "\\pi  ")
    words = re.sub(r"\\(?:begin|end) ?\{[a-z]+\}|\\[A-Za-z]+", " ", latex)
    if _DIGIT_GAP.search(latex) or _DIGIT_BASE.search(latex) or _WORD.search(words):
        return None
    if r"\text" in latex or latex.count("{") != latex.count("}") or "'" in latex:
        return None
    return latex


def compare_units(gold: str, answer: str, comparison: PartComparison) -> Grade | None:
    """Compare what stands before units and scales: `5 cm` and `5`, `3 million` and `3,000,000`."""
    gold_core, gold_full = split_unit(gold)
    answer_core, answer_full = split_unit(answer)
    if not gold_full and not answer_full:
        return None
    (gold_scale, gold_unit), (answer_scale, answer_unit) = scale_of(gold_full), scale_of(answer_full)
    if units_conflict(gold_unit, answer_unit):
        return DIFFERENT
    both = 1 not in (gold_scale, answer_scale) and gold_scale != answer_scale  # 3 million, 3 billion
    grade = DIFFERENT if both else comparison.compare(gold_core, answer_core)
    wanted, number = exact_number(gold_core), exact_number(answer_core)
    is_settled = gold_scale == answer_scale or grade is NEEDS_ALGEBRA or grade.value is GradeValue.CORRECT
    if is_settled or wanted is None or number is None:
        return grade
    value = number.value * answer_scale / gold_scale
    if value == wanted.value:
        return NUMERIC
    limit = comparison.limit
    return WITHIN_TOLERANCE if limit is not None and limit.allows(wanted.value, value) else DIFFERENT


def compare_numbers(gold: str, answer: str, comparison: PartComparison) -> Grade | None:
    """Compare exact numbers."""
    wanted, number = exact_number(gold), exact_number(answer)
    if wanted is None or number is None:
        return None
    if same_number(wanted, number):
        return NUMERIC
    limit = comparison.limit
    return WITHIN_TOLERANCE if limit is not None and limit.allows(wanted.value, number.value) else DIFFERENT


def compare_bases(gold: str, answer: str, _: PartComparison) -> Grade | None:
    """Compare numbers in other bases digit by digit: `203_7`."""
    bases = structure.number_in_base(gold), structure.number_in_base(answer)
    if bases == (None, None):
        return None
    return EXACT if bases[0] == bases[1] else DIFFERENT


def compare_expressions(gold: str, answer: str, comparison: PartComparison) -> Grade:
    """Compare by value if arithmetic is enough, else by algebra."""
    if comparison.limit is None:
        from evaluator.grading.arithmetic import same_value  # loads mpmath

        if (same := same_value(gold, answer)) is not None:
            return SYMBOLIC if same else DIFFERENT
        if latex_of(gold) is None and latex_of(answer) is None:
            return UNPARSABLE
    return comparison.algebra(gold, answer, comparison.limit) if comparison.algebra else NEEDS_ALGEBRA


STEPS: tuple[Step, ...] = (compare_units, compare_numbers, compare_bases, compare_expressions)
