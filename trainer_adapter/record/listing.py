"""Lists of rollouts by filters, and searches in their texts, page by page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluator.grading import GradeValue
from service.errors import InputError, NotFoundError
from trainer_adapter.record.parquet import DamagedFileError
from trainer_adapter.record.reading import FoundRollout, Record, found_rollouts, place_of

HEADERS_READ, TEXTS_READ = 200_000, 20_000
"""Maximum rollouts that a page of a list, and of a search for a text, looks at."""

TEXTS_TOGETHER = 1024
"""Texts that a search holds at a time."""


@dataclass(frozen=True)
class RolloutFilters:
    """Which rollouts to return; None does not restrict."""

    step: int | None = None  # from this step; only this step without `last_step`
    last_step: int | None = None  # to this step
    question_id: str | None = None  # an id, or its beginning
    variant: int | None = None  # 0 for the question's own prompt
    grade: str | None = None  # correct, wrong or unknown
    text: str | None = None  # part of the response; case is ignored

    def __post_init__(self) -> None:
        if self.grade is not None and self.grade not in list(GradeValue):
            raise InputError(f"{self.grade!r} is not a grade. Choose from {', '.join(GradeValue)}.")


@dataclass(frozen=True)
class RolloutsPage:
    """Some rollouts in order."""

    rollouts: tuple[FoundRollout, ...]
    after: str | None  # the id to continue after, None at the end
    problems: tuple[str, ...]  # files that were left out


def list_rollouts(
    record: Record,
    filters: RolloutFilters = RolloutFilters(),
    *,
    after: str | None = None,
    limit: int = 25,
) -> RolloutsPage:
    """Return up to `limit` rollouts after the rollout `after`, by step, question and session.

    A page that has looked at `HEADERS_READ` rollouts or `TEXTS_READ` texts may be short and have an `after`.
    """
    matches: list[FoundRollout] = []
    problems: list[str] = []
    start = (0, -1) if after is None else place_of(after)
    looked, most = 0, HEADERS_READ if filters.text is None else TEXTS_READ
    for headers, rows, matching in _look_at(record, filters, start, problems):
        matches += found_rollouts(headers, matching[: limit + 1 - len(matches)])
        if len(matches) > limit:
            return RolloutsPage(tuple(matches[:limit]), matches[limit - 1].id, tuple(problems))
        looked += len(rows)
        if looked >= most:
            last = f"{headers['step'][0].as_py()}:{rows[-1]}"
            return RolloutsPage(tuple(matches), last, tuple(problems))
    return RolloutsPage(tuple(matches), None, tuple(problems))


def _look_at(
    record: Record, filters: RolloutFilters, start: tuple[int, int], problems: list[str]
) -> Iterator[tuple[Any, Sequence[int], Sequence[int]]]:
    """Yield headers of a step, the rows that were looked at, and those that match, part by part."""
    for step in _steps_with(record, filters):
        if step < start[0]:
            continue
        try:
            headers = record.headers(step)
            rows = _matching_rows(headers, filters)
            if step == start[0]:
                rows = [row for row in rows if row > start[1]]
            if filters.text is None:
                yield headers, range(len(headers)), rows
                continue
            sought = filters.text.casefold()
            for first in range(0, len(rows), TEXTS_TOGETHER):
                part = rows[first : first + TEXTS_TOGETHER]
                texts = record.texts(headers, part)
                yield headers, part, [row for row in part if sought in texts.get(row, "").casefold()]
        except NotFoundError:  # pruned after the folder was listed
            continue
        except DamagedFileError as error:
            problems.append(str(error))


def _steps_with(record: Record, filters: RolloutFilters) -> list[int]:
    """Return the steps with files that may have rollouts that match, by their counts."""
    counts = record.counts()
    prompts, ids = counts.prompts, counts.texts["question_id"]
    matching = np.ones(len(prompts["step"]), bool)
    if filters.question_id is not None:
        named = [number for number, id in enumerate(ids) if id.startswith(filters.question_id)]
        matching &= np.isin(prompts["question_id"], named)
    if filters.variant is not None:
        matching &= prompts["variant"] == filters.variant
    if filters.grade is not None:
        matching &= prompts[filters.grade] > 0
    first = -1 if filters.step is None else filters.step
    last = filters.last_step if filters.last_step is not None else filters.step
    steps = set(np.unique(prompts["step"][matching]).tolist()) & set(record.steps())
    return sorted(step for step in steps if first <= step and (last is None or step <= last))


def _matching_rows(headers: Any, filters: RolloutFilters) -> list[int]:
    """Return the rows of a step that match the filters, whatever their texts."""
    import pyarrow.compute as pc

    conditions = []
    if filters.question_id is not None:
        conditions.append(pc.starts_with(headers["question_id"], filters.question_id))
    if filters.grade is not None:
        correct = headers["correct"]
        of_grade = {"correct": correct, "wrong": pc.invert(correct), "unknown": pc.is_null(correct)}
        conditions.append(pc.fill_null(of_grade[filters.grade], fill_value=False))
    if filters.variant is not None:
        conditions.append(pc.equal(headers["variant"], filters.variant))
    matching = np.ones(len(headers), bool)
    for condition in conditions:
        matching &= condition.to_numpy()
    rows: list[int] = np.flatnonzero(matching).tolist()
    return rows
