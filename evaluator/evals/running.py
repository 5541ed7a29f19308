"""Drives an eval run: plan what is missing as cells, have them drawn and stored, look again, grade."""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import cast

from sqlalchemy import Table, func, insert, select
from sqlalchemy.orm import Session

from evaluator.evals.grading import Graded, grade_run
from evaluator.evals.missing import (
    missing_by_problem,
    promised_by_position,
    samples_lost,
    samples_missing,
)
from evaluator.evals.overview import runs_overview
from evaluator.evals.problems import PlacedProblem, RunProblem, read_problems, run_problems
from evaluator.evals.runs import MAX_SAMPLES, EvalSpec, is_imported, run_version
from evaluator.evals.tables import SAMPLE, RunProblemRow, SampleRow, SampleTextRow
from evaluator.grading import Grader
from service.database import Database, in_parts
from service.errors import InputError
from service.models.drawing import CellsToDraw, DrawnCell, LeasedCell, Response, Sampler, sample_seed
from service.models.estimate import (
    IMAGE_TOKENS,
    SHORT_ANSWER,
    Estimate,
    PriceOf,
    add,
    priced,
    scaled,
    times,
    tokens,
)
from service.runs.cells import (
    Cell,
    CellPlan,
    add_cells,
    fill_cell,
    is_complete,
    open_cells,
    reopen_failed_cells,
)
from service.runs.leases import OTHERS_POLL_S, release_dead_leases
from service.runs.store import Run, finish_run
from service.runs.tables import FILLED, CellRow
from service.telling import TellStage

_PROBLEMS_PER_PART, _SAMPLES_PER_PART, _CELLS_PER_PART = 500, 20_000, 5_000
"""What one transaction plans at most, but for a problem that has more samples."""

_LAST_SAMPLE = select(func.max(SampleRow.id))
_INSERT_SAMPLES = insert(cast(Table, SampleRow.__table__))
_INSERT_TEXTS = insert(cast(Table, SampleTextRow.__table__))


@dataclass(frozen=True)
class EvalOutcome:
    """What one invocation did.

    `drawn` samples are new, those of other processes included; `missing` are not there of `n` for each
    problem, of which `lost` are not asked for again: their requests failed for good. `stopped` says why
    sampling stopped before (budget, interrupted, failing, ...), `message` in a sentence; `failures` counts
    failed requests by kind.
    """

    drawn: int
    missing: int
    lost: int
    graded: Graded
    stopped: str | None = None
    message: str | None = None
    failures: dict[str, int] = field(default_factory=dict)


def run_eval(
    db: Database,
    run: Run,
    sampler: Sampler,
    n: int,
    report: TellStage,
    *,
    grader: Grader,
    retry_final: bool = False,
) -> EvalOutcome:
    """Draw what is missing of `n` samples a problem, then grade all samples.

    Several processes may work on one run. Samples there already are never drawn again, so a larger `n` draws
    only the difference. Grading happens whatever stopped the sampling, except an interruption. What failed
    for good is asked for again only with `retry_final`.

    Raises:
        InputError: `n` is less than 1 or more than 100,000.
    """
    check_n(n)
    with db.write() as session:
        reopen_failed_cells(session, run.id, final=retry_final)
    outcome = _draw(db, run, sampler, n, report)
    if outcome.stopped == "interrupted":
        return outcome
    graded = grade_run(
        db,
        run.id,
        grader,
        lambda done, total: report("grading", done, total, ""),
        version=run_version(run),
    )
    return replace(outcome, graded=graded)


def estimate_eval(
    session: Session | None,
    name: str,
    wanted: EvalSpec,
    placed: Sequence[PlacedProblem],
    n: int,
    price_of: PriceOf,
) -> Estimate:
    """Estimate what drawing `n` samples for each of these problems takes beyond what run `name` has.

    Scaled by samples from the largest finished run of the same model, prompt and sampling, one of the same
    benchmark first; of another one the range is twice as wide both ways, as its problems may be longer. Else
    from the problems' lengths: responses of `SHORT_ANSWER` tokens to ones of all that are allowed. What is in
    `wanted` of the engine is not compared; `session` is None where there is no database.
    """
    check_n(n)
    missing, trials = len(placed) * n, []
    for line in runs_overview(session) if session is not None else ():
        spec = EvalSpec.from_json(line.run.spec)
        same = spec.problems_hash == wanted.problems_hash
        if session is not None and line.run.name == name and same:
            missing -= line.problems * n - samples_missing(session, line.run.id, n)
        alike = (spec.model, spec.prompt, replace(spec.sampling, seed=None)) == (
            wanted.model,
            wanted.prompt,
            replace(wanted.sampling, seed=None),
        )
        if alike and not is_imported(spec) and line.run.finished_at and line.samples:
            trials.append((same, line.samples, line))
    if trials and session is not None:
        same, samples, trial = max(trials, key=lambda sized: sized[:2])
        spread = 1.0 if same else 2.0
        return scaled(session, trial.run, trial.problems, len(placed), missing / samples, spread=spread)
    requests = math.ceil(missing / min(n, wanted.sampling.samples_per_request))
    texts = [wanted.prompt.fill(place.problem.text) + (wanted.prompt.system or "") for place in placed]
    each = requests / max(1, len(texts))
    images = sum(len(place.problem.images) for place in placed)
    prompts = add(times(each, tokens(sum(map(len, texts)))), times(each * images, IMAGE_TOKENS))
    longest = wanted.sampling.max_tokens
    drawn = times(missing, (min(SHORT_ANSWER, longest), longest))
    asked = (float(requests), float(requests))
    stages = (priced(SAMPLE, wanted.model, asked, prompts, drawn, price_of),)
    return Estimate(len(placed), stages, images=images)


