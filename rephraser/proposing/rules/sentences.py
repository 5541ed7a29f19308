"""Cut masked text into sentences and say what each one does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from rephraser.proposing.rules.mask import BLOCK, BREAK, DISPLAY, INLINE

Kind = Literal["fact", "ask", "format", "note", "block"]

IMPERATIVES = "find|compute|determine|calculate|evaluate|simplify|express|expand|factor|solve|write"
_CUT = re.compile(rf"(?<=[.?!])(?:(?<=\S\S)|(?<=[{INLINE}]))[)\"']* (?=[A-Z({INLINE}{DISPLAY}])")
_ABBREVIATION = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|St|vs|No|Fig|Eq|etc|i\.e|e\.g|U\.S|a\.m|p\.m|ft|in)|\b[A-Z])\.$"
)
_AFTER_DISPLAY = re.compile(
    rf"(?<=[{DISPLAY}]) (?=(?:Find|Compute|Determine|Calculate|Evaluate|Simplify|Express|Solve|What|"
    r"How|Enter)\b)"
)
_FORMAT = re.compile(
    r"(?:express|give|write|round|enter|state|leave|put|report|list)\b.*\b(?:answers?|solutions?|fractions?|form|roots|"
    r"nearest|decimals?|values|numbers|order)\b",
    re.I,
)
_ASK_START = re.compile(rf"(?:{IMPERATIVES})\b", re.I)
_ASK_INSIDE = re.compile(rf", (?:then )?(?:{IMPERATIVES})\b")


@dataclass(frozen=True)
class Sentence:
    """One sentence (masked), what it does, and the separator that stood before it."""

    text: str
    kind: Kind
    before: str = " "


def split(text: str) -> list[Sentence]:
    """Sentences of a masked text in order; figures and tables are sentences of their own."""
    sentences: list[Sentence] = []
    for paragraph_index, paragraph in enumerate(text.split(BREAK)):
        first = paragraph_index > 0
        for part in re.split(rf"([{BLOCK}])", paragraph.strip()):
            for raw in _cut(part.strip()):
                sentences.append(Sentence(raw, _kind(raw), f" {BREAK} " if first else " "))
                first = False
    return sentences


def join(sentences: list[Sentence]) -> str:
    """The masked text of sentences, with their separators."""
    return "".join((s.before if i else "") + s.text for i, s in enumerate(sentences))


def _cut(text: str) -> list[str]:
    pieces: list[str] = []
    start = 0
    cuts = sorted([m.span() for m in _CUT.finditer(text)] + [m.span() for m in _AFTER_DISPLAY.finditer(text)])
    for left, right in cuts:
        if _ABBREVIATION.search(text[start:left]):
            continue
        pieces.append(text[start:right].strip())
        start = right
    pieces.append(text[start:].strip())
    return [piece for piece in pieces if piece]


def _kind(text: str) -> Kind:
    if re.fullmatch(rf"[{BLOCK}]", text):
        return "block"
    if text.startswith("("):
        return "note"
    if _FORMAT.match(text) and re.match(
        r"(?:\w+) (?:your|the|all|both|each|any)\b|round\b|enter\b", text, re.I
    ):
        return "format"
    if text.endswith("?") or _ASK_START.match(text) or _ASK_INSIDE.search(text):
        return "ask"
    return "fact"


def as_statement(fact: str) -> str | None:
    """ "Suppose that x is A." -> "x is A."; other statements stay; None where that is not safe."""
    if re.match(r"(?:Let|Define|Consider|Note|Recall|Imagine|Call|Denote|Draw|Given)\b", fact):
        return None
    return re.sub(r"^(?:Suppose|Assume)(?: that)? ", "", fact)


def listed(facts: list[str], heading: str) -> str | None:
    """Two to six facts as a list with a heading; None where a fact leans on its neighbor's words."""
    if not 2 <= len(facts) <= 6:
        return None
    for fact in facts:
        # "- 8 cats" reads as minus 8
        if not fact.endswith(".") or len(fact.split()) < 3 or fact[0].isdigit():
            return None
        if re.match(
            r"(?:However|Meanwhile|Finally|But|Then|And|Also|So|Thus|For example|"
            r"Instead|Now|Note|Recall|Next|Or|Here)\b",
            fact,
        ):
            return None
        if re.search(r"[\"“”:`]|\bfor example\b|\bbelow\b|\bfollowing\b|\bshown\b", fact):
            return None
    return "\n".join([heading, *(f"- {fact[0].upper()}{fact[1:]}" for fact in facts)])
