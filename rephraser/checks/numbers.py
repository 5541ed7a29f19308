"""Numbers of the original that are not in the candidate, and the reverse.

A text *states* numbers in digits and in words. It *offers* these and others that its words imply: "second"
offers 2, "60%" offers 0.6, and "3/5" offers both 0.6 and 60. A number is missing if the original states it
and the candidate does not offer it; an added number is the reverse.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

from rephraser.checks.finding import Finding
from rephraser.checks.reading import read

_UNITS = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_SMALL = {word: place for place, word in enumerate(_UNITS)} | {
    word: 10 * place for place, word in enumerate(_TENS, start=2)
}
_SCALES = {"thousand": 1000, "million": 10**6, "billion": 10**9}
_CARDINAL = "|".join((*_SMALL, "hundred", *_SCALES))
_SPELLED = re.compile(rf"\b(?:{_CARDINAL})(?:(?:[ -]| and )(?:{_CARDINAL})){{0,12}}\b")
_ORDINALS = [
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth",
]  # fmt: skip
_HALF = Fraction(1, 2)
_OFFERED_WORDS: dict[str, tuple[int | Fraction, ...]] = {
    **{word + end: (place,) for place, word in enumerate(_ORDINALS, start=1) for end in ("", "s")},
    "half": (2, _HALF, 50, 30), "halves": (2, _HALF), "halved": (2, _HALF), "quarter": (4, 25, 3),
    "quarters": (4, 25), "pair": (2,), "pairs": (2,), "both": (2,), "couple": (2,), "either": (2,),
    "neither": (2,), "twice": (2,), "double": (2,), "doubled": (2,), "doubles": (2,), "thrice": (3,),
    "triple": (3,), "tripled": (3,), "triples": (3,), "quadruple": (4,), "quadrupled": (4,), "dozen": (12,),
    "square": (2,), "squared": (2,), "cube": (3,), "cubed": (3,), "percent": (100,), "week": (7,),
    "weeks": (7,), "weekly": (7,), "fortnight": (2, 14), "day": (24,), "hour": (60,), "year": (12,),
    "decade": (10,), "perpendicular": (90,), "right": (90,), "origin": (0,),
}  # fmt: skip
_WORD = re.compile(r"[a-z]+")
_DIGITS = re.compile(r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?) ?(?:%|percent)")
_RATIO = re.compile(r"(\d+) ?/ ?(\d+)")
_LONGEST = 40
_LEAST_SPELLED = 4
"""Smaller numbers in words come and go in a rephrasing: "the two numbers" are "both" or "the numbers"."""


@dataclass(frozen=True)
class Numbers:
    """The numbers of a text: those that it states, and all that it offers."""

    stated: frozenset[Fraction]
    offered: frozenset[Fraction]


def numbers_of(text: str) -> Numbers:
    """Return the numbers of a text, in digits and in words; figure code is left out."""
    plain = read(text)
    words = _WORD.findall(plain)
    stated = {_number(digits) for digits in _DIGITS.findall(plain)}
    spelled = {Fraction(value) for phrase in _SPELLED.findall(plain) for value in _spelled(phrase)}
    stated |= {value for value in spelled if value >= _LEAST_SPELLED}
    implied = {Fraction(value) for word in words for value in _OFFERED_WORDS.get(word, ())} | spelled
    implied.update(_number(digits) / 100 for digits in _PERCENT.findall(plain))
    implied.update(100 * value for value in stated if value < 1)
    for above, below in _RATIO.findall(plain):
        if _number(below):
            ratio = _number(above) / _number(below)
            implied.update((ratio, 100 * ratio))
    always = {Fraction(0), Fraction(1)}
    return Numbers(frozenset(stated - always), frozenset(stated | implied | always))


def _number(digits: str) -> Fraction:
    return Fraction(digits.replace(",", "")[:_LONGEST].rstrip("."))


def _spelled(phrase: str) -> list[int]:
    """Return the numbers of a phrase of number words: "two hundred and five", or "three and four"."""
    values: list[int] = []
    total = current = 0
    for word in phrase.replace("-", " ").split():
        if word == "hundred":
            current = max(current, 1) * 100
        elif word in _SCALES:
            total, current = total + max(current, 1) * _SCALES[word], 0
        elif word in _SMALL:
            follows = current % 100 == 0 or (current % 100 >= 20 and current % 10 == 0 and _SMALL[word] < 10)
            if not follows:
                values.append(total + current)
                total = current = 0
            current += _SMALL[word]
    return [*values, total + current]


def check_numbers(original: Numbers, candidate: Numbers) -> list[Finding]:
    """Return findings number_missing and number_added."""
    missing = [
        Finding("number_missing", f"the number {_show(number)} of the original is missing")
        for number in sorted(original.stated - candidate.offered)
    ]
    added = [
        Finding("number_added", f"the number {_show(number)} is not in the original")
        for number in sorted(candidate.stated - original.offered)
    ]
    return missing + added


def _show(number: Fraction) -> str:
    return str(number.numerator) if number.denominator == 1 else f"{float(number):g}"
