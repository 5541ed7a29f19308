"""Run evaluations: open a run for each benchmark first, then draw and grade the samples of each in turn.

A task is a block of samples of a problem, stored with their grades.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from evaluator.benchmarks.loading import LoadedBenchmark, benchmark_loader, require_golds
from evaluator.config import EvalConfig
from evaluator.evals.counts import Block, read_block, samples_missing
from evaluator.evals.overview import runs_overview
from evaluator.evals.problems import PlacedProblem, RunProblem, placed_hash, read_problems
from evaluator.evals.runs import MAX_SAMPLES, EvalSpec, is_imported, model_slug, open_eval_run, run_version
from evaluator.evals.samples import NewSample, grade_run, store_blocks
from evaluator.evals.tables import SAMPLE, RunProblemRow
from evaluator.grading import Grade, GradeCase, Grader
from evaluator.grading.versions import grader_id
from evaluator.grading.workers.own import own_version
from service.asks import request as kinds
from service.asks.ask import BUDGET, FAILING, INTERRUPTED, REQUESTS, Asker, Models, Outcome
from service.asks.request import prompt_request
from service.asks.servers import Endpoint
from service.asks.store import Grouped, add_tasks
from service.asks.tables import TaskRow
from service.asks.work import work_on_run
from service.database import Database
from service.engines.opening import OpenModels, engine_logs
from service.errors import InputError
from service.hashing import derive_seed
from service.models.estimate import IMAGE_TOKENS, SHORT_ANSWER, Estimate, between, priced, scaled, tokens
from service.models.settings import NO_RAW_IMAGES
from service.questions.images import Image, load_images, store_images
from service.runs.progress import hold_cap
from service.runs.store import Run, check_name, keep_config
from service.telling import TellStage

FATAL = kinds.FATAL | {BUDGET, REQUESTS, FAILING, INTERRUPTED}
"""Reasons to stop that would stop the next run of the same call too."""

AT_ONCE = 8
"""Usual responses per request; arXiv 2601.22478's public evaluation draws so many."""

Note = Callable[[str], None]
Progress = Callable[[str], AbstractContextManager[TellStage]]
"""Shows how far a run of this name is."""


@dataclass(frozen=True)
class ProblemSet:
    """What one run is over: a benchmark, or the questions of a neighbor set with their neighbors."""

    loaded: LoadedBenchmark
    placed: Sequence[PlacedProblem]  # all, neighbors included
    taken: Sequence[PlacedProblem]  # those of the first problems, as the config limits them


@dataclass(kw_only=True)
class EvalOutcome(Outcome):
    """What one invocation did."""

    drawn: int  # new samples
    graded: Counter[str]  # new grades by value


async def evaluate(
    config: EvalConfig,
    db: Database,
    problem_sets: Sequence[ProblemSet],
    *,
    progress: Progress,
    note: Note,
    each: Callable[[Run, EvalOutcome], None],
) -> list[tuple[Run, EvalOutcome]]:
    """Draw what is missing of `config.n` samples per problem, grade all, and return the runs worked on.

    Samples and grades are stored as they come; after an interruption or a spent budget, the same call
    resumes. A run that stops for a reason that would stop the next one too ends the list.

    Args:
        problem_sets: What the runs are over: of `load_benchmarks`, or of `rephraser.sets.problems`.
        note: Called with what the user should know.
        each: Called with each run when it ends.
    """
    done: list[tuple[Run, EvalOutcome]] = []
    with Grader() as rules, Grader(own=config.grader) if config.grader else nullcontext(rules) as grader:
        _require_golds(config, problem_sets, rules, note)
        async with OpenModels(engine_logs(db), config) as models:
            endpoint = await models.open(config)
            if config.seed is None:
                note("no seed is sent, so the run cannot be repeated exactly")
            with db.write() as session:  # all before the first is worked on: no clash comes after hours
                runs = [_open_run(session, config, problems, endpoint, note) for problems in problem_sets]
            hold_cap(db, runs, config.max_usd, note)
            options, noted = models.models(), list[str]()
            for run in runs:
                with progress(run.name) as report:
                    outcome = await run_eval(
                        db, run, options, config.n, report, grader=grader, retry_final=config.retry_final
                    )
                if outcome.was_complete:
                    note(f"run {run.name} was already complete")
                if (limit := options.budget.max_requests) is not None:
                    left = options.budget.model_copy(update={"max_requests": limit - outcome.sent})
                    options = replace(options, budget=left)
                for notice in models.notices:
                    if notice not in noted:
                        note(notice)
                noted = models.notices
                done.append((run, outcome))
                if outcome.stopped != INTERRUPTED:
                    each(run, outcome)
                if outcome.stopped in FATAL:
                    break
    return done