def check_n(n: int) -> None:
    """Raise `InputError` where `n` samples a problem cannot be drawn."""
    if not 1 <= n <= MAX_SAMPLES:
        raise InputError(f"{n} samples a problem; give 1 to {MAX_SAMPLES:,}.")


def _draw(db: Database, run: Run, sampler: Sampler, n: int, report: TellStage) -> EvalOutcome:
    spec = EvalSpec.from_json(run.spec)
    with db.write() as session:
        release_dead_leases(session, run.id)
        finish_run(session, run.id, finished=False)
        problems = run_problems(session, run.id)
        missing, lost = samples_missing(session, run.id, n), samples_lost(session, run.id, n)
    cells = EvalCells(db, run.id, spec, {problem.id: problem for problem in problems})
    begun, total = missing, n * len(problems)
    stopped = message = None
    failures: Counter[str] = Counter()
    while missing > lost:
        with db.write() as session:
            release_dead_leases(session, run.id)
        plan_run(db, run.id, problems, n, spec.sampling.samples_per_request)
        filled = sampler.fill(cells, _Progress(report, total - missing, total))
        failures.update(filled.failures)
        before = missing
        with db.read() as session:
            missing = samples_missing(session, run.id, n)
            lost = samples_lost(session, run.id, n)
            elsewhere = open_cells(session, run.id)
        if filled.stopped is not None:
            stopped, message = filled.stopped, filled.message
            break
        if missing < before:
            continue
        if not elsewhere:
            break  # only requests that failed are left
        report("waiting for another process", total - missing, total, f"{elsewhere:,} requests")
        time.sleep(OTHERS_POLL_S)
    with db.write() as session:
        # A smaller n leaves requests open that a larger one has planned.
        finish_run(session, run.id, finished=missing == lost and is_complete(session, run.id))
    return EvalOutcome(begun - missing, missing, lost, Graded(0, 0, 0), stopped, message, dict(failures))


class _Progress:
    """Turns a sampler's steps into the state of the run."""

    def __init__(self, report: TellStage, there: int, total: int) -> None:
        self._report, self._there, self._total = report, there, total

    def __call__(self, drawn: int, words: str) -> None:
        self._there += drawn
        self._report("sampling", min(self._there, self._total), self._total, words)


