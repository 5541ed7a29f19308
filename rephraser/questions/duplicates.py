"""Questions that are nearly the same text: those with common passages, then an exact ratio; their kinds."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any
from zlib import crc32

from rephraser.questions.store import Member
from service.questions.question import Question
from service.telling import TellProgress

NEAR_RATIO = 90.0
WINDOW = 5  # bytes
SKETCH = 24  # hashes under which a text is kept
MOST_COMPARED = 40  # earlier texts compared with one text or kept under one hash: templates stay quick

EqualAnswers = Callable[[Sequence[tuple[str, str]]], Sequence[bool]]


@dataclass(frozen=True)
class Match:
    """The most similar earlier question: its key, the ratio of the texts, whether digits agree in order.

    The ratio is 100 if the texts are the same but for whitespace and case, else below.
    """

    key: int
    ratio: float
    same_digits: bool


class NearIndex:
    """Questions seen so far, and for a new one the most similar of those with the same images.

    The ratio is rapidfuzz's `fuzz.ratio` (twice the longest common subsequence, over both lengths) on texts
    without whitespace and case. A text is compared with those that share most of its smallest hashes of
    5-byte windows, up to `SKETCH` that have room for it. A template's own hashes are soon full, and so its
    texts are kept under what tells them apart. A pair just above the ratio can be missed, equal texts never.
    """

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}  # without whitespace and in one case
        self._equal: dict[Any, int] = {}  # the first key of each text with its images
        self._holders: defaultdict[Any, list[int]] = defaultdict(list)  # the first keys of each hash

    def nearest(self, question: Question, key: int | None = None) -> Match | None:
        """Return the most similar earlier question at or above the ratio, or None; then keep it under `key`.

        One with the same digits goes before one with others; of equals the earliest is taken.
        """
        text, images = "".join(question.text.split()).casefold(), question.images
        holders: list[list[int]] = []
        free: list[list[int]] = []  # hashes with room for a further key
        for each in _hashes(text):
            holders.append(keys := self._holders[images, each])
            if len(keys) < MOST_COMPARED:
                free.append(keys)
            if len(free) == SKETCH:
                break
        if (images, text) in self._equal:
            match: Match | None = Match(self._equal[images, text], 100.0, same_digits=True)
        else:
            match = self._compare(text, Counter(chain(*holders)), Counter(chain(*free)))
        if key is not None:
            self._texts[key] = text
            self._equal.setdefault((images, text), key)
            for keys in free:
                keys.append(key)
        return match

    def _compare(self, text: str, shared: Counter[int], rare: Counter[int]) -> Match | None:
        """Return the best match among keys, by how many rare hashes they share, then by how many of all."""
        from rapidfuzz import fuzz

        likely = sorted(shared, key=lambda key: (-rare[key], -shared[key], key))[:MOST_COMPARED]
        ratios = {key: fuzz.ratio(text, self._texts[key], score_cutoff=NEAR_RATIO) for key in sorted(likely)}
        digits = _digits(text)
        matches = (
            Match(key, ratio, _digits(self._texts[key]) == digits) for key, ratio in ratios.items() if ratio
        )
        return max(matches, key=lambda match: (match.same_digits, match.ratio), default=None)


def compare_members(
    members: Sequence[Member], equal: EqualAnswers, report: TellProgress = lambda done, total: None
) -> dict[str, list[dict[str, Any]]]:
    """Return pairs of rows by kind, each row with its most similar earlier one of the same images.

    A pair has its `row` and the `earlier` one (rows from 0), and the `ratio` (0 to 100) of their texts.

    conflicts: the same text (but for blanks and case) with another answer. near_duplicates: the same digits
    in the same order, and the same answer. look_alikes: similar wording, but other numbers or another
    answer, such as "find the sum" and "find the product": two problems, as a rule.

    `equal` says for pairs of answers whether they agree.
    """
    index = NearIndex()
    matches: dict[int, Match] = {}
    answers = {member.position: member.question.answer for member in members}
    for count, member in enumerate(members, 1):
        match = index.nearest(member.question, member.position)
        if match is not None:
            matches[member.position] = match
        report(count, len(members))
    same_digits = [row for row, match in matches.items() if match.same_digits]
    agree = equal([(answers[row], answers[matches[row].key]) for row in same_digits])
    agrees = dict(zip(same_digits, agree, strict=True))
    kinds: dict[str, list[dict[str, Any]]] = {"conflicts": [], "near_duplicates": [], "look_alikes": []}
    for row, match in matches.items():
        other = "conflicts" if match.ratio == 100 else "look_alikes"
        kind = "near_duplicates" if agrees.get(row) else other
        kinds[kind].append({"row": row, "earlier": match.key, "ratio": round(match.ratio, 1)})
    return kinds


def _digits(text: str) -> str:
    return "".join(char for char in text if char.isdecimal())


def _hashes(text: str) -> list[int]:
    """Return the hashes of a text's windows, smallest first; similar texts have most of them in common."""
    data = text.encode("utf-8", "surrogatepass")
    windows = {data[start : start + WINDOW] for start in range(max(1, len(data) - WINDOW + 1))}
    return sorted(map(crc32, windows))