def estimate(
    config: EvalConfig, db: Database | None, problem_sets: Sequence[ProblemSet], note: Note
) -> dict[str, Estimate]:
    """Return what the runs of a config will take, by their names; nothing is sent or stored.

    Without a database, no earlier run can be scaled.
    """
    with Grader() as grader:
        _require_golds(config, problem_sets, grader, note)
    with nullcontext() if db is None else db.read() as session:
        return {
            _run_name(config, each.loaded.name): _estimate(config, each, session) for each in problem_sets
        }


def _estimate(config: EvalConfig, problems: ProblemSet, session: Session | None) -> Estimate:
    """Estimate what drawing `config.n` samples for each problem takes beyond what the run has.

    Scaled by samples from the largest finished run over the same problems with the same model, prompt and
    sampling. Else from the problems' lengths: responses of `SHORT_ANSWER` tokens to ones of all that are
    allowed.
    """
    wanted, placed, n = _spec(config, problems, {}, AT_ONCE), problems.taken, config.n

    def drawing(spec: EvalSpec) -> tuple[Any, ...]:
        return spec.model, spec.prompt, spec.sampling.model_copy(update={"seed": None})

    missing = len(placed) * n
    if session is not None:
        trials = []
        for line in runs_overview(session):
            spec = EvalSpec.model_validate(line.run.spec)
            if spec.problems_hash != wanted.problems_hash:
                continue
            if line.run.name == _run_name(config, problems.loaded.name):
                missing -= line.problems * n - samples_missing(session, line.run.id, n)
            drawn_here = line.run.finished_at and line.samples and not is_imported(line.run)
            if drawn_here and drawing(spec) == drawing(wanted):
                trials.append(line)
        if trials:
            trial = max(trials, key=lambda line: line.samples)
            return scaled(session, trial.run, trial.problems, len(placed), missing / trial.samples)
    requests = math.ceil(missing / min(n, wanted.sampling.samples_per_request))
    texts = [wanted.prompt.fill(place.problem.text) + (wanted.prompt.system or "") for place in placed]
    each = requests / max(1, len(texts))
    images = sum(len(place.problem.images) for place in placed)
    prompts = each * (tokens(sum(map(len, texts))) + images * IMAGE_TOKENS)
    longest = wanted.sampling.max_tokens
    drawn = missing * between(min(SHORT_ANSWER, longest), longest)
    return Estimate(len(placed), [priced(SAMPLE, config, requests, prompts, drawn)], images=images)


def load_benchmarks(config: EvalConfig) -> list[ProblemSet]:
    """Read the benchmarks of a config; none if it names a neighbor set."""
    rows = {"options_seed": config.options_seed, "allow_changed": config.allow_changed}
    load = benchmark_loader(config.benchmarks, config.sources, **rows)
    problem_sets = []
    for loaded in map(load, config.benchmarks):
        check_name(_run_name(config, loaded.name))
        placed = [PlacedProblem(problem) for problem in loaded.problems]
        problem_sets.append(ProblemSet(loaded, placed, placed[: config.limit]))
    return problem_sets


def _require_golds(
    config: EvalConfig, problem_sets: Sequence[ProblemSet], grader: Grader, note: Note
) -> None:
    """Grade the golds of the problems that are taken against themselves, before anything is asked."""
    for each in problem_sets:
        first = replace(each.loaded, problems=each.loaded.problems[: config.limit])
        require_golds(first, grader, note, allow=config.allow_bad_golds)


def _spec(config: EvalConfig, problems: ProblemSet, engine: Mapping[str, Any], at_once: int) -> EvalSpec:
    kinds = {str(place.problem.kind) for place in problems.placed}
    prompt = config.prompt(choice=kinds == {"choice"}, programs=kinds == {"code"})
    if prompt.form == "raw" and any(place.problem.images for place in problems.placed):
        raise InputError(NO_RAW_IMAGES)
    return EvalSpec(
        problems=problems.loaded.name,
        problems_hash=placed_hash(problems.placed),
        size=len(problems.loaded.problems),
        source=problems.loaded.source,
        model=config.model,
        engine=engine,
        prompt=prompt,
        sampling=config.drawing(at_once=at_once),
        answers=config.answers,
        grader=own_version(config.grader) if config.grader else "",
    )


