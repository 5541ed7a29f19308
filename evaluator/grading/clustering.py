"""Groups answers into classes, given which pairs of distinct answers are equal. Pure."""

from collections.abc import Callable, Mapping

from evaluator.grading import normal
from evaluator.grading.compare import too_long
from evaluator.grading.types import Clustering, ClusterJob, GradeValue

Pair = tuple[str, str]


def keys_of(job: ClusterJob) -> tuple[list[str | None], dict[str, str], str | None]:
    """The spelling of each answer (None when absent), a raw text for each spelling, and the gold's spelling.

    Answers too long to be read count as absent.
    """
    raw: dict[str, str] = {}

    def key(answer: str | None) -> str | None:
        if answer is None or not answer.strip() or too_long(answer):
            return None
        spelled = normal.tidy(answer)
        if not spelled:
            return None
        raw.setdefault(spelled, answer)
        return spelled

    gold = key(job.gold)
    return [key(answer) for answer in job.answers], raw, gold


def pairs_of(job: ClusterJob) -> list[Pair]:
    """All pairs of distinct spellings among the answers and the gold, as raw texts."""
    keys, raw, gold = keys_of(job)
    distinct = list(dict.fromkeys(key for key in [gold, *keys] if key is not None))
    return [
        (raw[first], raw[second])
        for position, first in enumerate(distinct)
        for second in distinct[position + 1 :]
    ]


def group(job: ClusterJob, equal: Mapping[Pair, GradeValue], readable: Callable[[str], bool]) -> Clustering:
    """Puts each answer into the first class whose representative it equals; the gold's class comes first.

    Representatives are taken in order of frequency, so that a chance resemblance of a rare answer cannot
    split a common class. An answer alone in its class that cannot be read has no class (None).
    """
    keys, raw, gold = keys_of(job)
    counts: dict[str, int] = {}
    for key in keys:
        if key is not None:
            counts[key] = counts.get(key, 0) + 1
    order = sorted(counts, key=lambda key: -counts[key])
    classes: list[str] = [gold] if gold is not None else []
    class_of: dict[str, int] = {gold: 0} if gold is not None else {}
    for key in order:
        if key in class_of:
            continue
        found = next(
            (
                index
                for index, kept in enumerate(classes)
                if _value(equal, raw, kept, key) is GradeValue.CORRECT
            ),
            None,
        )
        if found is None and readable(raw[key]):
            found = len(classes)
            classes.append(key)
        if found is not None:
            class_of[key] = found
    unknown = sum(
        equal.get(pair) is GradeValue.UNKNOWN or equal.get(pair[::-1]) is GradeValue.UNKNOWN
        for pair in pairs_of(job)
    )
    return Clustering(
        classes=tuple(raw[key] for key in classes),
        assignment=tuple(class_of.get(key) if key is not None else None for key in keys),
        gold=0 if gold is not None else None,
        unknown=unknown,
    )


def _value(
    equal: Mapping[Pair, GradeValue], raw: Mapping[str, str], first: str, second: str
) -> GradeValue | None:
    one, other = raw[first], raw[second]
    return equal.get((one, other)) or equal.get((other, one))
