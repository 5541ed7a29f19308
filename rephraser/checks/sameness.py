"""A candidate that repeats the original or a sibling; one that nearly does is checked more strictly."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from rephraser.checks.finding import Finding, noticed
from rephraser.checks.wording import distance

_KEPT = re.compile(r"\\[a-z]+|\w|[-+*/=<>^_|!%&()\[\]]")
_IGNORED = re.compile(
    r"\$|\\[()\[\],;:! ]|\\(?:left|right|d(?=frac)|t(?=frac)|q?quad|displaystyle)\b|\bd(?=frac)"
)
_WORD = re.compile(r"\\?[A-Za-z]+|\d+(?:[.,]\d+)*|[^\s\w]")
VERBATIM = 0.8
VERBATIM_PROSE = 0.7


def skeleton(text: str) -> str:
    """The text without white space, case, punctuation and dollar signs; the signs of formulas stay."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    plain = _IGNORED.sub("", plain.replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac"))
    return "".join(_KEPT.findall(plain.replace("{", "").replace("}", "")))


def check_sameness(
    question: str, candidate: str, siblings: Sequence[str], min_distance: float = 0.0
) -> list[Finding]:
    """Findings same_as_original, same_as_sibling, and nearer than `min_distance`: too_like_*; all fatal."""
    own = skeleton(candidate)
    findings = []
    if own == skeleton(question):
        findings.append(noticed("same_as_original", "the candidate repeats the original"))
    for i, sibling in enumerate(siblings, start=1):
        if own == skeleton(sibling):
            findings.append(noticed("same_as_sibling", f"the candidate repeats its sibling number {i}"))
            break
    return findings or _too_like(question, candidate, siblings, min_distance)


def _too_like(question: str, candidate: str, siblings: Sequence[str], least: float) -> list[Finding]:
    """Refuse what would pose the problem in nearly the same words: eight more responses to one prompt."""
    if not least:
        return []
    others = [("original", question), *((f"sibling number {i}", text) for i, text in enumerate(siblings, 1))]
    for name, text in others:
        apart = distance(text, candidate)
        if apart < least:
            kind = "too_like_original" if name == "original" else "too_like_sibling"
            return [
                noticed(
                    kind,
                    f"its words are {apart:.0%} other than those of the {name}, at least {least:.0%} are "
                    "wanted: another structure, order or setting, not single words",
                )
            ]
    return []


def likeness(first: str, second: str) -> float:
    """Share of word pairs two texts have in common (Dice, 0 to 1); 1 for two empty texts."""
    a, b = _pairs(first), _pairs(second)
    size = sum(a.values()) + sum(b.values())
    return 2 * sum((a & b).values()) / size if size else 1.0


def _pairs(text: str) -> Counter[tuple[str, str]]:
    words = ["", *_WORD.findall(text.lower()), ""]
    return Counter(pairwise(words))
