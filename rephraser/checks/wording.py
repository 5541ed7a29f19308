"""How alike two wordings are, and which of several lie furthest apart."""

import re
from collections.abc import Iterable, Sequence

_FIGURE = re.compile(
    r"\[asy\].*?(?:\[/asy\]|\Z)|\\begin\{(tikzpicture|asy)\}.*?(?:\\end\{\1\}|\Z)", re.DOTALL | re.IGNORECASE
)
_WORD = re.compile(r"\\?[^\W\d_]+|\d+(?:[.,]\d+)*")
DIGITS = 4

MIN_DISTANCE = 0.15
"""Candidates nearer than this are no neighbors by default; `docs/sets.md` has the pairs it was chosen on."""


def usual_distance(proposers: Iterable[str]) -> float:
    """Return the least distance for candidates of these proposers: none where all are made by rules.

    Rules only exchange words; two of three of their candidates would be refused.
    """
    return 0.0 if set(proposers) == {"rules"} else MIN_DISTANCE


def wording(text: str) -> tuple[str, ...]:
    """Return the words, LaTeX commands and numbers of a text in order, in lower case, without figure code.

    Figure code has to be kept as it is, so that it says nothing about the wording.
    """
    return tuple(_WORD.findall(_FIGURE.sub(" ", text).casefold()))


def likeness(first: str, second: str) -> float:
    """Return the share of words that two texts have in common in the same order, 0 to 1, to 4 digits.

    Twice the longest common subsequence of words over the words of both (rapidfuzz's `fuzz.ratio` of word
    sequences), so that another order of the information counts as much as other words. 1 for two texts
    without words.
    """
    return likeness_of_words(wording(first), wording(second))


def likeness_of_words(first: Sequence[str], second: Sequence[str]) -> float:
    """Return `likeness` for texts that `wording` took apart."""
    from rapidfuzz.distance import Indel

    return round(Indel.normalized_similarity(first, second), DIGITS)


def distance(first: str, second: str) -> float:
    """Return 1 - likeness."""
    return round(1 - likeness(first, second), DIGITS)


def choose_apart(
    chosen: Sequence[Sequence[str]],
    candidates: Sequence[Sequence[str]],
    n: int | None,
    min_distance: float,
) -> list[int]:
    """Return the places of up to `n` candidates, each chosen as far as can be from all that is chosen.

    Greedy: each next one is that whose nearest among the question, what was chosen before and those chosen
    here is furthest away; of equals the earlier one. None is nearer than `min_distance` to any of them.

    Args:
        chosen: the question's wording and those of neighbors chosen before.
        candidates: wordings to choose from.
    """

    def away(first: Sequence[str], second: Sequence[str]) -> float:
        return round(1 - likeness_of_words(first, second), DIGITS)

    nearest = {place: min(away(words, other) for other in chosen) for place, words in enumerate(candidates)}
    found: list[int] = []
    while nearest and (n is None or len(found) < n):
        best = max(nearest, key=lambda place: (nearest[place], -place))
        if nearest.pop(best) < min_distance:
            break
        found.append(best)
        for place in nearest:
            nearest[place] = min(nearest[place], away(candidates[place], candidates[best]))
    return found
