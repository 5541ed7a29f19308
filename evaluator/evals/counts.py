"""Counts of an eval run: samples and grades by problem, answers by where they were found, missing samples."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from sqlalchemy import Select, func, or_, select, tuple_
from sqlalchemy.orm import Session

from evaluator.evals.problems import PLACE_COLUMNS, ProblemPlace
from evaluator.evals.tables import (
    GradeCountsRow,
    GradeRow,
    GradeSourcesRow,
    HumanGradeRow,
    HumanGradeWithdrawalRow,
    RunProblemRow,
    SampleCountsRow,
    SampleRow,
)
from evaluator.grading import SOURCES
from service.asks.tables import DONE, FAILED_TASK, AskRow, TaskRow

Grades = Literal["human", "grader"]
"""Which grades count: people's where there are any, or the grader's alone."""

GRADES: tuple[Grades, ...] = ("grader", "human")

NONE_FOUND = "none found"
PLACES: tuple[str, ...] = (*SOURCES, NONE_FOUND)
"""Where an answer was found, the surest place first."""

BOX, LAST_SENTENCE = SOURCES[0], SOURCES[-1]
CORRECT_SHARE = f"correct from {LAST_SENTENCE}"


@dataclass(slots=True)
class ProblemCounts(ProblemPlace):
    """The counts of one problem of a run."""

    samples: int
    truncated: int  # cut at the maximum tokens
    refused: int  # cut or kept back by a provider's filter, or refused by the model
    with_tokens: int  # samples whose number of completion tokens is known
    tokens: int  # of these together
    correct: int  # by one version of the grader, as wrong and unknown
    wrong: int
    unknown: int
    missing: int = 0  # requested samples without an answer
    human: int = 0  # graded samples that a person graded too
    overruled: int = 0  # of these, samples that the grader graded differently

    @property
    def graded(self) -> int:
        return self.correct + self.wrong + self.unknown

    @property
    def asked(self) -> int:
        """The samples that pass@k is computed from."""
        return self.graded + self.missing


def newest_grades() -> Select[int]:
    """Return the ids of the grades by people that count: of each sample the newest that was not withdrawn."""
    withdrawn = select(HumanGradeWithdrawalRow.human_grade_id)
    newest = func.max(HumanGradeRow.id)
    return select(newest).where(HumanGradeRow.id.not_in(withdrawn)).group_by(HumanGradeRow.sample_id)


def count_samples(
    session: Session, run_id: str, grader_id: int | None, grades: Grades = "human"
) -> list[ProblemCounts]:
    """Return the counts of every problem of a run in order, with the grades of one version of the grader.

    Args:
        grader_id: None counts no grades, people's neither.
        grades: whether people's grades override the grader's.
    """
    missing: Mapping[int, int] = asked_in_vain(session, [run_id]).get(run_id, {})
    counted, graded = SampleCountsRow, GradeCountsRow
    rows: Any = session.execute(
        select(
            *PLACE_COLUMNS,
            *(counted.samples, counted.truncated, counted.refused, counted.with_tokens, counted.tokens),
            *(func.coalesce(value, 0) for value in (graded.correct, graded.wrong, graded.unknown)),
        )
        .join(counted, counted.run_problem_id == RunProblemRow.id)
        .outerjoin(graded, (graded.run_problem_id == RunProblemRow.id) & (graded.grader_id == grader_id))
        .where(RunProblemRow.run_id == run_id)
        .order_by(RunProblemRow.position)
        .execution_options(yield_per=1000)
    )
    counts = {row[0]: ProblemCounts(*(*row, missing.get(row[0], 0))) for row in rows}
    by_people = session.execute(
        select(HumanGradeRow.run_problem_id, GradeRow.value, HumanGradeRow.value, func.count())
        .join(GradeRow, GradeRow.sample_id == HumanGradeRow.sample_id)
        .join(RunProblemRow, RunProblemRow.id == HumanGradeRow.run_problem_id)
        .where(
            RunProblemRow.run_id == run_id,
            HumanGradeRow.id.in_(newest_grades()),
            GradeRow.grader_id == grader_id,
        )
        .group_by(HumanGradeRow.run_problem_id, GradeRow.value, HumanGradeRow.value)
    )
    for place, before, after, samples in by_people:
        problem = counts[place]
        problem.human += samples
        if before != after:
            problem.overruled += samples
            if grades == "human":
                setattr(problem, before, getattr(problem, before) - samples)
                setattr(problem, after, getattr(problem, after) + samples)
    return list(counts.values())


def count_tokens(
    session: Session, run_id: str, counts: Sequence[ProblemCounts]
) -> dict[int, tuple[int, int]]:
    """Return by problem of the run the completion tokens of its samples, and of how many they are known.

    Where a server counted the responses of a request together, its receipt has the sum.
    """
    if all(problem.with_tokens == problem.samples for problem in counts):
        return {problem.id: (problem.tokens, problem.samples) for problem in counts}
    rows = session.execute(
        select(
            SampleRow.run_problem_id,
            func.count(),
            func.count(SampleRow.completion_tokens),
            func.coalesce(func.sum(SampleRow.completion_tokens), 0),
            func.max(AskRow.completion_tokens),
        )
        .join(RunProblemRow, RunProblemRow.id == SampleRow.run_problem_id)
        .outerjoin(AskRow, AskRow.id == SampleRow.ask_id)
        .where(RunProblemRow.run_id == run_id)
        .group_by(SampleRow.run_problem_id, SampleRow.ask_id)
    )
    counted: dict[int, tuple[int, int]] = {}
    for problem, samples, with_tokens, tokens, together in rows:
        total, number = counted.get(problem, (0, 0))
        if with_tokens < samples and together is not None:
            tokens, with_tokens = together, samples
        counted[problem] = (total + (tokens or 0), number + with_tokens)
    return counted


@dataclass(frozen=True)
class Sources:
    """Graded samples, and those of them that are correct, by where the answer was found, as in `PLACES`."""

    grades: Counter[str] = field(default_factory=Counter)
    correct: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: "Sources") -> "Sources":
        return Sources(self.grades + other.grades, self.correct + other.correct)

    def to_json(self) -> dict[str, dict[str, float] | None]:
        """Return the shares by place of graded and of correct samples; None without any."""
        sides = {"sources": self.grades, "correct_sources": self.correct}
        return {
            name: {place: counts[place] / counts.total() for place in PLACES} if counts.total() else None
            for name, counts in sides.items()
        }

    def by_place(self) -> dict[str, float | None]:
        """Return the shares by place, and as `CORRECT_SHARE` that of the last sentence among correct ones."""
        shares, correct = (shares or {} for shares in self.to_json().values())
        return {**{place: shares.get(place) for place in PLACES}, CORRECT_SHARE: correct.get(LAST_SENTENCE)}


def read_sources(
    session: Session, graders: Mapping[str, int | None], *, originals: bool = False
) -> dict[str, Sources]:
    """Return where the answers of runs were found.

    Args:
        graders: the version of the grader whose grades count, by the run's id; None for no grades at all.
        originals: leave the neighbors of a run out.
    """
    counted = GradeSourcesRow
    query = (
        select(RunProblemRow.run_id, counted.source, func.sum(counted.grades), func.sum(counted.correct))
        .join(RunProblemRow, RunProblemRow.id == counted.run_problem_id)
        .where(tuple_(RunProblemRow.run_id, counted.grader_id).in_(list(graders.items())))
        .group_by(RunProblemRow.run_id, counted.source)
    )
    if originals:
        query = query.where(RunProblemRow.variant == 0)
    by_run = {run: Sources() for run in graders}
    for run, source, grades, correct in session.execute(query):
        place = source or NONE_FOUND
        if place in PLACES:  # else of a program
            by_run[run].grades[place] += grades
            by_run[run].correct[place] += correct
    return by_run


class Block(NamedTuple):
    """Samples of a problem of a run, from ordinal `first` on: what a task of the run draws."""

    run_problem_id: int
    first: int
    size: int

    @property
    def item(self) -> str:
        """The item of the task, which `read_block` reads."""
        return ":".join(map(str, self))


def read_block(item: str) -> Block:
    return Block(*map(int, item.split(":")))


def samples_missing(session: Session, run_id: str, n: int) -> int:
    """Return how many of `n` samples for each problem of a run are not there."""
    of_run = RunProblemRow.run_id == run_id
    problems = session.scalar(select(func.count()).select_from(RunProblemRow).where(of_run)) or 0
    there = select(func.count()).select_from(SampleRow).join(RunProblemRow)
    return problems * n - (session.scalar(there.where(of_run, SampleRow.ordinal < n)) or 0)


def unfinished_blocks(session: Session, run_id: str) -> list[tuple[Block, bool]]:
    """Return the blocks of a run that are not drawn yet, and whether their requests failed for good."""
    query = select(TaskRow.item, TaskRow.state == FAILED_TASK)
    rows = session.execute(query.where(TaskRow.run_id == run_id, TaskRow.state != DONE))
    return [(read_block(item), failed) for item, failed in rows]


def asked_in_vain(session: Session, run_ids: Sequence[str]) -> dict[str, Counter[int]]:
    """Return by run and problem the samples whose requests got no answer, for good or so far.

    Their grades are unknown, and every pass@k counts them so. Blocks that were not asked
    for yet are left out: their absence has nothing to do with their answers.
    """
    missing: dict[str, Counter[int]] = defaultdict(Counter)
    in_vain = or_(TaskRow.state == FAILED_TASK, TaskRow.error.is_not(None))
    query = select(TaskRow.run_id, TaskRow.item).where(TaskRow.run_id.in_(run_ids), in_vain)
    for run_id, item in session.execute(query):
        block = read_block(item)
        missing[run_id][block.run_problem_id] += block.size
    return missing
