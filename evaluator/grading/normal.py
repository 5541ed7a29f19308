r"""One spelling for answers that render alike, exact numbers and units. Pure text, no sympy.

Everything here may only join spellings of the same answer: `\dfrac12` and `\frac{1}{2}`, `1{,}000` and
`1000`, `5 \text{ cm}` and `5`. What would need algebra is left to `evaluator.grading.workers.symbolic`.
"""

import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

LONGEST_ANSWER = 2_000
"""Answers with more characters than this (after joining white space) are not read."""

_CHARACTERS = str.maketrans(
    {
        "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ",
        "÷": "/", "°": r"^\circ ", "π": r"\pi ", "∞": r"\infty ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ",
        "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "±": r"\pm ", "√": r"\sqrt ", "θ": r"\theta ",
        "α": r"\alpha ", "β": r"\beta ", "⟨": r"\langle ", "⟩": r"\rangle ", "∅": r"\emptyset ",
        "≈": r"\approx ", "⁄": "/", "∕": "/", "∗": "*", "’": "'", "′": "'", "∶": ":",
        "\u200b": "", "\ufeff": "", "\u2060": "", "、": ", ", "。": ".",
    }
    | {chr(wide): chr(wide - 0xFEE0) for wide in range(0xFF01, 0xFF5F)}  # ，：（）％Ａ１ as , : ( ) % A 1
    | {
        character: rf"\frac{{{top}}}{{{bottom}}}"
        for character in "¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"
        for top, bottom in [unicodedata.normalize("NFKC", character).split("⁄")]
    }
)  # fmt: skip
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_ROOT = re.compile(r"√ ?(?:\(([^()]*)\)|(\d+(?:\.\d+)?|[A-Za-zπ](?![A-Za-z])))")
_RAISED = re.compile(r"[⁰¹²³⁴-⁹⁺⁻ⁿ]+")
_LOWERED = re.compile(r"[₀-₉₊₋ₙ]+")
_TAGGED = re.compile(r"<(su[bp])>([^<>]{1,40})</\1>")
_COMMANDS = {
    "dfrac": "frac", "tfrac": "frac", "cfrac": "frac", "leq": "le", "leqslant": "le", "geq": "ge",
    "geqslant": "ge", "neq": "ne", "lbrace": "{", "rbrace": "}", "lbrack": "[", "rbrack": "]",
    "varnothing": "emptyset", "infin": "infty", "lt": "<", "gt": ">", "land": "wedge", "mid": "|",
    "textbf": "text", "textit": "text", "textrm": "text", "textnormal": "text", "textsf": "text",
    "texttt": "text", "emph": "text", "mbox": "text", "hbox": "text", "mathrm": "text", "mathbf": "text",
    "mathit": "text", "mathsf": "text", "mathtt": "text", "boldsymbol": "text", "bm": "text",
    "operatorname": "text", "dots": "ldots", "cdots": "ldots",
}  # fmt: skip
_DROPPED = frozenset((
    "left", "right", "big", "Big", "bigg", "Bigg", "bigl", "bigr", "Bigl", "Bigr", "biggl", "biggr",
    "Biggl", "Biggr", "middle", "displaystyle", "textstyle", "scriptstyle", "limits", "rm", "bf",
    "it", "mathstrut", "strut", "nolimits", "quad", "qquad", "enspace", "thinspace", "hspace", "space",
))  # fmt: skip
_COMMAND = re.compile(r"\\([A-Za-z]+) ?")
_QUAD = re.compile(r"\\(q?quad)(?=[A-Za-z])")  # \quadx is a slip for \quad x
_DOUBLED_SLASH = re.compile(r"\\\\(?=[A-Za-z]{2})")
_TIME = re.compile(r"(?<![\d.:])(\d{1,2})(:\d\d)? ?([AaPp])\.?[Mm]\b\.?")
_BARE_PI = re.compile(r"(?<![A-Za-z\\])pi(?![A-Za-z])")
_PHANTOM = re.compile(r"\\[hv]?phantom ?(?:\{[^{}]{0,50}\}|[^\\{}])")
_MARKDOWN = re.compile(r"(\*\*|__|`|\*)(.+)\1", re.DOTALL)
_TEXT = re.compile(r"\\text ?\{([^{}]*)\}")
_FRAC_SHORT = re.compile(r"\\frac ?(?:(\d|[A-Za-z]|\\pi)|\{([^{}]*)\}) ?(?:(\d|[A-Za-z]|\\pi)|\{([^{}]*)\})")
_SQRT_SHORT = re.compile(r"\\sqrt ?([A-Za-z0-9])")
_SINGLE_BRACES = re.compile(r"([\^_]) ?\{ ?([A-Za-z0-9]|\\circ) ?\}(?! ?[A-Za-z0-9.])")
_LOOSE_SPACE = re.compile(r"(?<![A-Za-z0-9.]) | (?![A-Za-z0-9.\\])")
_GROUPED = re.compile(r"(?<![\d.,])([1-9]\d{0,2})((?:,\d{3})+)(?![\d]|,\d)")
_POINTED = re.compile(r"(?<![\d.,])([1-9]\d{0,2}(?:\.\d{3})+),(\d{1,2})(?![\d.,]*\d)")  # 1.234,50
_BRACKET = re.compile(r"[(\[]|\\\{")
_SPACED_GROUPS = re.compile(r"([-+]?[1-9]\d{0,2}(?: \d{3})+)(?=$| [A-Za-z\\])")
_EMPTY_SET = re.compile(r"\\\{ ?\\\}")
_EDGE_LEFT = re.compile(r"^(?:=|:|\+|\\approx|\\sim|\\therefore)+ ?")


