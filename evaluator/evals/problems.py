"""Problems: the text for the model, the gold answer, and how answers are compared."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any

from sqlalchemy import ColumnElement, func, insert, literal, select
from sqlalchemy.orm import Session

from evaluator.evals.tables import ProblemRow, RunProblemRow, SampleCountsRow
from evaluator.grading import AnswerKind, GradeCase
from evaluator.grading.versions import answers_of
from service.database import in_parts, upsert, utc_now
from service.errors import NotFoundError
from service.hashing import canonical_text, content_hash, content_id
from service.questions.images import place_images
from service.questions.question import canonical_answer


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem, addressed by the content id of all its fields."""

    text: str
    answer: str
    kind: AnswerKind = AnswerKind.LATEX
    tolerance: str | None = None  # the row's own, as in OlympiadBench
    copy: int = 0  # tells apart problems that a benchmark holds several times
    images: tuple[str, ...] = ()  # ids, to which the text refers by `<image>` in their order

    @property
    def id(self) -> str:
        """Content id, the same in every benchmark and run that holds this problem."""
        value: dict[str, str | int | list[str] | None] = {
            "text": self.text,
            "answer": self.answer,
            "kind": self.kind.value,
            "tolerance": self.tolerance,
        }
        if self.copy:
            value["copy"] = self.copy
        if self.images:
            value["images"] = [*self.images]
        return content_id("p", value)


@dataclass(frozen=True, slots=True)
class PlacedProblem:
    """A problem in a run, with its group (a question and its neighbors) and its place in the group."""

    problem: Problem
    group_id: str | None = None  # None makes the problem a group of its own
    variant: int = 0  # 0 for the original, 1.. for neighbors
    source_id: str | None = None
    strategy: str | None = None


def make_problem(
    text: str,
    answer: str,
    kind: AnswerKind = AnswerKind.LATEX,
    tolerance: str | None = None,
    images: Sequence[str] = (),
) -> Problem:
    """Return the problem with its text and answer in canonical form, images without placeholders first."""
    text = place_images(canonical_text(text), len(images))
    return Problem(text, canonical_answer(answer, kind), kind, tolerance, images=tuple(images))


def number_copies(problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems in order, repeated ones numbered so that every id is there once."""
    seen: Counter[str] = Counter()
    numbered = []
    for problem in problems:
        copy = seen[problem.id]
        seen[problem.id] += 1
        numbered.append(replace(problem, copy=copy) if copy else problem)
    return numbered


def problems_hash(problems: Sequence[Problem]) -> str:
    """Return the content hash of a benchmark: of its problems' ids in order."""
    return content_hash("problems", [problem.id for problem in problems])


def placed_hash(placed: Sequence[PlacedProblem]) -> str:
    """Return the content hash of a run's problems: the benchmark's own, or with groups and places too."""
    if all(place.group_id is None and place.variant == 0 for place in placed):
        return problems_hash([place.problem for place in placed])
    return content_hash(
        "placed-problems", [[place.problem.id, place.group_id, place.variant] for place in placed]
    )


def store_run_problems(session: Session, run_id: str, placed: Sequence[PlacedProblem]) -> int:
    """Write those of a run's problems, in order, that come after the ones it has; return how many it has."""
    counted = select(func.count()).select_from(RunProblemRow).where(RunProblemRow.run_id == run_id)
    there = session.scalar(counted) or 0
    if there >= len(placed):
        return there
    now = utc_now()
    for part in in_parts(islice(enumerate(placed), there, None)):
        problems, places = dict[str, dict[str, Any]](), list[dict[str, Any]]()
        for position, place in part:
            problem, id = place.problem, place.problem.id
            problems[id] = {
                "id": id,
                "text": problem.text,
                "answer": problem.answer,
                "kind": problem.kind.value,
                "tolerance": problem.tolerance,
                "images": [*problem.images] or None,
                "created_at": now,
            }
            places.append(
                {
                    "run_id": run_id,
                    "position": position,
                    "problem_id": id,
                    "group_id": place.group_id or id,
                    "variant": place.variant,
                    "source_id": place.source_id,
                    "strategy": place.strategy,
                }
            )
        session.execute(upsert(ProblemRow).on_conflict_do_nothing(), [*problems.values()])
        session.execute(insert(RunProblemRow), places)
    columns = SampleCountsRow.__table__.columns.keys()
    zeros = select(RunProblemRow.id, *(literal(0) for _ in columns[1:]))
    new = zeros.where(RunProblemRow.run_id == run_id, RunProblemRow.position >= there)
    session.execute(insert(SampleCountsRow).from_select(columns, new))
    return there


@dataclass(slots=True)
class ProblemPlace:
    """Where a problem is in its run, as stored; `id` is what its samples refer to."""

    id: int
    position: int
    problem_id: str
    group_id: str
    variant: int
    source_id: str | None
    strategy: str | None


PLACE_COLUMNS = [getattr(RunProblemRow, field.name) for field in fields(ProblemPlace)]


@dataclass(slots=True)
class RunProblem(ProblemPlace):
    """A problem of a run."""

    text: str
    answer: str
    kind: AnswerKind
    tolerance: str | None
    images: tuple[str, ...] = ()

    def case(self, response: str, grader_version: str) -> GradeCase:
        """Return the case of a response for a version of the grader."""
        boxed_only = answers_of(grader_version) == "boxed"
        return GradeCase(response, self.answer, self.kind, self.tolerance, boxed_only)


def run_problems(session: Session, run_id: str) -> list[RunProblem]:
    """Return the problems of a run in order."""
    return read_problems(session, RunProblemRow.run_id == run_id)


def find_problem(session: Session, run_id: str, reference: str) -> RunProblem:
    """Return the problem of a run by its position, from 0, or by the beginning of its id."""
    problems = run_problems(session, run_id)
    if reference.isdecimal() and int(reference) < len(problems):
        return problems[int(reference)]
    matches = [problem for problem in problems if problem.problem_id.startswith(reference)]
    if len(matches) != 1:
        raise NotFoundError(
            f"the run has no problem {reference!r}. Give its id or its position, 0 to {len(problems) - 1:,}."
        )
    return matches[0]


def read_problems(session: Session, condition: ColumnElement[bool]) -> list[RunProblem]:
    """Return the problems of runs that meet the condition, in their order in the run."""
    rows = session.execute(
        select(
            *PLACE_COLUMNS,
            ProblemRow.text,
            ProblemRow.answer,
            ProblemRow.kind,
            ProblemRow.tolerance,
            ProblemRow.images,
        )
        .join(ProblemRow, ProblemRow.id == RunProblemRow.problem_id)
        .where(condition)
        .order_by(RunProblemRow.position)
    )
    return [RunProblem(*row[:9], AnswerKind(row[9]), row[10], tuple(row[11] or ())) for row in rows]