def _run_name(config: EvalConfig, label: str) -> str:
    return f"{config.name or model_slug(config.model)}.{label.replace('@', '-')}"


def _open_run(
    session: Session, config: EvalConfig, problems: ProblemSet, endpoint: Endpoint, note: Note
) -> Run:
    """Return the run over these problems, made if there is none yet."""
    name, taken = _run_name(config, problems.loaded.name), problems.taken
    spec = _spec(config, problems, endpoint.description, AT_ONCE if endpoint.takes("n") else 1)
    text = problems.placed[0].problem.text
    endpoint.check(prompt_request(endpoint.model, spec.prompt, spec.sampling, text))
    if problems.loaded.benchmark is not None:  # else the database has the images
        ids = (id for place in taken for id in place.problem.images)
        store_images(session, problems.loaded.images.read(ids))
    run, before = open_eval_run(session, name, spec, taken)
    keep_config(session, run.id, config.stored())
    if before:
        note(f"resuming run {name}")
    if 0 < before < len(taken):
        note(f"run {name} grows from {before:,} to {len(taken):,} problems")
    return run


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
        grader_row = grader_id(session, version)
    graded: Counter[str] = Counter()
    store = partial(store_blocks, run.id, grader_row)

    async def draw(asker: Asker, item: str) -> None:
        """Draw, grade and store a block; a server that sends fewer responses is asked again for the rest."""
        block = read_block(item)
        problem, images = await asker.store.read_together(_read_problems, block.run_problem_id)
        samples: list[NewSample] = []
        while len(samples) < block.size:
            first, left = block.first + len(samples), block.size - len(samples)
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
        grades = await grading.do([problem.case(sample.text, version) for sample in samples])
        for sample, grade in zip(samples, grades, strict=True):
            sample.grade = grade
        if await asker.store.write_together(store, (item, samples)):
            graded.update(grade.value for grade in grades)

    with closing(Grouped(partial(_grade_blocks, grader))) as grading:
        sampling = partial(report, "sampling")
        outcome = await work_on_run(db, run.id, draw, models, sampling, retry_final=retry_final)
    drawn = graded.total()
    if outcome.stopped != INTERRUPTED:  # samples of another tool, or of a grader that is new to the run
        graded += grade_run(db, run.id, grader, partial(report, "grading"), version=version)
    return EvalOutcome(**vars(outcome), drawn=drawn, graded=graded)


def plan_blocks(session: Session, run_id: str, n: int, samples_per_request: int) -> None:
    """Give a run the tasks for what its problems lack of `n` samples."""
    ends: Counter[int] = Counter()
    for item in session.scalars(select(TaskRow.item).where(TaskRow.run_id == run_id)):
        block = read_block(item)
        ends[block.run_problem_id] = max(ends[block.run_problem_id], block.first + block.size)
    problems = select(RunProblemRow.id).where(RunProblemRow.run_id == run_id).order_by(RunProblemRow.position)
    blocks = (
        Block(problem, first, min(samples_per_request, n - first))
        for problem in session.scalars(problems).all()
        for first in range(ends[problem], n, samples_per_request)
    )
    add_tasks(session, run_id, (block.item for block in blocks))


def _grade_blocks(grader: Grader, blocks: Sequence[Sequence[GradeCase]]) -> list[list[Grade]]:
    grades = iter(grader.grade_many([case for block in blocks for case in block]))
    return [[next(grades) for _ in block] for block in blocks]


def _read_problems(session: Session, ids: Sequence[int]) -> list[tuple[RunProblem, tuple[Image, ...]]]:
    """Return problems of a run with their images."""
    problems = {problem.id: problem for problem in read_problems(session, RunProblemRow.id.in_(set(ids)))}
    images = load_images(session, (image for each in problems.values() for image in each.images))
    entries = {id: (each, tuple(images[image] for image in each.images)) for id, each in problems.items()}
    return [entries[id] for id in ids]
