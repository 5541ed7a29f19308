"""Questions that are nearly the same text: MinHash over 5-byte windows, then an exact ratio; their kinds."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
    """Texts seen so far, and for a new one the most similar of them.

    The ratio is rapidfuzz's `fuzz.ratio` (twice the longest common subsequence, over both lengths) on texts
    without whitespace and case. Which texts are compared is decided by MinHash: 64 hashes of the 5-byte
    windows, in 16 bands of 4. Two texts that share 70% of their windows meet with probability 0.99, 50%
    with 0.64; so a pair just above the ratio can be missed, while equal texts never are. Deterministic.
    """

    def __init__(self) -> None:
        import numpy as np

        self._texts: dict[int, tuple[str, str]] = {}  # without whitespace and case; its digits
        self._equal: dict[str, int] = {}  # the first key of each text
        self._buckets: dict[tuple[int, bytes], list[int]] = {}
        rng = np.random.default_rng(20240229)  # any fixed seed: the hash functions only have to stay the same
        size = BANDS * ROWS_PER_BAND
        self._multipliers: NDArray[np.uint64] = rng.integers(1, 2**63, size, dtype=np.uint64) * np.uint64(
            2
        ) + np.uint64(1)

    def nearest(self, text: str) -> Match | None:
        """Return the most similar earlier text at or above the ratio, or None.

        One with the same digits goes before one with others; of equals the earliest is taken.
        """
        text = comparable(text)
        return self._nearest(text, self._bands(text))

    def add(self, key: int, text: str) -> Match | None:
        """Look the text up as `nearest` does, then keep it under `key`."""
        text = comparable(text)
        bands = self._bands(text)
        match = self._nearest(text, bands)
        self._texts[key] = (text, _digits(text))
        self._equal.setdefault(text, key)
        for band in bands:
            self._buckets.setdefault(band, []).append(key)
        return match

    def _nearest(self, text: str, bands: list[tuple[int, bytes]]) -> Match | None:
        from rapidfuzz import fuzz

        if text in self._equal:
            return Match(self._equal[text], 100.0, same_digits=True)
        shared: dict[int, int] = {}
        for band in bands:
            for key in self._buckets.get(band, ())[:MOST_COMPARED]:
                shared[key] = shared.get(key, 0) + 1
        best: Match | None = None
        digits = _digits(text)
        likely = sorted(shared, key=lambda key: (-shared[key], key))[:MOST_COMPARED]
        for key in sorted(likely):
            other, other_digits = self._texts[key]
            ratio = fuzz.ratio(text, other, score_cutoff=NEAR_RATIO)
            if ratio < NEAR_RATIO:
                continue
            match = Match(key, ratio, other_digits == digits)
            if best is None or (match.same_digits, match.ratio) > (best.same_digits, best.ratio):
                best = match
        return best

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
    indexes: defaultdict[tuple[str, ...], NearIndex] = defaultdict(NearIndex)  # by images
    pairs: list[Pair] = []
    same_digits: list[Pair] = []
    by_position = {member.position: member.question for member in members}
    for count, member in enumerate(members, 1):
        match = indexes[member.question.images].add(member.position, member.question.text)
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


def _windows(text: str) -> "NDArray[np.uint64]":
    """Return every window of 5 bytes as one well-mixed 64-bit number; a short text counts as one window."""
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
    return packed ^ (packed >> np.uint64(31))  # type: ignore[no-any-return]
