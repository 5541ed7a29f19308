"""Finds the texts of a set that repeat problems of a benchmark: exactly, nearly, or in long stretches."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from service.questions.contamination.words import numbers, words
from service.questions.duplicates import EqualAnswers
from service.questions.images import PLACEHOLDER
from service.telling import TellProgress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EXACT, FUZZY, NGRAM, VARIANT = "exact", "fuzzy", "n-gram", "variant"
MEASURES = (EXACT, FUZZY, NGRAM, VARIANT)
BINS = 64  # of the histogram of characters
VERSION = 1  # of what is found with the same settings


class Text(NamedTuple):
    """A text of either side; the answer, where it is known, tells repeats from look-alikes, as do images."""

    id: str
    text: str
    answer: str | None = None
    images: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """`n` words make an n-gram; `containment` (0 to 1) and `ratio` (0 to 100) are reached or passed.

    An n-gram in more than `common` texts is boilerplate ("enter the letter of the correct option") and is not
    counted.
    """

    n: int = 8
    containment: float = 0.5
    ratio: float = 90.0
    common: int = 10

    def to_json(self) -> dict[str, Any]:
        """Return the form that is stored with a check."""
        return {**asdict(self), "version": VERSION}


@dataclass(frozen=True)
class Overlap:
    """A text that repeats a problem: by its strongest measure, with that measure's score.

    exact (100): the same words. fuzzy: rapidfuzz's ratio of the words' characters. n-gram: the share of the
    problem's n-grams that are in the text, in percent. variant: worded alike by one of these, but with other
    numbers, another answer or other images, so another problem as a rule; its score is the larger of the two.
    """

    source_id: str
    problem_id: str
    measure: str
    score: float


def find_overlaps(
    sources: Sequence[Text],
    problems: Sequence[Text],
    settings: Settings = Settings(),
    *,
    equal: EqualAnswers | None = None,
    progress: TellProgress | None = None,
) -> list[Overlap]:
    """Return the pairs of texts and problems that overlap, in the order of the problems, then of the texts.

    Nothing is sampled: every pair at or above a threshold is found. Which pairs need a ratio at all is
    decided by lengths and by counts of characters, from which an upper bound of the ratio follows.

    Args:
        equal: says for pairs of answers whether they agree; by default as spelled, blanks and case aside.
        progress: called with the number of problems compared and of all problems.
    """
    ours = [text for text in map(_read, sources) if text.words]
    theirs = [text for text in map(_read, problems) if text.words]
    if not ours or not theirs:
        return []
    grams = _Grams(ours, settings)
    near = _Near(ours, settings.ratio)
    pairs: list[_Pair] = []
    for count, problem in enumerate(theirs, 1):
        contained = grams.containment(problem.words)
        ratios = near.ratios(problem)
        for place in sorted(contained.keys() | ratios.keys()):
            share = 100 * contained.get(place, 0.0)
            pairs.append(_pair(ours[place], problem, ratios.get(place, 0.0), share))
        if progress is not None and (count % 50 == 0 or count == len(theirs)):
            progress(count, len(theirs))
    return _with_answers(pairs, equal or _spelled_alike)


class _Read(NamedTuple):
    """A text as its words, with the numbers among them; `joined` are the words without blanks."""

    id: str
    answer: str | None
    words: list[str]
    numbers: list[str]
    joined: str
    images: frozenset[str]


def _read(text: Text) -> _Read:
    spelled = words(text.text.replace(PLACEHOLDER, " ") if text.images else text.text)
    return _Read(text.id, text.answer, spelled, numbers(spelled), "".join(spelled), frozenset(text.images))


class _Pair(NamedTuple):
    """A text and a problem that overlap, before their answers are looked at."""

    text: _Read
    problem: _Read
    measure: str
    score: float


def _pair(text: _Read, problem: _Read, ratio: float, share: float) -> _Pair:
    """Return how the two overlap; `ratio` and `share`, in percent, are 0 below their thresholds."""
    alike = text.words == problem.words
    if text.images != problem.images:
        return _Pair(text, problem, VARIANT, 100.0 if alike else max(ratio, share))
    if alike:
        return _Pair(text, problem, EXACT, 100.0)
    if ratio and text.numbers == problem.numbers:
        return _Pair(text, problem, FUZZY, ratio)
    if share and not Counter(problem.numbers) - Counter(text.numbers):
        return _Pair(text, problem, NGRAM, share)
    return _Pair(text, problem, VARIANT, max(ratio, share))


def _spelled_alike(pairs: Sequence[tuple[str, str]]) -> list[bool]:
    return [words(first) == words(second) for first, second in pairs]


def _with_answers(pairs: Sequence[_Pair], equal: EqualAnswers) -> list[Overlap]:
    """A pair whose answers are known and differ is two problems, unless the words are the same."""
    answers = {
        place: (pair.text.answer, pair.problem.answer)
        for place, pair in enumerate(pairs)
        if pair.measure in (FUZZY, NGRAM) and pair.text.answer and pair.problem.answer
    }
    agreed = dict(zip(answers, equal(list(answers.values())), strict=True))
    return [
        Overlap(
            pair.text.id,
            pair.problem.id,
            pair.measure if agreed.get(place, True) else VARIANT,
            round(pair.score, 1),
        )
        for place, pair in enumerate(pairs)
    ]


class _Grams:
    """Which texts hold an n-gram: hashes of all n-grams in order, each with the text it is from.

    A text shorter than n words counts as one n-gram.
    """

    def __init__(self, texts: Sequence[_Read], settings: Settings) -> None:
        import numpy as np

        self._settings = settings
        parts = [_gram_hashes(text.words, settings.n) for text in texts]
        owners = np.repeat(np.arange(len(texts), dtype=np.int32), [len(part) for part in parts])
        hashes = np.concatenate(parts)
        order = np.argsort(hashes, kind="stable")
        self._hashes, self._owners = hashes[order], owners[order]

    def containment(self, sequence: list[str]) -> dict[int, float]:
        """Return the texts that hold enough of the n-grams of a sequence, with their share."""
        import numpy as np

        wanted = _gram_hashes(sequence, self._settings.n)
        first = np.searchsorted(self._hashes, wanted, "left")
        last = np.searchsorted(self._hashes, wanted, "right")
        telling = last - first <= self._settings.common
        parts = [
            self._owners[start:stop]
            for start, stop in zip(first[telling], last[telling], strict=True)
            if stop > start
        ]
        if not parts:
            return {}
        owners, shared = np.unique(np.concatenate(parts), return_counts=True)
        shares = shared / telling.sum()
        enough = shares >= self._settings.containment
        return dict(zip(owners[enough].tolist(), shares[enough].tolist(), strict=True))


def _gram_hashes(sequence: list[str], n: int) -> "NDArray[np.int64]":
    """The different n-grams of a sequence as 64-bit hashes, which hold within this process."""
    import numpy as np

    count = max(1, len(sequence) - n + 1) if sequence else 0
    return np.unique(
        np.fromiter((hash(tuple(sequence[at : at + n])) for at in range(count)), np.int64, count=count)
    )


class _Near:
    """Ratios at or above a threshold. A pair's distance is at least that of its counts of characters."""

    def __init__(self, texts: Sequence[_Read], ratio: float) -> None:
        import numpy as np

        self._cutoff = ratio
        self._share = 1 - ratio / 100  # the distance that is allowed, in shares of both lengths together
        order = sorted(range(len(texts)), key=lambda place: (len(texts[place].joined), place))
        self._places = order
        self._texts = [texts[place].joined for place in order]
        self._lengths = np.array([len(text) for text in self._texts])
        self._counts = np.stack([_histogram(text) for text in self._texts])

    def ratios(self, problem: _Read) -> dict[int, float]:
        """Return the texts whose ratio reaches the threshold, with the ratio."""
        import numpy as np
        from rapidfuzz import fuzz

        length = len(problem.joined)
        if not length:
            return {}
        spread = (1 + self._share) / (1 - self._share)
        first = int(np.searchsorted(self._lengths, int(length / spread), "left"))
        last = int(np.searchsorted(self._lengths, int(length * spread) + 1, "right"))
        distance = np.abs(self._counts[first:last] - _histogram(problem.joined)).sum(axis=1)
        allowed = self._share * (self._lengths[first:last] + length) + 1e-9
        near = {}
        for at in np.nonzero(distance <= allowed)[0] + first:
            ratio = fuzz.ratio(problem.joined, self._texts[at], score_cutoff=self._cutoff)
            if ratio >= self._cutoff:
                near[self._places[at]] = float(ratio)
        return near


def _histogram(text: str) -> "NDArray[np.int32]":
    import numpy as np

    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    return np.bincount(codes % BINS, minlength=BINS).astype(np.int32)
