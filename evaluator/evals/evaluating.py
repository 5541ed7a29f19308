"""Run evaluations: open a run for each benchmark first, then sample and grade them in turn."""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.orm import Session

from evaluator.benchmarks.loading import load_benchmark, require_golds
from evaluator.benchmarks.types import LoadedBenchmark
from evaluator.config import EvalConfig
from evaluator.evals.counts import samples_missing
from evaluator.evals.overview import runs_overview
from evaluator.evals.problems import PlacedProblem, placed_hash
from evaluator.evals.running import EvalOutcome, run_eval
from evaluator.evals.runs import EvalSpec, is_imported, model_slug, open_eval_run
from evaluator.evals.tables import SAMPLE
from evaluator.grading import Grader
from evaluator.grading.workers.own import own_version
from service.asks.ask import INTERRUPTED
from service.asks.request import prompt_request
from service.database import Database
from service.engines.opening import OpenModels, engine_logs, price_of
from service.errors import InputError
from service.models.estimate import IMAGE_TOKENS, SHORT_ANSWER, Estimate, between, priced, scaled, tokens
from service.models.settings import NO_RAW_IMAGES, SamplingSettings
from service.questions.images import store_images
from service.runs.spending import hold_cap
from service.runs.store import Run, check_name, keep_config
from service.telling import TellStage

FATAL = ("budget", "requests", "authentication", "unknown model", "quota", "settings", "failing")
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
    with (
        Grader() as rules,
        Grader(own=config.grader) if config.grader else nullcontext(rules) as grader,
    ):
        _require_golds(config, problem_sets, rules, note)
        async with OpenModels(engine_logs(db), config) as models:
            endpoint = await models.open(config)
            at_once = AT_ONCE if endpoint.takes("n") else 1
            specs = [_spec(config, problems, endpoint.description, at_once) for problems in problem_sets]
            if config.seed is None:
                note("no seed is sent, so the run cannot be repeated exactly")
            for problems, spec in zip(problem_sets, specs, strict=True):
                text = problems.placed[0].problem.text
                endpoint.check(prompt_request(endpoint.model, spec.prompt, spec.sampling, text))
            runs = _open_runs(config, db, problem_sets, specs, note)
            hold_cap(db, runs, config.max_usd, note)
            options, noted = models.models(), set[str]()
            for run in runs:
                with progress(run.name) as report:
                    outcome = await run_eval(
                        db, run, options, config.n, report, grader=grader, retry_final=config.retry_final
                    )
                if (limit := options.budget.max_requests) is not None:
                    left = options.budget.model_copy(update={"max_requests": limit - outcome.sent})
                    options = replace(options, budget=left)
                for notice in models.notices:
                    if notice not in noted:
                        note(notice)
                noted |= {*models.notices}
                done.append((run, outcome))
                if outcome.stopped == INTERRUPTED:
                    break
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

    Scaled by samples from the largest finished run of the same model, prompt and sampling, one of the same
    benchmark first; of another one the range is twice as wide both ways. Else from the problems' lengths:
    responses of `SHORT_ANSWER` tokens to ones of all that are allowed.
    """
    wanted, placed, n = _spec(config, problems, {}, AT_ONCE), problems.taken, config.n

    def drawing(spec: EvalSpec) -> tuple[Any, ...]:
        return spec.model, spec.prompt, spec.sampling.model_copy(update={"seed": None})

    missing, trials = len(placed) * n, []
    if session is not None:
        for line in runs_overview(session):
            spec = EvalSpec.model_validate(line.run.spec)
            same = spec.problems_hash == wanted.problems_hash
            if same and line.run.name == _run_name(config, problems.loaded.name):
                missing -= line.problems * n - samples_missing(session, line.run.id, n)
            drawn_here = line.run.finished_at and line.samples and not is_imported(line.run)
            if drawn_here and drawing(spec) == drawing(wanted):
                trials.append((same, line.samples, line))
        if trials:
            same, samples, trial = max(trials, key=lambda sized: sized[:2])
            spread = 1.0 if same else 2.0
            return scaled(session, trial.run, trial.problems, len(placed), missing / samples, spread=spread)
    requests = math.ceil(missing / min(n, wanted.sampling.samples_per_request))
    texts = [wanted.prompt.fill(place.problem.text) + (wanted.prompt.system or "") for place in placed]
    each = requests / max(1, len(texts))
    images = sum(len(place.problem.images) for place in placed)
    prompts = each * (tokens(sum(map(len, texts))) + images * IMAGE_TOKENS)
    longest = wanted.sampling.max_tokens
    drawn = missing * between(min(SHORT_ANSWER, longest), longest)
    asked = between(requests, requests)
    stages = (priced(SAMPLE, wanted.model, asked, prompts, drawn, price_of([config])),)
    return Estimate(len(placed), stages, images=images)


def load_benchmarks(config: EvalConfig) -> list[ProblemSet]:
    """Read the benchmarks of a config; none if it names a neighbor set."""
    files = match_files(config.benchmarks, config.sources)
    problem_sets = []
    for name in config.benchmarks:
        loaded = load_benchmark(
            name,
            source=files.get(name),
            options_seed=config.options_seed,
            allow_changed=config.allow_changed,
        )
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


def match_files(benchmarks: Sequence[str], sources: Sequence[str]) -> dict[str, str]:
    """Return the file of each benchmark's rows: one per benchmark in order, or as NAME=FILE."""
    spellings = [spelling.partition("=") for spelling in sources]
    files = {name: file for name, equals, file in spellings if equals and name in benchmarks}
    if len(files) == len(sources):
        return files
    if len(sources) != len(benchmarks) or files:
        raise InputError(
            f"cannot match {len(sources)} --from to {len(benchmarks)} benchmarks. Give one per benchmark, in "
            f"order, or use NAME=FILE, such as --from {benchmarks[0]}=FILE."
        )
    return dict(zip(benchmarks, sources, strict=True))


