"""Words that turn a problem into another one: sum by product, largest by smallest, even by odd.

Only an exchange is told: a word of a group that is gone while another one of its group came in. Words that
merely come or go are not: on free rephrasings they do so as often in honest as in broken ones.
"""

from __future__ import annotations

import re

from rephraser.checks.finding import Finding, noticed
from rephraser.checks.text import Question

_CONTRARIES: tuple[dict[str, str], ...] = (
    {"at least": r"at least|no (?:fewer|less) than", "at most": r"at most|no (?:more|greater) than"},
    {
        "greatest common divisor": r"gc[df]|(?:greatest|highest|largest) common (?:divisor|factor)",
        "least common multiple": r"lcm|(?:least|lowest|smallest) common multiple",
    },
    {"maximum": r"maxim\w+|greatest|largest|biggest|highest", "minimum": r"minim\w+|smallest|least|lowest"},
    {"sum": r"sums?", "product": r"products?", "difference": r"differences?", "quotient": r"quotients?"},
    {"quotient": r"quotients?", "remainder": r"remainders?"},
    {"even": r"even", "odd": r"odd"},
    {"positive": r"(?<!non)(?<!non-)positive", "negative": r"(?<!non)(?<!non-)negative"},
    {"with replacement": r"with (?:replac|repet)\w+", "without replacement": r"without (?:replac|repet)\w+"},
    {"increasing": r"increasing|ascending", "decreasing": r"decreasing|descending"},
    {"mean": r"mean|averages?", "median": r"median", "mode": r"mode"},
    {"range": r"range", "domain": r"domain"},
    {"area": r"area", "perimeter": r"perimeter|circumference", "volume": r"volume"},
    {"radius": r"radius|radii", "diameter": r"diameters?"},
    {"complement": r"complement\w*", "supplement": r"supplement\w*"},
    {"inscribed": r"inscribe\w*|incircle|inradius", "circumscribed": r"circum(?:scrib\w*|circle|radius)"},
    {"adjacent": r"adjacent", "opposite": r"opposite"},
    {"parallel": r"parallel", "perpendicular": r"perpendicular|orthogonal"},
    {"horizontal": r"horizontal\w*", "vertical": r"vertical\w*"},
    {"clockwise": r"(?<!counter)(?<!anti)(?<!-)clockwise", "counterclockwise": r"(?:counter|anti)-?\w*wise"},
    {"acute": r"acute", "obtuse": r"obtuse"},
    {"minor": r"minor", "major": r"major"},
    {"isosceles": r"isosceles", "equilateral": r"equilateral", "scalene": r"scalene"},
    {"numerator": r"numerators?", "denominator": r"denominators?"},
    {
        "units digit": r"(?:units?|ones|last) digits?",
        "tens digit": r"tens digits?",
        "hundreds digit": r"hundreds digits?",
    },
    {"arithmetic": r"arithmetic", "geometric": r"geometric"},
    {"sine": r"sine", "cosine": r"cosine", "tangent": r"tangent"},
    {"north": r"north\w*", "south": r"south\w*"},
    {"east": r"east\w*", "west": r"west\w*"},
)  # fmt: skip
_PATTERNS = tuple(
    {name: re.compile(rf"\b(?:{words})\b") for name, words in group.items()} for group in _CONTRARIES
)
_NOT_SHAPES = re.compile(r"\b(?:even (?:if|though|when|after)|square (?:roots?|units?)|at the very least)\b")


def check_contraries(original: Question, candidate: Question) -> list[Finding]:
    """Finding keyword_changed: one of two contrary words gave way to the other."""
    before, after = (_NOT_SHAPES.sub(" ", question.reading) for question in (original, candidate))
    findings = []
    for group in _PATTERNS:
        here = {name for name, words in group.items() if words.search(before)}
        there = {name for name, words in group.items() if words.search(after)}
        lost, gained = sorted(here - there), sorted(there - here)
        if lost and gained:
            findings.append(noticed("keyword_changed", f"'{lost[0]}' of the original became '{gained[0]}'"))
    return findings
