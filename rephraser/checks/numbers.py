"""Numbers of the original must be in the candidate, and no others.

Every text gives a set of numbers it states (`stated`) and a larger one of numbers it offers (`offered`): those it
states, the parts of fractions, and those that words imply ("a week" offers 7, "a pair" 2, "30%" 3/10). A number is
missing when the original states it and the candidate does not offer it, and added the other way round. 0 and 1 are
never missed in prose: too many words stand for them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from rephraser.checks.finding import Finding, fatal, warning
from rephraser.checks.latex import canonical_number, is_number
from rephraser.checks.text import Question

_UNITS = {w: i for i, w in enumerate(
    ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"])}  # fmt: skip
_TENS = {
    w: 10 * i
    for i, w in enumerate(
        ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], start=2
    )
}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_ORDINALS = {w: i for i, w in enumerate(
    ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth", "twentieth"], start=1)}  # fmt: skip
_ORDINALS |= {"thirtieth": 30, "fortieth": 40, "fiftieth": 50, "hundredth": 100, "thousandth": 1000}
_PARTS = {f"{w}s": n for w, n in _ORDINALS.items() if n > 2} | {w: n for w, n in _ORDINALS.items() if n > 2}
_PARTS |= {"half": 2, "halves": 2, "quarter": 4, "quarters": 4}

_STATED_WORDS = {
    "twice": 2, "thrice": 3, "double": 2, "doubled": 2, "doubles": 2, "doubling": 2, "triple": 3, "tripled": 3,
    "triples": 3, "tripling": 3, "quadruple": 4, "quadrupled": 4, "quadruples": 4, "quintuple": 5, "dozen": 12,
    "dozens": 12, "twofold": 2, "threefold": 3, "fourfold": 4, "fivefold": 5, "tenfold": 10,
}  # fmt: skip
_OFFERED_WORDS: dict[str, tuple[int | Fraction, ...]] = {
    "pair": (2,), "pairs": (2,), "both": (2,), "couple": (2,), "duo": (2,), "two": (2,), "neither": (2,), "either": (2,),
    "trio": (3,), "triplets": (3,), "twins": (2,), "twin": (2,), "quartet": (4,), "bicycle": (2,), "bike": (2,),
    "tricycle": (3,), "unicycle": (1,), "squared": (2,), "square": (2, 4), "cubed": (3,), "cube": (3, 6, 12),
    "cubic": (3,), "quadratic": (2,), "halved": (2,), "halves": (2,), "halve": (2,), "halving": (2,), "half": (2, 50),
    "week": (7,), "weeks": (7,), "weekly": (7,), "weekday": (5,), "weekdays": (5,), "weekend": (2,), "weekends": (2,),
    "workdays": (5,), "workweek": (5,),
    "year": (12, 365, 52), "years": (12, 365, 52), "yearly": (12,), "annual": (12,), "annually": (12,),
    "month": (30,), "monthly": (12,), "months": (12,), "day": (24,), "days": (24,), "daily": (24,), "hour": (60,),
    "hours": (60,), "minute": (60,), "minutes": (60,), "decade": (10,), "decades": (10,), "century": (100,),
    "centuries": (100,), "fortnight": (2, 14), "fortnights": (2, 14), "score": (20,), "percent": (100,),
    "percentage": (100,), "half-hour": (30,), "foot": (12,), "feet": (12,), "yard": (3,), "yards": (3,),
    "quarter": (4, 25, 3, 15), "quarters": (4, 25), "quarterly": (3, 4), "semester": (6,), "noon": (12,), "midnight": (12,),
    "dime": (10,), "dimes": (10,), "nickel": (5,), "nickels": (5,), "pennies": (1,), "gross": (144,),
    "triangle": (3,), "triangular": (3,), "pentagon": (5,), "hexagon": (6,), "octagon": (8,), "tetrahedron": (4,),
    "straight": (180,), "origin": (0,), "right": (90,), "biweekly": (2,), "again": (2,), "secondary": (2,), "second": (2,),
    "cent": (100,), "cents": (100,), "kilogram": (1000,), "kilograms": (1000,), "hundredth": (2,), "thousandth": (3,),
    "percentages": (100,), "binary": (2,), "decimal": (10,), "dice": (6, 2), "die": (6,), "cuboid": (6,),
    "bi-weekly": (2,), "teen": (13,), "previous": (1,), "other": (2, 1), "remaining": (1,), "latter": (2,), "former": (1,),
    "initial": (1,), "final": (), "tenth": (1,), "odd": (2,), "even": (2,), "evenly": (2,), "equally": (2,),
    "gcd": (2,), "million": (6,), "semicircle": (2, 180), "semicircular": (2,), "biannual": (2,), "biannually": (2,),
}  # fmt: skip
_BEGINS = {"=", "<", ">", "≤", "≥", "≠", "(", ",", "[", ";"}
_ENDS = {"", "=", "<", ">", "≤", "≥", "≠", ")", ",", "]", ";", "°"}
_CONVERSIONS: dict[str, tuple[int, str]] = {
    "week": (7, "day"), "fortnight": (14, "day"), "year": (12, "month"), "hour": (60, "minute"),
    "minute": (60, "second"), "day": (24, "hour"), "foot": (12, "inch"), "yard": (3, "foot"), "decade": (10, "year"),
    "dozen": (12, ""), "dollar": (100, "cent"), "meter": (100, "centimeter"), "kilometer": (1000, "meter"),
    "century": (100, "year"), "quarter": (3, "month"),
}  # fmt: skip
_MEASURED = re.compile(
    r"(?:(?P<half>\bhalf[ -](?:an? )?)|(?P<n>(?<![\d,.])\d[\d,]{0,12}(?:\.\d{1,12})?|(?<![a-z])[a-z]{1,12})[ -])(?P<unit>weeks?|fortnights?|years?|hours?|minutes?|"
    r"seconds?|days?|months?|feet|foot|inch(?:es)?|yards?|decades?|dozens?|dollars?|cents?|met(?:er|re)s?|cms?|"
    r"centimet(?:er|re)s?|kilomet(?:er|re)s?|centur(?:y|ies)|quarters?)\b"
)
_SINGULAR = {"feet": "foot", "inches": "inch", "centuries": "century", "metre": "meter", "kilometre": "kilometer",
             "centimetre": "centimeter", "cm": "centimeter"}  # fmt: skip
_SQUARE_UNIT = re.compile(
    r"\b(?:square|cubic)\s+(?=unit|met|feet|foot|inch|cent|mile|yard|kilo|cm|km|ft|mm|m\b)", re.IGNORECASE
)
_OUT_OF = re.compile(
    r"\b(\d+|[a-z]+) (?:out of|in|of) (?:every |each )(\d+|[a-z]+)\b|\b(\d+|[a-z]+) out of (?:the )?(\d+|[a-z]+)\b"
)
_DERIVABLE = 40
_OFFERED_WORDS |= {w.replace("y", "ies"): (n,) for w, n in _TENS.items()} | {"tens": (10,), "fives": (5,), "twos": (2,),
    "ones": (1,), "hundreds": (100,), "fifths": (5,), "thirds": (3,)}  # fmt: skip
_ALWAYS_OFFERED = frozenset({Fraction(0), Fraction(1)})

_NUMBER = r"\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|(?<!\d)\.\d+"
_SCAN = re.compile(
    rf"(?P<mixed>\b\d+)[\s-]+(?P<mn>\d+)\s*/\s*(?P<md>\d+)(?![\d.])"
    rf"|(?P<fn>\d+)\s*/\s*(?P<fd>\d+)(?![\d.])"
    rf"|(?P<ord>\d+)(?:st|nd|rd|th)\b"
    rf"|(?P<clock>\d{{1,2}}):(?P<min>\d{{2}})(?!\d)(?=\s*(?:[ap]\.?\s?m\b|o'clock))"
    rf"|(?P<num>{_NUMBER})(?P<percent>\s*(?:%|\\%|percent\b))?(?P<scale>\s*(?:hundred|thousand|million|billion|k\b))?"
    rf"|(?P<word>[a-z]+)",
    re.IGNORECASE,
)  # fmt: skip
_MIXED_LATEX = re.compile(
    r"(?<![\d.])(\d+)\s*\\[dtc]?frac\s*(?:\{\s*(\d+)\s*\}|(\d))\s*(?:\{\s*(\d+)\s*\}|(\d))"
)
_SIMPLE_LATEX = re.compile(r"\\[dtc]?frac\s*(?:\{\s*(\d+)\s*\}|(\d))\s*(?:\{\s*(\d+)\s*\}|(\d))")
_DETERMINERS = {
    "the",
    "these",
    "those",
    "all",
    "both",
    "other",
    "of",
    "last",
    "first",
    "next",
    "its",
    "their",
    "such",
    "any",
}
_NEGATIVE = re.compile(r"(?:\bnegative\s|(?<=[a-z]{2}\s)-)(\d+(?:\.\d+)?)(?![\d.]*\s*[-+*/^(\w])")
_SIGN_WORDS = re.compile(
    r"\b(?:negative|minus|below|less|subtract\w*|decreas\w*|lower|loss|debt|drop\w*|opposite)\b"
)


@dataclass(frozen=True)
class NumberFacts:
    """The numbers of a text; `loose` ones are stated in a way that a rephrasing may well drop or add."""

    stated: frozenset[Fraction]
    loose: frozenset[Fraction]
    offered: frozenset[Fraction]
    ordinals: frozenset[int]
    negative: frozenset[Fraction]
    has_sign_words: bool
    speaks_of_times: bool
    counts: Counter[Fraction] = field(default_factory=Counter)

    def has(self, digits: str) -> bool:
        return Fraction(digits) in self.offered


def number_facts(question: Question) -> NumberFacts:
    """All numbers of a question, in prose and formulas; figure code is left out."""
    collector = _Collector()
    for segment in question.segments:
        if segment.is_formula:
            collector.formula(segment.text)
        else:
            collector.prose(segment.text)
    for tokens in question.formulas:
        collector.tokens(tokens)
    text = question.reading
    collector.measures(text)
    return NumberFacts(
        frozenset(collector.stated),
        frozenset(collector.loose),
        frozenset(collector.offered | collector.stated | collector.loose | _ALWAYS_OFFERED),
        frozenset(collector.ordinals),
        frozenset(collector.negative | {_fraction(m.group(1)) for m in _NEGATIVE.finditer(text)}),
        _SIGN_WORDS.search(text) is not None,
        " times" in text,
        collector.counts,
    )


def _fraction(digits: str) -> Fraction:
    plain = canonical_number(digits)
    return Fraction(plain[:400])


class _Collector:
    def __init__(self) -> None:
        self.stated: set[Fraction] = set()
        self.loose: set[Fraction] = set()
        self.offered: set[Fraction] = set()
        self.ordinals: set[int] = set()
        self.negative: set[Fraction] = set()
        self.counts: Counter[Fraction] = Counter()

    def state(self, value: Fraction, *, loose: bool = False) -> None:
        (self.loose if loose else self.stated).add(value)
        self.counts[value] += 1

    def offer(self, *values: int | Fraction) -> None:
        self.offered.update(Fraction(v) for v in values)

    def ratio(self, above: int, below: int, whole: int = 0) -> None:
        """A fraction of two integers: stated as one value, its parts offered."""
        if below == 0:
            self.state(Fraction(above))
            self.state(Fraction(below))
            return
        value = whole + Fraction(above, below)
        self.state(value)
        self.offer(above, below, whole, value * 100, Fraction(above, below))

    def dozens(self, count: Fraction) -> None:
        self.state(count * 12)
        self.offer(count, 12)

    def percent(self, value: Fraction) -> None:
        self.state(value)
        self.offer(value / 100)
        self.offer(100)

    def formula(self, text: str) -> None:
        text = text.replace("{,}", ",").replace(",\\!", ",").replace("\\!", "")
        for whole, *parts in _MIXED_LATEX.findall(text):
            above, below = _two(parts)
            if below:
                self.offer(int(whole[:40]) + Fraction(above, below))
        for parts in _SIMPLE_LATEX.findall(text):
            above, below = _two(list(parts))
            if below:
                value = Fraction(above, below)
                self.offer(value, value * 100)
        for words in re.findall(r"\\(?:text|mbox|textrm|mathrm)\s*\{([^{}]*)\}", text):
            self.prose(words)

    def tokens(self, tokens: tuple[str, ...]) -> None:
        for i, token in enumerate(tokens):
            if not is_number(token):
                continue
            value = Fraction(token[:400])
            self.state(value)
            following = tokens[i + 1] if i + 1 < len(tokens) else ""
            if following == "%":
                self.offer(value / 100)
            if following == "/" and i + 2 < len(tokens) and is_number(tokens[i + 2]):
                below = Fraction(tokens[i + 2][:400])
                if below:
                    self.offer(value / below, 100 * value / below)
            if i and tokens[i - 1] == "-" and following in _ENDS and (i == 1 or tokens[i - 2] in _BEGINS):
                self.negative.add(value)

    def measures(self, text: str) -> None:
        """Offer what "2 weeks", "half an hour", "3 dozen" and "one out of five" come to in smaller or larger units."""
        for match in _MEASURED.finditer(text):
            unit = match["unit"]
            unit = _SINGULAR.get(unit, _SINGULAR.get(unit.removesuffix("s"), unit.removesuffix("s")))
            value = Fraction(1, 2) if match["half"] else _small(match["n"])
            if value is None:
                continue
            if unit in _CONVERSIONS:
                self.offer(value * _CONVERSIONS[unit][0])
            self.offer(*(value / factor for factor, smaller in _CONVERSIONS.values() if smaller == unit))
        for match in _OUT_OF.finditer(text):
            above, below = (_small(g) for g in match.groups() if g)
            if above and below and above < below:
                self.offer(above / below, 100 * above / below)

    def prose(self, text: str) -> None:
        text = _SQUARE_UNIT.sub("", text)
        scan = list(_SCAN.finditer(text))
        words = [m.group("word").lower() if m.group("word") else "" for m in scan]
        i = 0
        while i < len(scan):
            if words[i]:
                i = self._word(words, scan, i, text)
            elif (
                "".join(words[i + 1 : i + 2]) in _PARTS
                and scan[i].group("num")
                and "." not in scan[i].group()
            ):
                self.ratio(_int(scan[i].group("num").replace(",", "")), _PARTS[words[i + 1]])
                i += 2
            elif words[i + 1 : i + 2] == ["dozen"] and scan[i].group("num"):
                self.dozens(_fraction(scan[i].group("num")))
                i += 2
            else:
                self._digits(scan[i])
                i += 1

    def _digits(self, match: re.Match[str]) -> None:
        group = match.group
        if group("mixed"):
            self.ratio(_int(group("mn")), _int(group("md")), _int(group("mixed")))
        elif group("fn"):
            self.ratio(_int(group("fn")), _int(group("fd")))
        elif group("ord"):
            place = _int(group("ord"))
            self.ordinals.add(place)
            if place > 20:
                self.state(Fraction(place))
            self.offer(place, Fraction(1, place) if place else 0)
        elif group("clock"):
            self.state(Fraction(_int(group("clock"))))
            minutes = _int(group("min"))
            if minutes:
                self.state(Fraction(minutes))
            self.offer(0)
        else:
            value = _fraction(group("num"))
            scale = (group("scale") or "").strip().lower()
            if scale:
                self.offer(value)
                value *= _SCALES.get(scale, 1000)
            if group("percent"):
                self.percent(value)
            else:
                self.state(value)
                if value.denominator != 1:
                    self.offer(value * 100, value.numerator // value.denominator)

    def _word(self, words: list[str], scan: list[re.Match[str]], i: int, text: str) -> int:
        word = words[i]
        previous = words[i - 1] if i else ""
        if word in _UNITS or word in _TENS or (word in _SCALES and previous in {"a", "one", "several", ""}):
            return self._cardinal(words, scan, i, text)
        if word in _STATED_WORDS:
            self.state(Fraction(_STATED_WORDS[word]))
        if word in {"half", "halves", "halved", "halve", "halving"}:
            self.state(Fraction(1, 2), loose=word != "half")
        elif word == "quarter" or word == "quarters":
            self.offer(Fraction(1, 4))
            if words[i + 1 : i + 2] == ["of"] and previous in {"a", "one"}:
                self.state(Fraction(1, 4), loose=True)
        elif word in _PARTS and _PARTS[word] > 2 and (word.endswith("s") or previous in {"a", "one", "the"}):
            self.offer(Fraction(1, _PARTS[word]))
            if previous in {"a", "one"} and words[i + 1 : i + 2] == ["of"]:
                self.state(Fraction(1, _PARTS[word]))
        if word in _ORDINALS:
            self.ordinals.add(_ORDINALS[word])
            self.offer(_ORDINALS[word], Fraction(1, _ORDINALS[word]))
        if word in _OFFERED_WORDS:
            self.offer(*_OFFERED_WORDS[word])
        return i + 1

    def _cardinal(self, words: list[str], scan: list[re.Match[str]], i: int, text: str) -> int:
        """Read a number in words from position i: 'two hundred and five', 'twenty-one', 'three and a half'."""
        first = i
        total, current = 0, 0
        while i < len(words):
            word = words[i]
            if i > first and not re.fullmatch(r"[\s,-]*", text[scan[i - 1].end() : scan[i].start()]):
                break
            if (
                word in _UNITS
                and (current % 10 == 0 or i == first)
                and (current % 100 == 0 or _UNITS[word] < 10)
            ):
                if i > first and current == 0 and total == 0:
                    break
                if current % 100 and not 20 <= current % 100 < 100:
                    break
                current += _UNITS[word]
            elif word in _TENS and current % 100 == 0:
                if i > first and "," in text[scan[i - 1].end() : scan[i].start()]:
                    break
                current += _TENS[word]
            elif word == "hundred":
                current = max(1, current) * 100
            elif word in _SCALES:
                total += max(1, current) * _SCALES[word]
                current = 0
            elif (
                word == "and"
                and (current or total) >= 100
                and words[i + 1 : i + 2]
                and (words[i + 1] in _UNITS or words[i + 1] in _TENS)
                and words[i - 1] in _SCALES
            ):
                pass
            else:
                break
            i += 1
        value = total + current
        tail = words[i : i + 3]
        gap = text[scan[i - 1].end() : scan[i].start()] if i < len(scan) else ""
        if (
            tail
            and tail[0] in _PARTS
            and gap.strip(" -") == ""
            and value >= 1
            and (
                tail[0]
                in {
                    "half",
                    "quarter",
                    "third",
                    "fourth",
                    "fifth",
                    "sixth",
                    "seventh",
                    "eighth",
                    "ninth",
                    "tenth",
                }
                if value == 1
                else tail[0].endswith("s") or tail[0] == "half"
            )
        ):
            self.ratio(value, _PARTS[tail[0]])
            return i + 1
        if tail[:3] == ["and", "a", "half"]:
            self.state(value + Fraction(1, 2))
            self.offer(value, Fraction(1, 2), 2)
            return i + 3
        before = words[first - 1] if first else ""
        if tail[:1] == ["dozen"]:
            self.dozens(Fraction(value))
            return i + 1
        if value <= 1:
            self.offer(value)
        else:
            self.state(Fraction(value), loose=value <= 5 and before in _DETERMINERS and "-" not in gap)
        if tail[:1] == ["percent"]:
            self.percent(Fraction(value))
        return i


def _small(word: str) -> Fraction | None:
    """A number in digits, or one of the words zero to twelve and the tens."""
    if word[:1].isdecimal():
        return _fraction(word)
    value = _UNITS.get(word, _TENS.get(word))
    return Fraction(1) if word in {"a", "an"} else None if value is None else Fraction(value)


def _int(digits: str) -> int:
    return int(digits[:40])


def _two(parts: Iterable[str]) -> tuple[int, int]:
    values = [_int(p) for p in parts if p]
    return (values[0], values[1]) if len(values) == 2 else (0, 0)


def check_numbers(original: NumberFacts, candidate: NumberFacts, *, verbatim: bool = False) -> list[Finding]:
    """Findings number_missing, number_added and number_sign_changed.

    All are fatal but one: an added number that is a sum, difference or product of two numbers of the original while
    none of these is missing ("at 8:00 ... at 10:00" told as "two hours later") is a warning. In a candidate that
    repeats the original nearly word for word (`verbatim`) the numbers must also occur as often as there.
    """
    missing = sorted(n for n in original.stated - candidate.offered if not _in_times(n, candidate))
    added = sorted(n for n in candidate.stated - original.offered if not _in_times(n, original))
    findings = [fatal("number_missing", f"the number {show(n)} of the original is missing") for n in missing]
    for n in added:
        severity = warning if not missing and _derived(n, original) else fatal
        findings.append(severity("number_added", f"the number {show(n)} is not in the original"))
    if verbatim and not findings:
        fewer, more = sorted(original.counts - candidate.counts), sorted(candidate.counts - original.counts)
        if fewer and more:
            findings.append(
                fatal("number_missing", f"a number {show(fewer[0])} of the original became {show(more[0])}")
            )
    lost, gained = original.ordinals - candidate.ordinals, candidate.ordinals - original.ordinals
    lost -= {int(n) for n in candidate.stated if n.denominator == 1}
    gained -= {int(n) for n in original.stated if n.denominator == 1}
    if {n for n in lost if n > 3} and {n for n in gained if n > 3}:
        findings.append(
            fatal("number_missing", f"the ordinal number {max(lost)} of the original became {max(gained)}")
        )
    for n in sorted(original.negative ^ candidate.negative):
        here, there = (original, candidate) if n in original.negative else (candidate, original)
        if n in there.stated and not there.has_sign_words and here.counts[n] <= there.counts[n]:
            findings.append(
                fatal("number_sign_changed", f"the sign of the number {show(n)} is not the original's")
            )
    return findings


def _in_times(number: Fraction, facts: NumberFacts) -> bool:
    """'3 times fewer' is a third: a unit fraction may be told by its denominator and the other way round."""
    return facts.speaks_of_times and number != 0 and 1 / number in facts.stated


def _derived(number: Fraction, facts: NumberFacts) -> bool:
    known = sorted(facts.stated)[:_DERIVABLE]
    return any(number in {a + b, a - b, a * b} for i, a in enumerate(known) for b in known[: i + 1])


def show(number: Fraction) -> str:
    if number.denominator == 1:
        return str(number.numerator)
    decimal = number.denominator
    while decimal % 2 == 0:
        decimal //= 2
    while decimal % 5 == 0:
        decimal //= 5
    return (
        f"{float(number):g}"
        if decimal == 1 and number.denominator > 9
        else f"{number.numerator}/{number.denominator}"
    )