def _spec(config: EvalConfig, problems: ProblemSet, engine: dict[str, Any], at_once: int) -> EvalSpec:
    kinds = {str(place.problem.kind) for place in problems.placed}
    prompt = config.prompt(choice=kinds == {"choice"}, programs=kinds == {"code"})
    if prompt.form == "raw" and any(place.problem.images for place in problems.placed):
        raise InputError(NO_RAW_IMAGES)
    sampling: SamplingSettings = config.drawing(at_once=at_once)
    return EvalSpec(
        problems=problems.loaded.name,
        problems_hash=placed_hash(problems.placed),
        size=len(problems.loaded.problems),
        source=problems.loaded.source,
        model=config.model,
        engine=engine,
        prompt=prompt,
        sampling=sampling,
        answers=config.answers,
        grader=own_version(config.grader) if config.grader else "",
    )


def _run_name(config: EvalConfig, label: str) -> str:
    return f"{config.name or model_slug(config.model)}.{label.replace('@', '-')}"


def _open_runs(
    config: EvalConfig,
    db: Database,
    problem_sets: Sequence[ProblemSet],
    specs: Sequence[EvalSpec],
    note: Note,
) -> list[Run]:
    """Return the runs, all made before the first is worked on, so that no clash comes after hours."""
    runs = []
    with db.write() as session:
        for problems, spec in zip(problem_sets, specs, strict=True):
            name = _run_name(config, problems.loaded.name)
            if problems.loaded.benchmark is not None:  # else the database has the images
                ids = (id for place in problems.taken for id in place.problem.images)
                store_images(session, problems.loaded.images.read(ids))
            opened, before = open_eval_run(session, name, spec, problems.taken)
            keep_config(session, opened.id, config.stored())
            if before:
                note(f"resuming run {name}")
            if 0 < before < len(problems.taken):
                note(f"run {name} grows from {before:,} to {len(problems.taken):,} problems")
            runs.append(opened)
    return runs
