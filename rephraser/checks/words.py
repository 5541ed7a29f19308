"""Words that decide: contrary ones exchanged, and the request itself."""

from __future__ import annotations

import re

from rephraser.checks.finding import Finding
from rephraser.checks.reading.text import Question

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
            findings.append(Finding("keyword_changed", f"'{lost[0]}' of the original became '{gained[0]}'"))
    return findings


_IMPERATIVE = (
    r"find|determine|compute|calculate|evaluate|simplify|solve|express|write|give|state|identify|factor|expand|convert|"
    r"round|prove|show|list|name|graph|sketch|estimate|choose|select|decide|figure out|work out|"
    r"rationali[sz]e|add|"
    r"subtract|multiply|divide|count|describe|explain|rewrite|represent|complete|report|enter|specify|tell|order|"
    r"arrange|obtain|derive|verify|reduce|perform|provide|construct|translate|answer|deduce|ascertain|establish|"
    r"combine|approximate|match|change|transform|fill in|pick|use|suppose you|let us know|enumerate|"
    r"factori[sz]e|what|how|which|who|when|where|whose|why|is|are|does|do|can|will|must"
)
_REQUEST = re.compile(
    rf"(?:^|[.!?;:,§] ?|\bplease\s+|\bthen\s+|\band\s+|\bto\s+|\btask\s+\w*\s*)(?:{_IMPERATIVE})\b",
    re.IGNORECASE,
)
_ASKING_WORD = re.compile(
    r"\b(?:what|how|which|find|determine|compute|calculate|evaluate|simplify|solve|who|when|where|whose|why|must|"
    r"is to be (?:found|determined)|unknown)\b",
    re.IGNORECASE,
)
_ORDER = re.compile(r"\b(?:find|determine|compute|calculate|evaluate|simplify|solve|what)\b")
_ALSO = re.compile(
    r"\b(?:also|in addition|additionally),?\s+"
    r"(?:find|determine|compute|calculate|evaluate|solve|give|state|say)\b",
    re.IGNORECASE,
)


def questions_asked(question: Question) -> int:
    """How many things a text asks for certain: question marks, and what is to be found "also".

    Requests in a row are one: "Determine the fraction m/n in lowest terms. Compute m + n."
    """
    text = question.reading
    return text.count("?") + len(_ALSO.findall(text))


def asks(question: Question) -> bool:
    """Whether the text asks anything at all."""
    text = question.reading
    return "?" in text or bool(_REQUEST.search(text) or _ORDER.search(text)) or "?" in question.raw[-5:]


def check_requests(original: Question, candidate: Question) -> list[Finding]:
    """Findings question_missing and question_added (where the original asks one thing)."""
    if not asks(candidate):
        if asks(original) or _ASKING_WORD.search(original.reading):
            return [Finding("question_missing", "the candidate asks nothing")]
        return []
    before, after = questions_asked(original), questions_asked(candidate)
    if before <= 1 < after:
        return [Finding("question_added", f"the candidate asks {after} things, the original {before}")]
    return []