@lru_cache(maxsize=4096)
def tidy(text: str, *, join_thousands: bool = True) -> str:
    r"""One spelling of an answer; equal results mean equal answers.

    `join_thousands=False` leaves `1,200` as two numbers, for comparison with a list.
    Texts longer than four times `LONGEST_ANSWER` are cut to that before any work (they are not read).
    """
    text = " ".join(_typed(text[: 4 * LONGEST_ANSWER]).split())
    for _ in range(3):
        if match := _MARKDOWN.fullmatch(text):
            text = match.group(2).strip()
    if r"\begin" not in text:
        text = _DOUBLED_SLASH.sub(r"\\", text)
    text = _TIME.sub(lambda match: f"{match[1]}{match[2] or ':00'} {match[3].lower()}.m.", text)
    text = _unwrap_delimiters(text)
    text = _PHANTOM.sub(" ", text)
    text = _COMMAND.sub(_one_command, _QUAD.sub(r"\\\1 ", text))
    if "pi" in text:
        text = _BARE_PI.sub(r"\\pi ", text)
    text = text.replace("\\!", "").replace("{,}", "\0").replace("{:}", ":")
    text = re.sub(r"(?<!\\)\\[,;:>]|(?<!\\)\\ |~", " ", text)
    text = re.sub(r"(?<=\d) ?\0 ?(?=\d)|,(?=\x01)", "", text).replace("\0", ",")
    text = _text_to_plain(text)
    text = " ".join(text.split())
    text = text.replace("<=", r"\le ").replace(">=", r"\ge ").replace("!=", r"\ne ").replace("**", "^")
    text = _SINGLE_BRACES.sub(r"\1\2", _SQRT_SHORT.sub(r"\\sqrt{\1}", text))
    text = _FRAC_SHORT.sub(_braced_fraction, text)
    text = text.replace(r"^\circ", r"^\circ ").replace(r"\degree", r"^\circ ")
    if join_thousands:
        text = _join_thousands(text)
    text = _EMPTY_SET.sub(r"\\emptyset ", text)
    text = _EDGE_LEFT.sub("", " ".join(text.split()))
    text = _strip_punctuation(text)
    return _LOOSE_SPACE.sub("", text).strip()


def _typed(text: str) -> str:
    r"""Unicode mathematics as LaTeX: `4√38 x³` as `4\sqrt{38} x^{3}`, `b₂` as `b_{2}`."""
    if "<su" in text:
        text = _TAGGED.sub(lambda match: f"{'^' if match[1] == 'sup' else '_'}{{{match[2]}}}", text)
    if not _NOT_ASCII.search(text):
        return text
    text = _ROOT.sub(lambda match: rf"\sqrt{{{match[1] or match[2]}}}", text)
    text = _RAISED.sub(lambda match: f"^{{{_plain_digits(match[0])}}}", text)
    text = _LOWERED.sub(lambda match: f"_{{{_plain_digits(match[0])}}}", text)
    return text.translate(_CHARACTERS)


def _plain_digits(text: str) -> str:
    return unicodedata.normalize("NFKC", text).replace("−", "-")


def _unwrap_delimiters(text: str) -> str:
    # `,\!000` marks a thousands separator for certain, so it is joined before `\!` is dropped.
    text = re.sub(r"(?<=\d) ?(?:\{,\}|,) ?(?:\\! ?)+(?=\d{3}(?!\d))", "", text)
    text = re.sub(r"(?<!\\)\\[()\[\]]|(?<!\\)\$+", " ", text)
    return " ".join(text.split())


