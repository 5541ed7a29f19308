"""Questions that are nearly the same text: MinHash over 5-byte windows, then an exact ratio; their kinds."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.questions.question import Question
from service.questions.store import Member
from service.telling import TellProgress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NEAR_RATIO = 90.0
WINDOW = 5  # bytes
BANDS = 16
ROWS_PER_BAND = 4
MOST_COMPARED = 40  # earlier texts compared with one text, so that thousands from one template stay quick
CHUNK = 4096  # windows hashed at once: 64 hashes x 4096 x 8 bytes stay in the cache

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
    without whitespace and case. Which texts are compared is decided by MinHash: 64 hashes of the 5-byte
    windows, in 16 bands of 4. Two texts that share 70% of their windows meet with probability 0.99, 50%
    with 0.64; so a pair just above the ratio can be missed, while equal texts never are. Deterministic.
    """

    def __init__(self) -> None:
        import numpy as np

        self._texts: dict[int, str] = {}  # without whitespace and in one case
        self._equal: dict[Any, int] = {}  # the first key of each text with its images
        self._buckets: defaultdict[Any, list[int]] = defaultdict(list)
        rng = np.random.default_rng(20240229)  # any fixed seed: the hash functions only have to stay the same
        size = BANDS * ROWS_PER_BAND
        self._multipliers: NDArray[np.uint64] = rng.integers(1, 2**63, size, dtype=np.uint64) * np.uint64(
            2
        ) + np.uint64(1)

    def nearest(self, question: Question, key: int | None = None) -> Match | None:
        """Return the most similar earlier question at or above the ratio, or None; then keep it under `key`.

        One with the same digits goes before one with others; of equals the earliest is taken.
        """
        text = "".join(question.text.split()).casefold()
        equal, images = (question.images, text), question.images
        buckets = [self._buckets[images, band] for band in self._bands(text)]
        if equal in self._equal:
            match: Match | None = Match(self._equal[equal], 100.0, same_digits=True)
        else:
            match = self._compare(text, Counter(key for keys in buckets for key in keys[:MOST_COMPARED]))
        if key is not None:
            self._texts[key] = text
            self._equal.setdefault(equal, key)
            for keys in buckets:
                keys.append(key)
        return match

    def _compare(self, text: str, shared: Counter[int]) -> Match | None:
        """Return the best match among keys, by how many bands they share."""
        from rapidfuzz import fuzz

        likely = sorted(shared, key=lambda key: (-shared[key], key))[:MOST_COMPARED]
        ratios = {key: fuzz.ratio(text, self._texts[key], score_cutoff=NEAR_RATIO) for key in sorted(likely)}
        digits = _digits(text)
        matches = (
            Match(key, ratio, _digits(self._texts[key]) == digits) for key, ratio in ratios.items() if ratio
        )
        return max(matches, key=lambda match: (match.same_digits, match.ratio), default=None)

    def _bands(self, text: str) -> list[tuple[int, bytes]]:
        import numpy as np

        windows = _windows(text)
        signature = np.full(len(self._multipliers), np.iinfo(np.uint64).max, dtype=np.uint64)
        for start in range(0, len(windows), CHUNK):
            hashed = self._multipliers[:, None] * windows[None, start : start + CHUNK]
            np.minimum(signature, hashed.min(axis=1), out=signature)
        rows = signature.reshape(BANDS, ROWS_PER_BAND)
        return [(band, rows[band].tobytes()) for band in range(BANDS)]


@dataclass(frozen=True)
class Pair:
    """A row that resembles an earlier one (rows from 0), and the ratio (0 to 100) of their texts."""

    row: int
    earlier: int
    ratio: float


def compare_members(
    members: Sequence[Member], equal: EqualAnswers, report: TellProgress = lambda done, total: None
) -> dict[str, list[Pair]]:
    """Return pairs of rows by kind, each row with its most similar earlier one of the same images.

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
        if count % 200 == 0 or count == len(members):
            report(count, len(members))
    same_digits = [row for row, match in matches.items() if match.same_digits]
    agree = equal([(answers[row], answers[matches[row].key]) for row in same_digits])
    agrees = dict(zip(same_digits, agree, strict=True))
    kinds: dict[str, list[Pair]] = {"conflicts": [], "near_duplicates": [], "look_alikes": []}
    for row, match in matches.items():
        other = "conflicts" if match.ratio == 100 else "look_alikes"
        kind = "near_duplicates" if agrees.get(row) else other
        kinds[kind].append(Pair(row, match.key, round(match.ratio, 1)))
    return kinds


def _digits(text: str) -> str:
    return "".join(char for char in text if char.isdecimal())


def _windows(text: str) -> "NDArray[np.uint64]":
    """Return every window of 5 bytes as one well-mixed 64-bit number; a short text counts as one window."""
    import numpy as np

    raw = np.frombuffer(text.encode("utf-8", "surrogatepass").ljust(WINDOW, b"\0"), dtype=np.uint8)
    windows = np.lib.stride_tricks.sliding_window_view(raw.astype(np.uint64), WINDOW)
    packed: Any = np.unique(windows @ np.uint64(256) ** np.arange(WINDOW, dtype=np.uint64)[::-1])
    # splitmix64's finaliser: multiplication alone would keep the order of small windows.
    packed = (packed ^ (packed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    packed = (packed ^ (packed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return packed ^ (packed >> np.uint64(31))  # type: ignore[no-any-return]
