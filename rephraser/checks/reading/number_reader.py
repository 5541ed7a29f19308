"""Reads the numbers out of prose and formulas."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

from rephraser.checks.reading.latex import canonical_number, is_number
from rephraser.checks.reading.number_words import (
    CONVERSIONS,
    OFFERED_WORDS,
    ORDINALS,
    PARTS,
    SCALES,
    SINGULAR,
    STATED_WORDS,
    TENS,
    UNITS,
)

_BEGINS = {"=", "<", ">", "≤", "≥", "≠", "(", ",", "[", ";"}
_ENDS = {"", "=", "<", ">", "≤", "≥", "≠", ")", ",", "]", ";", "°"}
_MEASURED = re.compile(
    r"(?:(?P<half>\bhalf[ -](?:an? )?)|(?P<n>(?<![\d,.])\d[\d,]{0,12}(?:\.\d{1,12})?|"
    r"(?<![a-z])[a-z]{1,12})[ -])(?P<unit>weeks?|fortnights?|years?|hours?|minutes?|"
    r"seconds?|days?|months?|feet|foot|inch(?:es)?|yards?|decades?|dozens?|dollars?|cents?|met(?:er|re)s?|cms?|"
    r"centimet(?:er|re)s?|kilomet(?:er|re)s?|centur(?:y|ies)|quarters?)\b"
)
_SQUARE_UNIT = re.compile(
    r"\b(?:square|cubic)\s+(?=unit|met|feet|foot|inch|cent|mile|yard|kilo|cm|km|ft|mm|m\b)", re.IGNORECASE
)
_OUT_OF = re.compile(
    r"\b(\d+|[a-z]+) (?:out of|in|of) (?:every |each )(\d+|[a-z]+)\b|\b(\d+|[a-z]+) out of (?:the )?(\d+|"
    r"[a-z]+)\b"
)
_NUMBER = r"\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|(?<!\d)\.\d+"
_SCAN = re.compile(
    rf"(?P<name>(?-i:\b(?!Base)[A-Z][A-Za-z]+-\d+\b))|(?P<mixed>\b\d+)[\s-]+(?P<mn>\d+)\s*/\s*(?P<md>\d+)(?![\d.])"
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
# 'Two chords AB and CD' says how many there are and names them; either may be left out.
_KNOWN_OBJECTS = re.compile(
    r"chords|lines|circles|legs|roots|points|sides|foci|triangles|vectors|functions|equations|parabolas|solutions|"
    r"angles|bases|altitudes|medians|diagonals|vertices|tangents?|segments|planes|spheres|polynomials|graphs|sets|"
    r"sequences|parallel|congruent|similar|concentric|intersecting|equal|complementary|supplementary"
)
_PLURAL_PARTS = {word for word in PARTS if word.endswith("s")}
_FOLD = re.compile(r"(.+?)-?fold")
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


def to_fraction(digits: str) -> Fraction:
    plain = canonical_number(digits)
    return Fraction(plain[:400])


class Collector:
    """The numbers met so far; see `numbers.NumberFacts` for what the sets mean."""

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
        """Offer what "2 weeks", "half an hour" and "one out of five" come to in other units."""
        for match in _MEASURED.finditer(text):
            unit = match["unit"]
            unit = SINGULAR.get(unit, SINGULAR.get(unit.removesuffix("s"), unit.removesuffix("s")))
            value = Fraction(1, 2) if match["half"] else _small(match["n"])
            if value is None:
                continue
            if unit in CONVERSIONS:
                self.offer(value * CONVERSIONS[unit][0])
            self.offer(*(value / factor for factor, smaller in CONVERSIONS.values() if smaller == unit))
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
                "".join(words[i + 1 : i + 2]) in _PLURAL_PARTS
                and scan[i].group("num")
                and "." not in scan[i].group()
            ):
                self.ratio(_int(scan[i].group("num").replace(",", "")), PARTS[words[i + 1]])
                i += 2
            elif words[i + 1 : i + 2] == ["dozen"] and scan[i].group("num"):
                self.dozens(to_fraction(scan[i].group("num")))
                i += 2
            else:
                self._digits(scan[i])
                i += 1

    def _digits(self, match: re.Match[str]) -> None:
        group = match.group
        if group("name"):
            # The 19 of COVID-19 and the 11 of Apollo-11 count nothing.
            return
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
            value = to_fraction(group("num"))
            scale = (group("scale") or "").strip().lower()
            if scale:
                self.offer(value)
                value *= SCALES.get(scale, 1000)
            if group("percent"):
                self.percent(value)
            else:
                self.state(value)
                if value.denominator != 1:
                    self.offer(value * 100, value.numerator // value.denominator)

    def _word(self, words: list[str], scan: list[re.Match[str]], i: int, text: str) -> int:
        word = words[i]
        previous = words[i - 1] if i else ""
        if word in UNITS or word in TENS or (word in SCALES and previous in {"a", "one", "several", ""}):
            return self._cardinal(words, scan, i, text)
        fold = _FOLD.fullmatch(word)
        if fold and word not in STATED_WORDS and _small(fold[1]) is not None:
            self.state(_small(fold[1]) or Fraction(0))
        if word in STATED_WORDS:
            self.state(Fraction(STATED_WORDS[word]))
        if word in {"half", "halves", "halved", "halve", "halving"}:
            self.state(Fraction(1, 2), loose=word != "half")
        elif word == "quarter" or word == "quarters":
            self.offer(Fraction(1, 4))
            if words[i + 1 : i + 2] == ["of"] and previous in {"a", "one"}:
                self.state(Fraction(1, 4), loose=True)
        elif word in PARTS and PARTS[word] > 2 and (word.endswith("s") or previous in {"a", "one", "the"}):
            self.offer(Fraction(1, PARTS[word]))
            if previous in {"a", "one"} and words[i + 1 : i + 2] == ["of"]:
                self.state(Fraction(1, PARTS[word]))
        if word in ORDINALS:
            self.ordinals.add(ORDINALS[word])
            self.offer(ORDINALS[word], Fraction(1, ORDINALS[word]))
        if word in OFFERED_WORDS:
            self.offer(*OFFERED_WORDS[word])
        return i + 1

    def _cardinal(self, words: list[str], scan: list[re.Match[str]], i: int, text: str) -> int:
        """Read a number in words from position i: 'two hundred and five', 'three and a half'."""
        first = i
        total, current = 0, 0
        while i < len(words):
            word = words[i]
            if i > first and not re.fullmatch(r"[\s,-]*", text[scan[i - 1].end() : scan[i].start()]):
                break
            if (
                word in UNITS
                and (current % 10 == 0 or i == first)
                and (current % 100 == 0 or UNITS[word] < 10)
            ):
                if i > first and current == 0 and total == 0:
                    break
                if current % 100 and not 20 <= current % 100 < 100:
                    break
                current += UNITS[word]
            elif word in TENS and current % 100 == 0:
                if i > first and "," in text[scan[i - 1].end() : scan[i].start()]:
                    break
                current += TENS[word]
            elif word == "hundred":
                current = max(1, current) * 100
            elif word in SCALES:
                total += max(1, current) * SCALES[word]
                current = 0
            elif (
                word == "and"
                and (current or total) >= 100
                and words[i + 1 : i + 2]
                and (words[i + 1] in UNITS or words[i + 1] in TENS)
                and words[i - 1] in SCALES
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
            and tail[0] in PARTS
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
            self.ratio(value, PARTS[tail[0]])
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
            counts_known = before in _DETERMINERS or bool(tail and _KNOWN_OBJECTS.fullmatch(tail[0]))
            self.state(Fraction(value), loose=value <= 5 and counts_known and "-" not in gap)
        if tail[:1] == ["percent"]:
            self.percent(Fraction(value))
        return i


def _small(word: str) -> Fraction | None:
    """A number in digits, or one of the words zero to twelve and the tens."""
    if word[:1].isdecimal():
        return to_fraction(word)
    value = UNITS.get(word, TENS.get(word))
    return Fraction(1) if word in {"a", "an"} else None if value is None else Fraction(value)


def _int(digits: str) -> int:
    return int(digits[:40])


def _two(parts: Iterable[str]) -> tuple[int, int]:
    values = [_int(p) for p in parts if p]
    return (values[0], values[1]) if len(values) == 2 else (0, 0)
