"""What a candidate asks: something, and one thing where the original asks one."""

from __future__ import annotations

import re

from rephraser.checks.finding import Finding, fatal, warning
from rephraser.checks.text import Question

_IMPERATIVE = (
    r"find|determine|compute|calculate|evaluate|simplify|solve|express|write|give|state|identify|factor|expand|convert|"
    r"round|prove|show|list|name|graph|sketch|estimate|choose|select|decide|figure out|work out|"
    r"rationali[sz]e|add|"
    r"subtract|multiply|divide|count|describe|explain|rewrite|represent|complete|report|enter|specify|tell|order|"
    r"arrange|obtain|derive|verify|reduce|perform|provide|construct|translate|answer|deduce|ascertain|establish|"
    r"combine|approximate|match|fill in|pick|use|suppose you|let us know|enumerate|factori[sz]e|what|how|"
    r"which|who|"
    r"when|where|whose|why|is|are|does|do|can|will|must"
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
_VERB = re.compile(
    r"(?:^|[.!?;§]\s+|[.!?]\s*§?\s*)(?:please\s+|then\s+)?(?:find|determine|compute|calculate|evaluate|solve|simplify)\b"
    r"(?:[^.?!]|\.\d)*+(?!\?)",
    re.IGNORECASE,
)


def questions_asked(question: Question) -> int:
    """How many things a text asks: question marks and other sentences that begin with a verb of asking."""
    text = question.reading
    return text.count("?") + len(_VERB.findall(text))


def asks(question: Question) -> bool:
    """Whether the text asks anything at all."""
    text = question.reading
    return "?" in text or bool(_REQUEST.search(text) or _ORDER.search(text)) or "?" in question.raw[-5:]


def check_requests(original: Question, candidate: Question) -> list[Finding]:
    """Findings question_missing and question_added, fatal; warnings if the original asks several things."""
    if not asks(candidate):
        if asks(original) or _ASKING_WORD.search(original.reading):
            return [fatal("question_missing", "the candidate asks nothing")]
        return []
    before, after = questions_asked(original), questions_asked(candidate)
    if after > max(1, before):
        severity = fatal if before <= 1 else warning
        return [severity("question_added", f"the candidate asks {after} things, the original {before}")]
    return []
