"""Draw and grade an eval run: a task is a block of samples of a problem, stored with their grades."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.orm import Session

from evaluator.evals.counts import Block, block_item, read_block, samples_missing
from evaluator.evals.grading import grade_row, grade_run, insert_grades
from evaluator.evals.problems import RunProblem, read_problems
from evaluator.evals.runs import MAX_SAMPLES, EvalSpec, run_version
from evaluator.evals.tables import SAMPLE, RunProblemRow, SampleRow, SampleTextRow
from evaluator.grading import Grade, GradeCase, Grader
from evaluator.grading.versions import answers_of, grader_id
from service.asks.ask import INTERRUPTED, Asker, Models, Outcome
from service.asks.request import prompt_request
from service.asks.store import Grouped, add_tasks
from service.asks.tables import DONE, AskBodyRow, AskRow, TaskRow
from service.asks.work import work_on_run
from service.database import Database
from service.hashing import derive_seed
from service.questions.images import Image, load_images
from service.runs.store import Run
from service.telling import TellStage


@dataclass(kw_only=True)
class EvalOutcome(Outcome):
    """What one invocation did."""

    drawn: int  # new samples, those of other processes included
    graded: Counter[str]  # new grades by value


async def run_eval(
    db: Database,
    run: Run,
    models: Models,
    n: int,
    report: TellStage,
    *,
    grader: Grader,
    retry_final: bool = False,
) -> EvalOutcome:
    """Draw what is missing of `n` samples per problem, and grade all samples."""
    spec, version = EvalSpec.model_validate(run.spec), run_version(run)
    with db.write() as session:
        plan_blocks(session, run.id, n, spec.sampling.samples_per_request)
        missing = samples_missing(session, run.id, n)
        grader_row = grader_id(session, version)
    graded: Counter[str] = Counter()
    grading = Grouped(partial(_grade_blocks, grader))
    store_blocks = partial(_store_blocks, run.id, grader_row)

    async def draw(asker: Asker, item: str) -> None:
        """Draw, grade and store a block; a server that sends fewer responses is asked again for the rest."""
        block = read_block(item)
        problem, images = await asker.store.read_together(_read_problems, block.run_problem_id)
        samples: list[NewSample] = []
        while len(samples) < block.count:
            first, left = block.first + len(samples), block.count - len(samples)
            request = prompt_request(
                spec.model_identity,
                spec.prompt,
                spec.sampling,
                problem.text,
                images,
                seed=derive_seed("sample-seed", spec.sampling.seed, problem.problem_id, first),
                n=left,
                # A problem can be in two groups of a neighbor set, and a provider may take no seed.
                draw=problem.position * MAX_SAMPLES + first,
                kind=SAMPLE,
                about=problem.problem_id,
                scope=run.id,
            )
            answer = await asker.ask(request)
            # A server counts the tokens of several responses together.
            together = answer.completion_tokens if len(answer.choices) == 1 else 0
            samples += [
                NewSample(
                    problem.id,
                    first + place,
                    answer.ask_id,
                    request.seed if answer.seeded else None,
                    choice.full_text,
                    choice.finish_reason,
                    answer.prompt_tokens or None,
                    choice.tokens or together or None,
                )
                for place, choice in enumerate(answer.choices[:left])
            ]
        boxed_only = answers_of(version) == "boxed"
        cases = [
            GradeCase(sample.text, problem.answer, problem.kind, problem.tolerance, boxed_only)
            for sample in samples
        ]
        grades = await grading.do(cases)
        if await asker.store.write_together(store_blocks, (item, samples, grades)):
            graded.update(grade.value for grade in grades)

    try:
        sampling = partial(report, "sampling")
        outcome = await work_on_run(db, run.id, draw, models, sampling, retry_final=retry_final)
    finally:
        grading.close()
    with db.read() as session:
        drawn = missing - samples_missing(session, run.id, n)
    if outcome.stopped != INTERRUPTED:  # samples of another tool, or of a grader that is new to the run
        graded += grade_run(db, run.id, grader, partial(report, "grading"), version=version)
    return EvalOutcome(**vars(outcome), drawn=drawn, graded=graded)


def plan_blocks(session: Session, run_id: str, n: int, samples_per_request: int) -> None:
    """Give a run the tasks for what its problems lack of `n` samples."""
    ends: Counter[int] = Counter()
    for item in session.scalars(select(TaskRow.item).where(TaskRow.run_id == run_id)):
        block = read_block(item)
        ends[block.run_problem_id] = max(ends[block.run_problem_id], block.first + block.count)
    problems = select(RunProblemRow.id).where(RunProblemRow.run_id == run_id).order_by(RunProblemRow.position)
    blocks = [
        Block(problem, first, min(samples_per_request, n - first))
        for problem in session.scalars(problems)
        for first in range(ends[problem], n, samples_per_request)
    ]
    add_tasks(session, run_id, list(map(block_item, blocks)))


def _grade_blocks(grader: Grader, blocks: Sequence[Sequence[GradeCase]]) -> list[list[Grade]]:
    grades = iter(grader.grade_many([case for block in blocks for case in block]))
    return [[next(grades) for _ in block] for block in blocks]


def _read_problems(session: Session, ids: Sequence[int]) -> list[tuple[RunProblem, tuple[Image, ...]]]:
    """Return problems of a run with their images."""
    problems = {problem.id: problem for problem in read_problems(session, RunProblemRow.id.in_(set(ids)))}
    images = load_images(session, (image for each in problems.values() for image in each.images))
    entries = {id: (each, tuple(images[image] for image in each.images)) for id, each in problems.items()}
    return [entries[id] for id in ids]


@dataclass(frozen=True)
class NewSample:
    """A response with its place in a run."""

    run_problem_id: int
    ordinal: int
    ask_id: int | None  # None if it was imported
    seed: int | None
    text: str
    stop_reason: str  # stop, length (cut at the maximum tokens), content_filter, or the server's own word
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


_DrawnBlock = tuple[str, Sequence[NewSample], Sequence[Grade]]
"""The item of a task with its samples and their grades."""


def _store_blocks(
    run_id: str, grader_row: int, session: Session, blocks: Sequence[_DrawnBlock]
) -> list[bool]:
    """Write blocks with their grades and finish their tasks.

    Returns which are new: another process may have stored a block of a process that was silent for too long.
    """
    tasks = (
        TaskRow.run_id == run_id,
        TaskRow.item.in_([item for item, _, _ in blocks]),
        TaskRow.state != DONE,
    )
    finishing = update(TaskRow).where(*tasks).values(state=DONE, worker=None, error=None)
    new = set(session.scalars(finishing.returning(TaskRow.item)))
    samples = [sample for item, block, _ in blocks if item in new for sample in block]
    grades = [grade for item, _, block in blocks if item in new for grade in block]
    if samples:
        ids = insert_samples(session, samples)
        rows = [
            grade_row(id, sample.run_problem_id, grader_row, grade)
            for id, sample, grade in zip(ids, samples, grades, strict=True)
        ]
        insert_grades(session, rows)
        # Texts are stored once: as samples.
        asks = {sample.ask_id for sample in samples if sample.ask_id is not None}
        session.execute(delete(AskBodyRow).where(AskBodyRow.ask_id.in_(asks)))
        session.execute(update(AskRow).where(AskRow.id.in_(asks)).values(key=None))
    return [item in new for item, _, _ in blocks]


def insert_samples(session: Session, samples: Sequence[NewSample]) -> range:
    """Write headers and texts of at least one sample in a write transaction; return their ids."""
    # The write lock is held, so nobody takes these ids in between; asking for them back row by row is slow.
    next_id = (session.scalar(select(func.max(SampleRow.id))) or 0) + 1
    ids = range(next_id, next_id + len(samples))
    headers = [
        {"id": id} | {name: value for name, value in vars(sample).items() if name != "text"}
        for id, sample in zip(ids, samples, strict=True)
    ]
    texts = [{"sample_id": id, "text": sample.text} for id, sample in zip(ids, samples, strict=True)]
    table: Any  # bare, since the ORM spends more on a statement than SQLite does
    for table, rows in ((SampleRow.__table__, headers), (SampleTextRow.__table__, texts)):
        session.connection().execute(insert(table), rows)
    return ids
