"""Numbers of the original must be in the candidate, and no others.

Every text gives a set of numbers it states (`stated`) and a larger one of numbers it offers (`offered`):
those it states, the parts of fractions, and those that words imply ("a week" offers 7, "a pair" 2, "30%"
3/10). A number is missing when the original states it and the candidate does not offer it, and added the
other way round. 0 and 1 are never missed in prose: too many words stand for them.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from rephraser.checks.finding import Finding
from rephraser.checks.reading.number_reader import Collector, to_fraction
from rephraser.checks.reading.number_words import UNITS
from rephraser.checks.reading.text import FORMULA_MARK, Question

_DERIVABLE = 40
_ALWAYS_OFFERED = frozenset({Fraction(0), Fraction(1)})

_ENUMERATED = re.compile(
    rf"\b(two|three|four|five) (?:[a-z-]+ ){{0,3}}[a-z-]+,?\s*"
    rf"({FORMULA_MARK}(?:[\s,]*(?:and )?\s*{FORMULA_MARK})+)",
    re.IGNORECASE,
)
_RUN = re.compile(r"(?<![\d.^_])(\d{1,6}(?:\s*[,+]\s*\d{1,6}){1,8})\s*[,+]\s*(?:\\[lcd]?dots\w?|\.\.\.)")
_DIGITS = re.compile(r"\d+")
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
    collector = Collector()
    for segment in question.segments:
        if segment.is_formula:
            collector.formula(segment.text)
        else:
            collector.prose(segment.text)
    for tokens in question.formulas:
        collector.tokens(tokens)
    text = question.reading
    collector.measures(text)
    _loosen_enumerations(collector, question.prose)
    _loosen_runs(collector, question)
    return NumberFacts(
        frozenset(collector.stated),
        frozenset(collector.loose),
        frozenset(collector.offered | collector.stated | collector.loose | _ALWAYS_OFFERED),
        frozenset(collector.ordinals),
        frozenset(collector.negative | {to_fraction(m.group(1)) for m in _NEGATIVE.finditer(text)}),
        _SIGN_WORDS.search(text) is not None,
        " times" in text,
        collector.counts,
    )


def _loosen_enumerations(collector: Collector, prose: str) -> None:
    """'Two consecutive integers $a$ and $b$' says how many there are and names them; the names suffice."""
    enumerated: Counter[Fraction] = Counter()
    for word, things in _ENUMERATED.findall(prose):
        if things.count(FORMULA_MARK) == UNITS[word.lower()]:
            enumerated[Fraction(UNITS[word.lower()])] += 1
    for value, times in enumerated.items():
        if value in collector.stated and collector.counts[value] <= times:
            collector.stated.discard(value)
            collector.loose.add(value)


def implied_by_run(text: str) -> list[int]:
    """The numbers after the first of shortened runs of integers: 2 and 3 of '1, 2, 3, ..., 20'."""
    implied: list[int] = []
    for match in _RUN.finditer(text):
        run = [int(n) for n in _DIGITS.findall(match[1])]
        if all(b == a + 1 for a, b in pairwise(run)):
            implied += run[1:]
    return implied


def _loosen_runs(collector: Collector, question: Question) -> None:
    """'1, 2, 3, ..., 20' and 'from 1 to 20' are the same: the numbers within a run need not be told."""
    for segment in question.segments:
        for value in map(Fraction, implied_by_run(segment.text)):
            if collector.counts[value] == 1:
                collector.stated.discard(value)
                collector.offer(value)


def check_numbers(original: NumberFacts, candidate: NumberFacts, *, verbatim: bool = False) -> list[Finding]:
    """Findings number_missing, number_added and number_sign_changed.

    An added number that is a sum, difference or product of two numbers of the original while none of these is
    missing ("at 8:00 ... at 10:00" told as "two hours later") is none.
    In a candidate that repeats the original nearly word for word (`verbatim`) the numbers must also occur as
    often as there.
    """
    missing = sorted(n for n in original.stated - candidate.offered if not _in_times(n, candidate))
    added = sorted(n for n in candidate.stated - original.offered if not _in_times(n, original))
    findings = [
        Finding("number_missing", f"the number {show(n)} of the original is missing") for n in missing
    ]
    for n in added:
        if verbatim or missing or not _derived(n, original):
            findings.append(Finding("number_added", f"the number {show(n)} is not in the original"))
    lost_loosely, gained_loosely = original.loose - candidate.offered, candidate.loose - original.offered
    if lost_loosely and gained_loosely:
        old, new = show(min(lost_loosely)), show(min(gained_loosely))
        findings.append(Finding("number_missing", f"the number {old} of the original became {new}"))
    if verbatim and not findings:
        fewer, more = sorted(original.counts - candidate.counts), sorted(candidate.counts - original.counts)
        if fewer and more:
            findings.append(
                Finding("number_missing", f"a number {show(fewer[0])} of the original became {show(more[0])}")
            )
    lost, gained = original.ordinals - candidate.ordinals, candidate.ordinals - original.ordinals
    lost -= {int(n) for n in candidate.stated if n.denominator == 1}
    gained -= {int(n) for n in original.stated if n.denominator == 1}
    if {n for n in lost if n > 3} and {n for n in gained if n > 3}:
        findings.append(
            Finding("number_missing", f"the ordinal number {max(lost)} of the original became {max(gained)}")
        )
    if verbatim and not findings and (original.ordinals ^ candidate.ordinals) & {2, 3}:
        findings.append(Finding("number_added", "an ordinal number (second, third) was added or dropped"))
    for n in sorted(original.negative ^ candidate.negative):
        here, there = (original, candidate) if n in original.negative else (candidate, original)
        if n in there.stated and not there.has_sign_words and here.counts[n] <= there.counts[n]:
            findings.append(
                Finding(
                    "number_sign_changed", f"the sign of the number {show(n)} differs from the original's"
                )
            )
    return findings


def _in_times(number: Fraction, facts: NumberFacts) -> bool:
    """'3 times fewer' is a third: a unit fraction may be told by its denominator and the other way round."""
    return facts.speaks_of_times and number != 0 and 1 / number in facts.stated


def _derived(number: Fraction, facts: NumberFacts) -> bool:
    stated = sorted(facts.stated)[:_DERIVABLE]
    return any(number in {a + b, a - b, a * b} for i, a in enumerate(stated) for b in stated[: i + 1])


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
