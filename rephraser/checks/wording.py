"""Similarity of wordings: repetitions, near-repetitions, and the most different of several."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from rephraser.checks.finding import Finding
from rephraser.checks.reading import FIGURE
from rephraser.config import MIN_DISTANCE

_WORD = re.compile(r"\\?[^\W\d_]+|\d+(?:[.,]\d+)*")
DIGITS = 4


def usual_distance(proposers: Iterable[str]) -> float:
    """Return the least distance for candidates of these proposers: none where all are made by rules.

    Rules only exchange words; two of three of their candidates would be refused.
    """
    return 0.0 if set(proposers) == {"rules"} else MIN_DISTANCE


@lru_cache(maxsize=256)
def wording(text: str) -> tuple[str, ...]:
    """Return the words, LaTeX commands and numbers of a text in order, in lower case, without figure code.

    Figure code has to be kept as it is, so that it says nothing about the wording.
    """
    return tuple(_WORD.findall(FIGURE.sub(" ", text).casefold()))


def likeness(first: str, second: str) -> float:
    """Return the share of words that two texts have in common in the same order, 0 to 1, to 4 digits.

    Twice the longest common subsequence of words over the words of both (rapidfuzz's `fuzz.ratio` of word
    sequences), so that another order of the information counts as much as other words. 1 for two texts
    without words.
    """
    from rapidfuzz.distance import Indel

    return round(Indel.normalized_similarity(wording(first), wording(second)), DIGITS)


def distance(first: str, second: str) -> float:
    """Return 1 - likeness."""
    return round(1 - likeness(first, second), DIGITS)


def choose_apart(
    question: str,
    candidates: Sequence[str],
    ranks: Sequence[tuple[int, ...]],
    n: int | None,
    min_distance: float,
) -> tuple[list[int], int]:
    """Return the places of up to `n` candidates, as far as can be from all that is chosen, in their order.

    Greedy: each next one is, of those of the lowest rank, that whose nearest among the question and what is
    chosen is furthest away; of equals the earlier one. None is nearer than `min_distance` to any of them:
    how many of those left over are, is returned too.
    """
    nearest = {place: distance(question, text) for place, text in enumerate(candidates)}
    chosen: list[int] = []
    while True:
        far = [place for place, apart in nearest.items() if apart >= min_distance]
        if not far or len(chosen) == n:
            return chosen, len(nearest) - len(far)
        best = min(far, key=lambda place: (ranks[place], -nearest[place], place))
        chosen.append(best)
        del nearest[best]
        for place in nearest:
            nearest[place] = min(nearest[place], distance(candidates[place], candidates[best]))


_KEPT = re.compile(r"\\[a-z]+|\w|[-+*/=<>^_|!%&()\[\]]")
_IGNORED = re.compile(
    r"\$|\\[()\[\],;:! ]|\\(?:left|right|d(?=frac)|t(?=frac)|q?quad|displaystyle)\b|\bd(?=frac)"
)


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
        findings.append(Finding("same_as_original", "the candidate repeats the original"))
    same = next((i for i, sibling in enumerate(siblings, start=1) if own == skeleton(sibling)), None)
    if same is not None:
        findings.append(Finding("same_as_sibling", f"the candidate repeats its sibling number {same}"))
    if findings or not min_distance:
        return findings
    for i, text in enumerate((question, *siblings)):
        apart = distance(text, candidate)
        if apart < min_distance:
            name = f"sibling number {i}" if i else "original"
            what = (
                f"{apart:.0%} of its words differ from those of the {name}, but at least {min_distance:.0%} "
                "must differ: change structure, order or setting, not single words"
            )
            return [Finding("too_like_sibling" if i else "too_like_original", what)]
    return []
