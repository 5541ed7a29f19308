"""What a candidate asks: something, and one thing where the original asks one."""

from __future__ import annotations

import re

from rephraser.checks.finding import Finding, noticed
from rephraser.checks.text import Question

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
            return [noticed("question_missing", "the candidate asks nothing")]
        return []
    before, after = questions_asked(original), questions_asked(candidate)
    if before <= 1 < after:
        return [noticed("question_added", f"the candidate asks {after} things, the original {before}")]
    return []