def _one_command(match: re.Match[str]) -> str:
    name = match.group(1)
    if name in _DROPPED:
        return " "
    name = _COMMANDS.get(name, name)
    if name in ("<", ">", "[", "]", "|"):
        return name
    if name in ("{", "}"):
        return "\\" + name
    return f"\\{name} "


def _text_to_plain(text: str) -> str:
    r"""Drops `\text{}` around what is not words: numbers, signs, empty."""

    def plain(match: re.Match[str]) -> str:
        inner = match.group(1)
        return f"\\text{{{inner}}}" if re.search(r"[A-Za-z]", inner) else f" {inner} "

    return _TEXT.sub(plain, text)


def _braced_fraction(match: re.Match[str]) -> str:
    top = match.group(1) if match.group(1) is not None else match.group(2)
    bottom = match.group(3) if match.group(3) is not None else match.group(4)
    return f"\\frac{{{top.strip()}}}{{{bottom.strip()}}}"


def _join_thousands(text: str) -> str:
    if grouped := _SPACED_GROUPS.match(text):
        text = grouped[1].replace(" ", "") + text[grouped.end() :]
    if "," not in text:
        return text
    bracket = _BRACKET.search(text)
    cut = bracket.start() if bracket else len(text)
    # Inside brackets `(5,100)` is a pair; outside, `5,100` is one number.
    plain = _POINTED.sub(lambda match: f"{match[1].replace('.', '')}.{match[2]}", text[:cut])
    return _GROUPED.sub(lambda match: match[1] + match[2].replace(",", ""), plain) + text[cut:]


def _strip_punctuation(text: str) -> str:
    while text and (text[-1] in ".;:," or text.endswith("\\\\")) and not text.endswith((" p.m.", " a.m.")):
        text = text[:-1].rstrip()
    if text.endswith("\\"):
        text = text[:-1].rstrip()
    return text


_DECIMAL = r"(?:\d+(?:\.\d*)?|\.\d+)"
_NUMBER = re.compile(rf"([-+]?){_DECIMAL}")
_RATIO = re.compile(rf"([-+]?)\(?({_DECIMAL})\)?/\(?([-+]?{_DECIMAL})\)?")
_FRAC = re.compile(rf"([-+]?)(\d* ?)\\frac\{{([-+]?{_DECIMAL})\}}\{{([-+]?{_DECIMAL})\}}")
_MIXED = re.compile(r"([-+]?)(\d+) (\d+)/(\d+)")
_REPEATING = re.compile(r"[-+]?(\d*)\.(\d*)\\overline ?\{(\d+)\}")
_POWER_OF_TEN = re.compile(
    rf"([-+]?)(?:({_DECIMAL}) ?(?:\\times|\\cdot|\*|x) ?)?10\^ ?(?:\{{([-+]?\d{{1,3}})\}}|([-+]?\d{{1,3}}))"
)
_E_NOTATION = re.compile(rf"([-+]?)({_DECIMAL})[eE](?:([-+]?\d{{1,3}})|\{{([-+]?\d{{1,3}})\}})")
_PARENTHESISED = re.compile(r"\(([^()]*)\)|\{([^{}]*)\}")


@dataclass(frozen=True)
class ExactNumber:
    """A rational number and how many digits stood after its decimal point (0 for fractions)."""

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
    try:
        if match := _RATIO.fullmatch(text):
            return ExactNumber(sign * Fraction(match.group(2)) / Fraction(match.group(3)))
        if match := _MIXED.fullmatch(text):
            return ExactNumber(
                sign * (int(match.group(2)) + Fraction(int(match.group(3)), int(match.group(4))))
            )
        if match := _FRAC.fullmatch(text):
            whole, top, bottom = match.group(2).strip(), Fraction(match.group(3)), Fraction(match.group(4))
            if whole and (top < 0 or bottom < 0):
                return None
            return ExactNumber(sign * ((int(whole) if whole else 0) + top / bottom))
    except ZeroDivisionError:
        return None
    return None


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
        if _spells_a_float(spelled.value) and abs(first.value - second.value) <= abs(decimal.value) / 10**12:
            return True
    rounded, exact = (first, second) if first.decimals > second.decimals else (second, first)
    return decimal_stands_for(rounded, exact.value, exact_is_decimal=exact.decimals > 0)


def _spells_a_float(value: Fraction) -> bool:
    bottom = value.denominator
    return bottom >= 2**30 and bottom & (bottom - 1) == 0


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
    r"""Splits tidy text into a core and a unit in one spelling, None when no unit stands there.

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