def plan_run(
    db: Database, run_id: str, problems: Sequence[RunProblem], n: int, samples_per_request: int
) -> int:
    """Make cells for what is missing of `n` samples a problem; return the number of new cells.

    Some problems at a time, each part in a transaction of its own: others write in between, and what a kill
    leaves out is planned at the next call. Problems that lack nothing are not looked at.
    """
    with db.read() as session:
        missing = missing_by_problem(session, run_id, n)
        promised = promised_by_position(session, run_id, n)
    lacking = [problem for problem in problems if missing[problem.id] > promised.get(problem.position, 0)]
    size = min(_PROBLEMS_PER_PART, max(1, _SAMPLES_PER_PART // n))
    planned = 0
    for part in in_parts(lacking, size):
        made = _CELLS_PER_PART
        while made == _CELLS_PER_PART:
            made = db.write_again(
                lambda session: plan_samples(
                    session,
                    run_id,
                    part,  # noqa: B023  (called at once)
                    n,
                    samples_per_request,
                    most=_CELLS_PER_PART,
                )
            )
            planned += made
    return planned


def plan_samples(
    session: Session,
    run_id: str,
    problems: Sequence[RunProblem],
    n: int,
    samples_per_request: int,
    *,
    most: int | None = None,
) -> int:
    """Make cells for what is missing of `n` samples of these problems, `most` at a time; return how many.

    What is drawn or planned already stays, so a run of 32 samples grows to 128 by 96, and responses that a
    server left out of an answer are asked for again.
    """
    covered: dict[int, set[int]] = defaultdict(set)
    drawn = select(SampleRow.run_problem_id, SampleRow.ordinal).where(
        SampleRow.run_problem_id.in_([problem.id for problem in problems]), SampleRow.ordinal < n
    )
    for run_problem_id, ordinal in session.execute(drawn):
        covered[run_problem_id].add(ordinal)
    attempts: dict[tuple[int, int], int] = defaultdict(int)
    cells = select(CellRow.payload, CellRow.state).where(
        CellRow.scope == run_id,
        CellRow.kind == SAMPLE,
        CellRow.subject_id.in_({problem.problem_id for problem in problems}),
    )
    for payload, state in session.execute(cells):
        run_problem_id, first, count = payload["run_problem"], payload["first"], payload["count"]
        attempts[run_problem_id, first] += 1
        if state != FILLED:  # still to be drawn
            covered[run_problem_id].update(range(first, first + count))
    plans = (
        CellPlan(
            scope=run_id,
            kind=SAMPLE,
            subject_id=problem.problem_id,
            round=problem.position,  # the same problem may stand in two groups of a neighbor set
            ordinal=first,
            attempt=attempts[problem.id, first],
            payload={"run_problem": problem.id, "first": first, "count": count},
        )
        for problem in problems
        for first, count in _gaps(covered[problem.id], n, samples_per_request)
    )
    made = list(islice(plans, most))
    add_cells(session, run_id, made)
    return len(made)


def store_samples(
    session: Session, cell: Cell, drawn: Sequence[Response], seeds: Sequence[int | None]
) -> None:
    """Write what a cell brought: headers and texts. Fewer than the cell's count is fine, more is not.

    Raises:
        ValueError: more responses than the cell asked for.
    """
    count, first, run_problem = cell.payload["count"], cell.payload["first"], cell.payload["run_problem"]
    if len(drawn) > count:
        raise ValueError(f"{len(drawn)} responses for a cell of {count}")
    if not drawn:
        return
    samples = [
        NewSample(run_problem, first + place, cell.id, seed, response)
        for place, (response, seed) in enumerate(zip(drawn, seeds, strict=False))
    ]
    insert_samples(session, samples)


@dataclass(frozen=True)
class NewSample:
    """A response with its place in a run; `cell_id` is None where it was imported."""

    run_problem_id: int
    ordinal: int
    cell_id: int | None
    seed: int | None
    response: Response


def insert_samples(session: Session, samples: Sequence[NewSample]) -> range:
    """Write headers and texts of samples, one at least, in a write transaction; return their ids."""
    connection = session.connection()
    # The write lock is held, so nobody takes these ids in between; asking for them back row by row is slow.
    next_id = (connection.execute(_LAST_SAMPLE).scalar() or 0) + 1
    ids = range(next_id, next_id + len(samples))
    headers = [
        {
            "id": id,
            "run_problem_id": sample.run_problem_id,
            "ordinal": sample.ordinal,
            "cell_id": sample.cell_id,
            "seed": sample.seed,
            "stop_reason": sample.response.stop_reason,
            "prompt_tokens": sample.response.prompt_tokens,
            "completion_tokens": sample.response.completion_tokens,
        }
        for id, sample in zip(ids, samples, strict=True)
    ]
    connection.execute(_INSERT_SAMPLES, headers)
    texts = [{"sample_id": id, "text": sample.response.text} for id, sample in zip(ids, samples, strict=True)]
    connection.execute(_INSERT_TEXTS, texts)
    return ids


@dataclass(frozen=True)
class EvalCells(CellsToDraw):
    """The empty cells of an eval run, and how to fill them."""

    def leased(self, cell: Cell) -> LeasedCell:
        """Return a cell with its seeds, which follow from the run's, the problem and the ordinal."""
        problem = self.problems.get(cell.payload["run_problem"]) or self._added(cell)
        first, count = cell.payload["first"], cell.payload["count"]
        seeds = tuple(
            sample_seed(self.spec.sampling.seed, problem.problem_id, ordinal)
            for ordinal in range(first, first + count)
        )
        return LeasedCell(cell, problem, count, seeds)

    def _added(self, cell: Cell) -> RunProblem:
        """Return a problem by which another process has let the run grow meanwhile."""
        with self.db.read() as session:
            (problem,) = read_problems(session, RunProblemRow.id == cell.payload["run_problem"])
        return problem

    def keep(self, session: Session, drawn: DrawnCell) -> None:
        """Fill a cell and write its samples in the transaction of `session`."""
        if fill_cell(session, drawn.leased.cell.id, drawn.raw, drawn.receipt):
            leased = drawn.leased
            seeds = leased.seeds if drawn.seeded else [None] * leased.count
            store_samples(session, leased.cell, drawn.responses, seeds)


def _gaps(covered: set[int], n: int, longest: int) -> Iterator[tuple[int, int]]:
    """Yield (first, count) of the ordinals below `n` that are not covered, `longest` at most in one."""
    first = None
    for ordinal in range(n + 1):
        missing = ordinal < n and ordinal not in covered
        if missing and first is None:
            first = ordinal
        elif first is not None and (not missing or ordinal - first == longest):
            yield first, ordinal - first
            first = ordinal if missing else None
