"""Texts of a set that repeat problems of a benchmark: exactly, nearly, or in long stretches.

Checks are stored, so that reports can cite them.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from sqlalchemy import case, func, insert, select
from sqlalchemy.orm import Session

from service.database import in_parts, utc_now
from service.questions.duplicates import EqualAnswers
from service.questions.images import PLACEHOLDER
from service.questions.tables import ContaminationCheckRow, OverlapRow
from service.telling import TellProgress

Gram = tuple[str, ...]

EXACT, FUZZY, NGRAM, VARIANT = "exact", "fuzzy", "n-gram", "variant"
MEASURES = (EXACT, FUZZY, NGRAM, VARIANT)
PROBLEMS_AT_ONCE = 64
VERSION = 1  # of what is found with the same settings

_DROPPED = re.compile(
    r"\\(?:left|right|displaystyle|mathrm|mathbf|text(?:bf|it)?|mbox|big+l?r?|quad|qquad)(?![a-z])"
    r"|\\[,;:!\s]|[$~.,;:!?\"'`]"
)
_FRACTION = re.compile(r"\\[dt]?frac(?![a-z])\s*(?:(\d)\s*(\d))?")
_THOUSANDS = re.compile(r"(?<=\d)(?:,|\{,\}|,\\!)(?=\d{3}(?!\d))")
_DECIMAL_POINT = re.compile(r"(?<=\d)\.(?=\d)")
_WORD = re.compile(r"\d+(?:\.\d+)?|\\?[^\W\d_]+|[^\s\w]|_")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_POINT = "\x00"  # stands for the point of a decimal while full stops are dropped
# "one" is left out: it is a pronoun as well.
_NUMBER_WORDS = frozenset(
    {"two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "twenty"}
    | {"fifty", "hundred", "thousand"}
)


@dataclass(frozen=True)
class SourceText:
    """A text of either side; the answer, where it is known, tells repeats from look-alikes, as do images."""

    id: str
    text: str
    answer: str | None = None
    images: tuple[str, ...] = ()

    @cached_property
    def words(self) -> list[str]:
        return words(self.text.replace(PLACEHOLDER, " ") if self.images else self.text)

    @cached_property
    def numbers(self) -> list[str]:
        """Its numbers in order, those from two on in letters too."""
        return [word for word in self.words if word in _NUMBER_WORDS or _NUMBER.fullmatch(word)]


@dataclass(frozen=True)
class OverlapSettings:
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
    sources: Sequence[SourceText],
    problems: Sequence[SourceText],
    settings: OverlapSettings = OverlapSettings(),
    *,
    equal: EqualAnswers | None = None,
    progress: TellProgress | None = None,
) -> list[Overlap]:
    """Return the pairs of texts and problems that overlap, in the order of the problems, then of the texts.

    Nothing is sampled: every pair at or above a threshold is found.

    Args:
        equal: says for pairs of answers whether they agree; by default as spelled, blanks and case aside.
        progress: called with the number of problems compared and of all problems.
    """
    ours = [text for text in sources if text.words]
    theirs = [text for text in problems if text.words]
    if not ours or not theirs:
        return []
    compared = zip(
        theirs, _ratios(ours, theirs, settings.ratio), _containments(ours, theirs, settings), strict=True
    )
    overlaps: list[Overlap] = []
    answers: dict[int, tuple[str, str]] = {}  # of pairs that are repeats only if their answers agree
    for count, (problem, ratios, contained) in enumerate(compared, 1):
        for place in sorted(contained.keys() | ratios.keys()):
            text = ours[place]
            measure, score = _measure(text, problem, ratios.get(place, 0.0), 100 * contained.get(place, 0.0))
            if measure in (FUZZY, NGRAM) and text.answer and problem.answer:
                answers[len(overlaps)] = text.answer, problem.answer
            overlaps.append(Overlap(text.id, problem.id, measure, round(score, 1)))
        if progress is not None and (count % PROBLEMS_AT_ONCE == 0 or count == len(theirs)):
            progress(count, len(theirs))
    pairs = list(answers.values())
    agreed = [words(first) == words(second) for first, second in pairs] if equal is None else equal(pairs)
    for place, agrees in zip(answers, agreed, strict=True):
        if not agrees:
            overlaps[place] = replace(overlaps[place], measure=VARIANT)
    return overlaps


def _measure(text: SourceText, problem: SourceText, ratio: float, share: float) -> tuple[str, float]:
    """Return how the two overlap; `ratio` and `share`, in percent, are 0 below their thresholds."""
    alike = text.words == problem.words
    if set(text.images) != set(problem.images):
        return VARIANT, 100.0 if alike else max(ratio, share)
    if alike:
        return EXACT, 100.0
    if ratio and text.numbers == problem.numbers:
        return FUZZY, ratio
    if share and not Counter(problem.numbers) - Counter(text.numbers):
        return NGRAM, share
    return VARIANT, max(ratio, share)


def _ratios(
    texts: Sequence[SourceText], problems: Sequence[SourceText], least: float
) -> Iterator[dict[int, float]]:
    """Yield for each problem the texts, by place, whose ratio is at least `least`."""
    import numpy as np
    from rapidfuzz import fuzz, process

    joined = ["".join(text.words) for text in texts]
    for part in in_parts(problems, PROBLEMS_AT_ONCE):
        asked = ["".join(problem.words) for problem in part]
        similarities = process.cdist(
            asked, joined, scorer=fuzz.ratio, score_cutoff=least, dtype=np.float64, workers=-1
        )
        for row in similarities:
            near = np.nonzero(row)[0]
            yield dict(zip(near.tolist(), row[near].tolist(), strict=True))


def _containments(
    texts: Sequence[SourceText], problems: Sequence[SourceText], settings: OverlapSettings
) -> Iterator[dict[int, float]]:
    """Yield for each problem the texts, by place, that hold enough of its n-grams, with their share."""
    asked = [_grams(problem.words, settings.n) for problem in problems]
    holders: dict[Gram, list[int]] = {gram: [] for grams in asked for gram in grams}
    for place, text in enumerate(texts):
        for gram in _grams(text.words, settings.n):
            if gram in holders and len(holders[gram]) <= settings.common:
                holders[gram].append(place)
    for grams in asked:
        telling = [holders[gram] for gram in grams if len(holders[gram]) <= settings.common]
        shared = Counter(place for places in telling for place in places)
        shares = {place: count / len(telling) for place, count in shared.items()}
        yield {place: share for place, share in shares.items() if share >= settings.containment}


def _grams(sequence: list[str], n: int) -> set[Gram]:
    """Return the n-grams of a sequence; a shorter one counts as one n-gram."""
    return {tuple(sequence[at : at + n]) for at in range(max(1, len(sequence) - n + 1))}


def words(text: str) -> list[str]:
    r"""Return the words, numbers, commands and operators of a text, in lower case.

    Left out: dollars, punctuation, spacing and font commands, braces around a single word. `\dfrac12` and
    `\frac{1}{2}` are the same, and so are `1,000` and `1000`.
    """
    plain = _THOUSANDS.sub("", unicodedata.normalize("NFKC", text).casefold())
    plain = _FRACTION.sub(lambda match: rf"\frac {match[1] or ''} {match[2] or ''} ", plain)
    plain = _DROPPED.sub(" ", _DECIMAL_POINT.sub(_POINT, plain)).replace(_POINT, ".")
    kept: list[str] = []
    for word in _WORD.findall(plain):
        if word == "}" and len(kept) >= 2 and kept[-2] == "{" and kept[-1] not in "{}":
            kept[-2:] = [kept[-1]]
        elif word == "}" and kept and kept[-1] == "{":
            kept.pop()
        else:
            kept.append(word)
    return kept


class CheckedSet(NamedTuple):
    """What the newest check of a set against a benchmark found.

    `problems` counts the problems that the set repeats (0: none found), `variants` those it only resembles.
    """

    set_name: str
    problems: int
    variants: int


def store_check(
    session: Session,
    *,
    set_name: str,
    set_hash: str,
    benchmark: str,
    problems_hash: str,
    settings: OverlapSettings,
    overlaps: Sequence[Overlap],
) -> None:
    """Write a check with what it found, in a write transaction."""
    check = ContaminationCheckRow(
        set_name=set_name,
        set_hash=set_hash,
        benchmark=benchmark,
        problems_hash=problems_hash,
        settings=settings.to_json(),
        created_at=utc_now(),
    )
    session.add(check)
    session.flush()
    for part in in_parts(overlaps):
        session.execute(insert(OverlapRow), [{"check_id": check.id, **vars(overlap)} for overlap in part])


def overlaps_with(session: Session, problems_hash: str) -> list[CheckedSet]:
    """Return the sets that were checked against these problems, each by its newest check, by name.

    An empty list means that nothing was checked; a set in which nothing was found has `problems` 0.
    """
    newest = (
        select(func.max(ContaminationCheckRow.id))
        .where(ContaminationCheckRow.problems_hash == problems_hash)
        .group_by(ContaminationCheckRow.set_name, ContaminationCheckRow.set_hash)
    )
    only_alike = func.min(case((OverlapRow.measure == VARIANT, 1), else_=0)).label("only_alike")
    overlaps = select(OverlapRow.check_id, only_alike).group_by(OverlapRow.check_id, OverlapRow.problem_id)
    each = overlaps.subquery()
    variants = func.coalesce(func.sum(each.c.only_alike), 0)
    rows = session.execute(
        select(ContaminationCheckRow.set_name, func.count(each.c.only_alike) - variants, variants)
        .join(each, each.c.check_id == ContaminationCheckRow.id, isouter=True)
        .where(ContaminationCheckRow.id.in_(newest))
        .group_by(ContaminationCheckRow.set_name, ContaminationCheckRow.id)
        .order_by(ContaminationCheckRow.set_name, ContaminationCheckRow.id)
    )
    return [CheckedSet(*row) for row in rows]
