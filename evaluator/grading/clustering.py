"""Groups answers into classes by comparing them with one representative a class. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from evaluator.grading.normalize import normalize, too_long
from evaluator.grading.types import Clustering, ClusterJob, GradeValue

Pair = tuple[str, str]


def spellings(answers: Sequence[str | None]) -> tuple[list[str | None], dict[str, str]]:
    """The spelling of each answer (None when absent), and a raw text for each spelling, the shortest.

    Answers too long to be read count as absent.
    """
    keys: list[str | None] = []
    raw: dict[str, str] = {}
    for answer in answers:
        absent = answer is None or not answer.strip() or too_long(answer)
        key = None if answer is None or absent else normalize(answer) or None
        keys.append(key)
        if key is not None and answer is not None:
            raw[key] = min(raw.get(key, answer), answer, key=_plainness)
    return keys, raw


class Grouping:
    """The answers of one question on their way into classes; ask `pairs`, answer by `place`, to the end.

    Representatives are the gold, then the most frequent spellings, so that a chance resemblance of a rare
    answer cannot split a common class. Each takes all answers that equal it. An answer whose comparison with
    one stayed unknown represents no class: it may be the same. The order of the answers plays no part.
    """

    def __init__(self, job: ClusterJob, readable: Callable[[str], bool]) -> None:
        self._keys, self._raw = spellings(job.answers)
        [gold], raw_gold = spellings([job.gold])
        self._raw |= raw_gold
        self._readable = readable
        counts = Counter(key for key in self._keys if key is not None)
        order = sorted(counts, key=lambda key: (-counts[key], *_plainness(key)))
        self._rest = [key for key in order if key != gold]
        self._gold, self._gold_seen = gold, gold in counts
        self._classes: list[str] = []
        self._class_of: dict[str, int] = {}
        self._doubtful: set[str] = set()
        self._unknown = 0
        self._open(gold if gold is not None else self._next())

    @property
    def pairs(self) -> list[Pair]:
        """The comparisons that are wanted next, as raw texts; none once all answers are placed."""
        if self._leader is None:
            return []
        return [(self._raw[self._leader], self._raw[key]) for key in self._rest]

    def place(self, equal: Mapping[Pair, GradeValue]) -> None:
        """Takes the outcomes of `pairs`."""
        values = dict(zip(self._rest, map(equal.__getitem__, self.pairs), strict=True))
        same = {key for key, value in values.items() if value is GradeValue.CORRECT}
        unknown = [key for key, value in values.items() if value is GradeValue.UNKNOWN]
        doubtful = {key for key in unknown if self._readable(self._raw[key])}
        self._unknown += len(unknown)
        self._class_of.update(dict.fromkeys(same, len(self._classes) - 1))
        self._rest = [key for key in self._rest if key not in same]
        if doubtful and self._leader == self._gold and not same and not self._gold_seen:
            # No answer stands behind the gold: one that may equal it can still represent a class.
            self._gold = None
            self._classes.clear()
        else:
            self._doubtful |= doubtful
        self._open(self._next())

    def result(self) -> Clustering:
        """The classes, once nothing is wanted any more."""
        unsettled = self._doubtful.intersection(self._rest)
        return Clustering(
            classes=tuple(self._raw[key] for key in self._classes),
            assignment=tuple(self._class_of.get(key) if key is not None else None for key in self._keys),
            gold=0 if self._gold is not None else None,
            unknown=self._unknown,
            unsettled=tuple(place for place, key in enumerate(self._keys) if key in unsettled),
        )

    def _next(self) -> str | None:
        """The first answer left that can represent a class."""
        return next(
            (key for key in self._rest if key not in self._doubtful and self._readable(self._raw[key])), None
        )

    def _open(self, leader: str | None) -> None:
        self._leader = leader
        if leader is not None:
            self._class_of[leader] = len(self._classes)
            self._classes.append(leader)
            self._rest = [key for key in self._rest if key != leader]


def _plainness(text: str) -> tuple[int, str]:
    return len(text), text
