"""Questions that are nearly the same text: MinHash over 5-byte windows, then an exact ratio; their kinds."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.questions.question import Question
from service.questions.store import Member
from service.telling import TellProgress

if TYPE_CHECKING:
    pass

NEAR_RATIO = 90.0
WINDOW = 5  # bytes
SKETCH = 16
MOST_COMPARED = 40  # earlier texts compared with one text, so that thousands from one template stay quick

EqualAnswers = Callable[[Sequence[tuple[str, str]]], Sequence[bool]]


def comparable(text: str) -> str:
    """Return the text without any whitespace and in one case; texts that agree in this are "the same"."""
    return "".join(text.split()).casefold()


@dataclass(frozen=True)
class Match:
    """The most similar earlier text: its key, the ratio (0 to 100), whether the digits agree in order."""

    key: int
    ratio: float
    same_digits: bool


class NearIndex:
    """Questions seen so far, and for a new one the most similar of them.

    The ratio is rapidfuzz's `fuzz.ratio` (twice the longest common subsequence, over both lengths) on texts
    without whitespace and case. Texts are compared if they share two of the 16 least hashes of their 5-byte
    windows (MinHash), so a pair just above the ratio can be missed: on MATH's training split seven of more
    than 500. Deterministic.
    """

    def __init__(self) -> None:
        self._texts: dict[int, tuple[str, str]] = {}  # without whitespace and case; its digits
        self._buckets: dict[tuple[tuple[str, ...], int], list[int]] = {}  # by images and window

    def nearest(self, question: Question, *, add: int | None = None) -> Match | None:
        """Return the most similar earlier text of the same images at or above the ratio, or None.

        One with the same digits goes before one with others; of equals the earliest is taken. Afterwards the
        question is kept under the number `add`, if there is one.
        """
        from rapidfuzz import fuzz

        text = comparable(question.text)
        digits = _digits(text)
        sketch = [(question.images, window) for window in _sketch(text)]
        shared = Counter(key for part in sketch for key in self._buckets.get(part, ())[:MOST_COMPARED])
        least = min(2, len(sketch))
        likely = sorted(
            (key for key, times in shared.items() if times >= least), key=lambda key: (-shared[key], key)
        )[:MOST_COMPARED]
        best: Match | None = None
        for key in sorted(likely):
            other, other_digits = self._texts[key]
            ratio = fuzz.ratio(text, other, score_cutoff=NEAR_RATIO)
            match = Match(key, ratio, other_digits == digits)
            if ratio and (best is None or (match.same_digits, ratio) > (best.same_digits, best.ratio)):
                best = match
        if add is not None:
            self._texts[add] = text, digits
            for part in sketch:
                self._buckets.setdefault(part, []).append(add)
        return best


@dataclass(frozen=True)
class Pair:
    """A row that resembles an earlier one (rows from 0), and the ratio (0 to 100) of their texts."""

    row: int
    earlier: int
    ratio: float


@dataclass(frozen=True)
class Likeness:
    """Pairs of rows, each row with its most similar earlier one.

    conflicts: the same text (but for blanks and case) with another answer. near_duplicates: the same digits
    in the same order, and the same answer. look_alikes: similar wording, but other numbers or another
    answer, such as "find the sum" and "find the product": two problems, as a rule.
    """

    conflicts: tuple[Pair, ...]
    near_duplicates: tuple[Pair, ...]
    look_alikes: tuple[Pair, ...]


def compare_members(
    members: Sequence[Member], equal: EqualAnswers, report: TellProgress = lambda done, total: None
) -> Likeness:
    """Compare each member with the earlier ones of the same images.

    `equal` says for pairs of answers whether they agree.
    """
    index = NearIndex()
    pairs: list[Pair] = []
    same_digits: list[Pair] = []
    by_position = {member.position: member.question for member in members}
    for count, member in enumerate(members, 1):
        match = index.nearest(member.question, add=member.position)
        if match is not None:
            pair = Pair(member.position, match.key, round(match.ratio, 1))
            (same_digits if match.same_digits else pairs).append(pair)
        if count % 200 == 0 or count == len(members):
            report(count, len(members))
    answers = [(by_position[pair.row].answer, by_position[pair.earlier].answer) for pair in same_digits]
    conflicts: list[Pair] = []
    near: list[Pair] = []
    for pair, agrees in zip(same_digits, equal(answers), strict=True):
        texts = [comparable(by_position[row].text) for row in (pair.row, pair.earlier)]
        if agrees:
            near.append(pair)
        elif texts[0] == texts[1]:
            conflicts.append(pair)
        else:
            pairs.append(pair)
    return Likeness(tuple(conflicts), tuple(near), tuple(sorted(pairs, key=lambda pair: pair.row)))


def _digits(text: str) -> str:
    return "".join(char for char in text if char.isdecimal())


def _sketch(text: str) -> list[int]:
    """Return the least hashes of the windows of a text; a short text counts as one window."""
    import numpy as np

    raw = np.frombuffer(text.encode("utf-8", "surrogatepass").ljust(WINDOW, b"\0"), dtype=np.uint8)
    count = len(raw) - WINDOW + 1
    packed: Any = np.zeros(count, dtype=np.uint64)
    for offset in range(WINDOW):
        packed = (packed << np.uint64(8)) | raw[offset : offset + count]
    packed = np.unique(packed)
    # splitmix64's finaliser: multiplication alone would keep the order of small windows.
    packed = (packed ^ (packed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    packed = (packed ^ (packed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    sketch: list[int] = np.sort(packed ^ (packed >> np.uint64(31)))[:SKETCH].tolist()
    return sketch
