"""Store another tool's responses as an eval run, in parts; a killed import can be resumed."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

from sqlalchemy import Table, select, update
from sqlalchemy.orm import Session

from evaluator.evals.counts import Block, block_item
from evaluator.evals.grading import grade_row
from evaluator.evals.problems import PlacedProblem, RunProblem, placed_hash, run_problems
from evaluator.evals.running import NewSample, insert_samples
from evaluator.evals.runs import IMPORTED, STOP_REASONS, EvalSpec, open_eval_run
from evaluator.evals.tables import GradeRow, SampleCountsRow
from evaluator.exchange.matching import Matcher, Survey
from evaluator.exchange.response_file import ResponseFile
from evaluator.exchange.responses import OutsideResponse
from evaluator.grading.types import Answers
from evaluator.grading.versions import grader_id, other_tool
from service.asks.store import add_tasks
from service.asks.tables import FAILED_TASK, OPEN, TaskRow
from service.database import Database, in_parts, upsert
from service.models.settings import PromptSpec, SamplingSettings
from service.questions.images import store_images
from service.runs.store import Run, finish_run, package_versions
from service.telling import TellProgress

RESPONSES_PER_COMMIT = 1_000

_GRADES = upsert(cast(Table, GradeRow.__table__)).on_conflict_do_nothing()


@dataclass(frozen=True)
class Imported:
    """What an import did: `new` responses were stored, `there` had been before."""

    run: Run
    new: int
    there: int


def import_spec(
    file: ResponseFile,
    read: Survey,
    placed: Sequence[PlacedProblem],
    *,
    problems: str,
    size: int,
    source: Mapping[str, Any],
    model: str,
    answers: Answers = "all",
    grader: str = "",
) -> EvalSpec:
    """Return the settings of an imported run; the content of the file is part of them.

    Prompt and sampling were the other tool's: what it tells stands in `engine`, the neutral values in their
    place mean nothing (`evaluator.evals.runs.is_imported`).
    """
    engine: dict[str, Any] = {"sampler": IMPORTED, "format": file.form, "sha256": file.sha256}
    engine |= {"scorer": file.scorer} if read.scored else {}
    engine |= {name: value for name, value in file.settings.items() if value is not None}
    engine |= {"unmatched": read.left_out} if read.left_out else {}
    return EvalSpec(
        problems=problems,
        problems_hash=placed_hash(placed),
        size=size,
        source=source,
        model=model,
        engine=engine,
        prompt=PromptSpec(template="{question}"),
        sampling=SamplingSettings(seed=None),
        answers=answers,
        grader=grader,
    )


def import_responses(
    db: Database,
    name: str,
    spec: EvalSpec,
    file: ResponseFile,
    matcher: Matcher,
    read: Survey,
    placed: Sequence[PlacedProblem],
    report: TellProgress,
) -> Imported:
    """Store the responses of a file as the run `name`; those that are there already are not stored again.

    A killed import is gone on with by the same call: responses of a problem are numbered in the file's order,
    and those with a number are there. Requests that brought no response become samples that are missing for
    good, which every pass@k takes as unknown.

    Args:
        placed: the problems that `read` has anything of, in order.

    Raises:
        InputError: there is a run of this name with other settings, such as the responses of another file.
    """
    with db.write() as session:
        store_images(session, matcher.images.read(id for place in placed for id in place.problem.images))
        about = {"file": file.name, "format": file.form} | ({} if read.ended else {STOP_REASONS: "not told"})
        run, _ = open_eval_run(session, name, spec, placed, {**package_versions(), **about})
        problems = dict(zip(read.numbers, run_problems(session, run.id), strict=True))
        theirs = grader_id(session, other_tool(file.scorer)) if read.scored else None
        before = sum(_stored(session, list(problems.values())).values())
    total, new = read.samples.total(), 0
    report(before, total)
    if before < total:
        seen: Counter[int] = Counter()
        for part in _parts(file.read(), matcher, problems, seen):
            with db.write() as session:
                new += _store(session, part, theirs)
            report(min(before + new, total), total)
    with db.write() as session:
        _note_lost(session, run.id, {problems[number]: count for number, count in read.lost.items()})
        finish_run(session, run.id, finished=True)
    return Imported(run, new, before)


_Place = tuple[RunProblem, int, OutsideResponse]


def _parts(
    responses: Iterator[OutsideResponse],
    matcher: Matcher,
    problems: Mapping[int, RunProblem],
    seen: Counter[int],
) -> Iterator[list[_Place]]:
    def placed() -> Iterator[_Place]:
        matcher.begin()
        for response in responses:
            number = matcher.number(response)
            if number is not None and response.text is not None:
                yield problems[number], seen[number], response
                seen[number] += 1

    rows = placed()
    while part := list(islice(rows, RESPONSES_PER_COMMIT)):
        yield part


def _stored(session: Session, problems: Sequence[RunProblem]) -> dict[int, int]:
    counted = SampleCountsRow
    stored: dict[int, int] = {}
    ids = list({problem.id for problem in problems})
    for some in in_parts(ids):
        query = select(counted.run_problem_id, counted.samples).where(counted.run_problem_id.in_(some))
        stored.update((problem, samples) for problem, samples in session.execute(query))
    return stored


def _store(session: Session, part: Sequence[_Place], theirs: int | None) -> int:
    """Write the responses that are not there yet, with the other tool's grades; the write lock is held."""
    stored = _stored(session, [problem for problem, _, _ in part])
    missing = [place for place in part if place[1] >= stored[place[0].id]]
    if not missing:
        return 0
    ids = insert_samples(
        session,
        [
            NewSample(
                problem.id,
                ordinal,
                None,
                response.seed,
                response.text or "",
                response.stop_reason,
                response.prompt_tokens,
                response.completion_tokens,
            )
            for problem, ordinal, response in missing
        ],
    )
    grades = [
        grade_row(id, problem.id, theirs, response.score)
        for id, (problem, _, response) in zip(ids, missing, strict=True)
        if response.score is not None and theirs is not None
    ]
    if grades:
        session.connection().execute(_GRADES, grades)
    return len(missing)


def _note_lost(session: Session, run_id: str, lost: Mapping[RunProblem, int]) -> None:
    """Note the requests that brought no response as failed blocks, once however often this is called."""
    if not lost:
        return
    samples = _stored(session, list(lost))
    add_tasks(
        session,
        run_id,
        [block_item(Block(problem.id, samples[problem.id], count)) for problem, count in lost.items()],
    )
    session.execute(
        update(TaskRow)
        .where(TaskRow.run_id == run_id, TaskRow.state == OPEN)
        .values(state=FAILED_TASK, error="no response in the other tool's file")
    )
