"""Texts of a set that repeat problems of a benchmark: exactly, nearly, or in long stretches.

Checks are stored, so that reports can cite them.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from itertools import product
from typing import Any

from sqlalchemy import insert

from evaluator.benchmarks.loading import LoadedBenchmark
from evaluator.evals.problems import Problem
from evaluator.evals.tables import ContaminationCheckRow, OverlapRow
from evaluator.grading import Grader
from rephraser.questions.duplicates import EqualAnswers
from rephraser.questions.store import get_set, load_members
from rephraser.sets.store import load_set
from service.database import Database, in_parts, utc_now
from service.questions.images import PLACEHOLDER
from service.questions.question import Question
from service.telling import TellProgress, TellStage

Gram = tuple[str, ...]

MEASURES = ("exact", "fuzzy", "n-gram", "variant")
EXACT, FUZZY, NGRAM, VARIANT = MEASURES
PROBLEMS_AT_ONCE = 64
VERSION = 1  # of what is found with the same settings

_DROPPED = re.compile(
    r"\\(?:left|right|displaystyle|mathrm|mathbf|text(?:bf|it)?|mbox|big+l?r?|quad|qquad)(?![a-z])"
    r"|\\[,;:!\s]|[$~,;:!?\"'`]|(?<!\d)\.|\.(?!\d)"
)
_FRACTION = re.compile(r"\\[dt]?frac(?![a-z])\s*(?:(\d)\s*(\d))?")
_THOUSANDS = re.compile(r"(?<=\d)(?:,|\{,\}|,\\!)(?=\d{3}(?!\d))")
_WORD = re.compile(r"\d+(?:\.\d+)?|\\?[^\W\d_]+|[^\s\w]|_")
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
    row: int = 0  # its place on that side, from 0

    @cached_property
    def words(self) -> list[str]:
        return words(self.text.replace(PLACEHOLDER, " ") if self.images else self.text)

    @cached_property
    def numbers(self) -> list[str]:
        """Its numbers in order, those from two on in letters too."""
        return [word for word in self.words if word in _NUMBER_WORDS or word[0].isdecimal()]


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
        if progress is not None:
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
    kept: list[str] = []
    for word in _WORD.findall(_DROPPED.sub(" ", plain)):
        if word == "}" and len(kept) >= 2 and kept[-2] == "{" and kept[-1] not in "{}":
            kept[-2:] = [kept[-1]]
        elif word == "}" and kept and kept[-1] == "{":
            kept.pop()
        else:
            kept.append(word)
    return kept


def check_contamination(
    database: Database,
    set_name: str,
    neighbors: str | None,
    benchmarks: Sequence[LoadedBenchmark],
    settings: OverlapSettings,
    grader: Grader,
    progress: TellStage,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Compare a question set, and the neighbors of a published set, with benchmarks; store the result.

    Return a row for each set of texts and benchmark, with the number of pairs by measure, and a row for each
    text that repeats a problem, without their words; rows count from 0.
    """

    def equal(answers: Sequence[tuple[str, str]]) -> list[bool]:
        return [value == "correct" for value in grader.equal_many(answers)]

    with database.read() as session:
        content_hash = get_set(session, set_name).content_hash
        members = load_members(session, set_name)
        published = None if neighbors is None else load_set(session, neighbors)
    usable = ((member.position, member.question) for member in members if member.held is None)
    sides = [(set_name, content_hash, _texts(usable))]
    if published is not None:
        texts = [
            SourceText(each.candidate_id, each.text, entry.question.answer, entry.question.images, row)
            for row, entry in enumerate(published.entries)
            for each in entry.neighbors
        ]
        sides.append((published.header.ref, published.header.content_hash, texts))
    checks: list[dict[str, Any]] = []
    pairs: list[dict[str, Any]] = []
    for against, (name, content_hash, texts) in product(benchmarks, sides):
        problems = _texts(enumerate(against.problems))
        tell = partial(progress, f"{name} and {against.name}")
        overlaps = find_overlaps(texts, problems, settings, equal=equal, progress=tell)
        by_measure = Counter(overlap.measure for overlap in overlaps)
        checks.append(
            {
                "set": name,
                "texts": len(texts),
                "benchmark": against.name,
                "problems": len(problems),
                "problems_hash": against.problems_hash,
                "repeated_problems": len({each.problem_id for each in overlaps if each.measure != VARIANT}),
                "pairs": {measure: by_measure[measure] for measure in MEASURES},
            }
        )
        rows = {text.id: text.row for text in (*texts, *problems)}
        pairs += [
            {"set": name, "benchmark": against.name, "row": rows[each.source_id]}
            | {"problem_row": rows[each.problem_id], **vars(each)}
            for each in overlaps
        ]
        check = ContaminationCheckRow(
            set_name=name,
            set_hash=content_hash,
            benchmark=against.name,
            problems_hash=against.problems_hash,
            settings=settings.to_json(),
            created_at=utc_now(),
        )
        with database.write() as session:
            session.add(check)
            session.flush()
            for part in in_parts(overlaps):
                stored = [{"check_id": check.id, **vars(overlap)} for overlap in part]
                session.execute(insert(OverlapRow), stored)
    return checks, pairs


def _texts(rows: Iterable[tuple[int, Question | Problem]]) -> list[SourceText]:
    return [SourceText(each.id, each.text, each.answer, each.images, row) for row, each in rows]
