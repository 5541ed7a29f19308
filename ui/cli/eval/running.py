"""`tagrpo eval run`: one run for each benchmark, opened first, then drawn and graded in turn."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from ui.cli import exits, output
from ui.cli.eval.problems import ProblemSet, load_benchmarks, load_neighbors, show_estimates
from ui.cli.eval.settings import (
    AnswersName,
    AnswersTaken,
    BenchmarkRows,
    Drawing,
    Engine,
    EvalRequests,
    OwnGrader,
    SamplerName,
    check_grader,
    choose_sampler,
    model_settings,
    sampler_help,
)
from ui.cli.output import Terminal, plural
from ui.cli.requests import DryRun, hold_cap, log_folder, words_by_kind
from ui.cli.runs.resuming import keep
from ui.cli.settings import Db, SettingsFile

if TYPE_CHECKING:
    from evaluator.evals.running import EvalOutcome
    from evaluator.evals.runs import EvalSpec
    from evaluator.grading import Grader
    from evaluator.reports.standing import RunNumbers
    from service.asks.ask import Models
    from service.asks.money import Price
    from service.asks.request import Request
    from service.database import Database
    from service.engines.opening import OpenModels
    from service.models.prompts import Preset
    from service.runs.store import Run

    Specs = list[tuple[ProblemSet, EvalSpec]]

FATAL = ("budget", "requests", "authentication", "unknown model", "quota", "settings", "failing")
"""Reasons to stop that would stop the next run of the same command too."""


def run(
    context: typer.Context,
    benchmarks: Annotated[
        list[str] | None,
        Argument(help="Names from `tagrpo benchmarks list`, or your own files (.jsonl, .toml)."),
    ] = None,
    *,
    model: Annotated[
        str,
        Option(
            help="Model, named as in litellm (gpt-4-turbo, hosted_vllm/Qwen/Qwen3-4B); for vllm and local a "
            "Hub name or folder."
        ),
    ],
    n: Annotated[
        int | None, Option("--n", help="Samples per problem. Default: the preset's, 32 (paper: 128).")
    ] = None,
    name: Annotated[
        str | None, Option(help="Name of the runs, stored as NAME.BENCHMARK. Default: after the model.")
    ] = None,
    neighbors: Annotated[
        str | None, Option(help="Published neighbor set to use instead of benchmarks: NAME or NAME@3.")
    ] = None,
    dry_run: DryRun = False,
    limit: Annotated[
        int | None,
        Option(min=1, help="Only the first problems. A larger limit, or none, extends the same run."),
    ] = None,
    allow_bad_golds: Annotated[
        bool, Option(help="Run even if gold answers do not grade as correct.")
    ] = False,
    sampler: Annotated[SamplerName, Option(help=sampler_help("--model"))] = "auto",
    preset: Annotated[
        str, Option(help="Prompt, settings and n together: default, paper, paper-eval or plain.")
    ] = "default",
    answers: AnswersTaken = "all",
    own_grader: OwnGrader = None,
    rows: BenchmarkRows,
    drawing: Drawing,
    requests: EvalRequests,
    engine: Engine,
    settings: SettingsFile,
    db: Db,
    terminal: Terminal,
) -> None:
    """Draw n responses to every problem of benchmarks, grade them, and print pass@k.

    Results are stored as they arrive. After an interruption or a spent budget, run the same command again, or
    `tagrpo resume NAME`, to resume. A larger --n draws only the missing samples. Other settings start another
    run.

    Exit code 3: samples are missing, because a cap was reached or requests got no answer; 1: the model cannot
    be asked. The message says why.

    Example: tagrpo eval run amc23 aime24 --model hosted_vllm/Qwen/Qwen3-4B
    --api-base http://localhost:8000/v1 --n 128
    """
    from evaluator.evals.running import check_n
    from evaluator.grading import Grader
    from evaluator.grading.versions import GradeCache
    from evaluator.grading.workers.own import own_version
    from service.models.prompts import find_preset

    if bool(benchmarks) == (neighbors is not None):
        raise typer.BadParameter("name either benchmarks, or a neighbor set with --neighbors")
    if neighbors is not None and rows.source:
        raise typer.BadParameter("--from applies to benchmarks and cannot be combined with --neighbors")
    prompts = find_preset(preset)
    samples = prompts.n if n is None else n
    check_grader(own_grader, answers)
    graded_by = own_version(own_grader) if own_grader else ""
    kind = choose_sampler(sampler, model)
    source = model_settings(kind, model, requests, vars(engine), base_url=requests.api_base)

    def load(database: "Database | None", grader: "Grader") -> list[ProblemSet]:
        if neighbors is not None and database is not None:
            return [
                load_neighbors(
                    database, neighbors, allow_bad_golds=allow_bad_golds, limit=limit, grader=grader
                )
            ]
        return load_benchmarks(
            benchmarks or (), rows, allow_bad_golds=allow_bad_golds, limit=limit, grader=grader
        )

    def specs(problem_sets: list[ProblemSet], engine: dict[str, Any], together: int | None) -> "Specs":
        return make_specs(
            problem_sets, model, prompts, drawing, answers, graded_by, engine=engine, at_once=together
        )

    check_n(samples)
    if dry_run:
        there = not isinstance(db.place, Path) or db.place.is_file() or neighbors is not None
        with db.open(read_only=True) if there else nullcontext() as stored, Grader() as grader:
            named = named_runs(name, specs(load(stored, grader), {}, None))
            price_of = requests.prices_in_force() if kind == "remote" else _free
            show_estimates(stored, named, samples, price_of, requests.max_usd, terminal)
        return

    async def draw(database: "Database", rules: "Grader", grader: "Grader") -> None:
        from service.engines.opening import OpenModels, check_request, describe_engine, takes_n

        problem_sets = load(database, rules)
        prices, capped = requests.price_table(), requests.max_usd is not None
        async with OpenModels(log_folder(database), prices, capped=capped) as models:
            endpoint = await models.open(source)
            together = None if takes_n(endpoint) else 1
            made = specs(problem_sets, describe_engine(endpoint), together)
            if any(spec.sampling.seed is None for _, spec in made):
                output.note("no seed is sent, so another run draws other responses")
            for problems, spec in made:
                check_request(endpoint, sample_request(spec, endpoint.model, problems.placed[0].problem.text))
            runs = open_runs(database, name, made)
            hold_cap(database, runs, requests.max_usd)
            keep(context, database, runs)
            await carry_out(
                database, runs, models, requests.options(), samples, grader, terminal, requests.retry_final
            )

    with (
        db.open(create=True) as database,
        Grader(cache=GradeCache(database)) as rules,
        Grader(own=own_grader) if own_grader else nullcontext(rules) as grader,
    ):
        asyncio.run(draw(database, rules, grader))


def make_specs(
    problem_sets: Sequence[ProblemSet],
    model: str,
    preset: "Preset",
    drawing: Drawing,
    answers: AnswersName,
    graded_by: str,
    *,
    engine: "Mapping[str, Any]",
    at_once: int | None,
) -> "Specs":
    """Return the settings of the runs, one for each benchmark or neighbor set.

    Args:
        engine: What is known of the model beyond its name.
        at_once: Responses per request of a model that does not take n.

    Raises:
        InputError: settings that cannot be used.
    """
    from evaluator.evals.problems import placed_hash
    from evaluator.evals.runs import EvalSpec
    from service.errors import InputError
    from service.models.prompts import make_prompt, make_sampling
    from service.models.settings import NO_RAW_IMAGES

    overrides = drawing.overrides()
    sampling = make_sampling(preset, overrides)
    if overrides.samples_per_request is None and at_once is not None:
        sampling = replace(sampling, samples_per_request=at_once)
    specs = []
    for problems in problem_sets:
        kinds = {str(place.problem.kind) for place in problems.placed}
        spec = EvalSpec(
            problems=problems.label,
            problems_hash=placed_hash(problems.placed),
            size=problems.size,
            source=problems.source,
            model=model,
            engine=engine,
            prompt=make_prompt(preset, overrides, choice=kinds == {"choice"}, programs=kinds == {"code"}),
            sampling=sampling,
            answers=answers,
            grader=graded_by,
        )
        if spec.prompt.form == "raw" and any(place.problem.images for place in problems.placed):
            raise InputError(NO_RAW_IMAGES)
        specs.append((problems, spec))
    return specs


def sample_request(spec: "EvalSpec", model: str, text: str) -> "Request":
    """Return a request as the run sends them, to see whether the model takes it."""
    from service.asks.prompts import prompt_request

    return prompt_request(model, spec.prompt, spec.sampling, text)


def _free(_model: str) -> "Price":
    """Return the price of an engine on this machine."""
    from service.asks.money import Price

    return Price(0.0, 0.0)


def named_runs(
    name: str | None, specs: "Sequence[tuple[ProblemSet, EvalSpec]]"
) -> "list[tuple[str, ProblemSet, EvalSpec]]":
    """Return the runs with their names."""
    from evaluator.evals.runs import model_slug

    return [
        (f"{name or model_slug(spec.model)}.{problems.suffix}", problems, spec) for problems, spec in specs
    ]


def open_runs(
    database: "Database", name: str | None, specs: "Sequence[tuple[ProblemSet, EvalSpec]]"
) -> "list[Run]":
    """Return the runs, all made before the first is worked on, so that no clash comes after hours.

    Raises:
        InputError: there is a run of that name with other settings.
    """
    from evaluator.evals.runs import check_eval_run, open_eval_run
    from service.questions.images import store_images
    from service.runs.store import package_versions

    named = named_runs(name, specs)
    versions = package_versions()
    runs = []
    with database.write() as session:
        for run_name, problems, spec in named:
            check_eval_run(session, run_name, spec, problems.taken)
        for run_name, problems, spec in named:
            if problems.images is not None:
                ids = (id for place in problems.taken for id in place.problem.images)
                store_images(session, problems.images.read(ids))
            opened, before = open_eval_run(session, run_name, spec, problems.taken, versions)
            if before:
                output.note(f"resuming run {run_name}")
            if 0 < before < len(problems.taken):
                now = plural(len(problems.taken), "problem")
                output.note(f"run {run_name} grows from {before:,} to {now}")
            runs.append(opened)
    return runs


async def carry_out(
    database: "Database",
    runs: "Sequence[Run]",
    models: "OpenModels",
    options: "Models",
    n: int,
    grader: "Grader",
    terminal: Terminal,
    retry_final: bool,
) -> None:
    """Draw and grade the runs in turn, print each, and end with what needs attention.

    Raises:
        KeyboardInterrupt: Ctrl-C stopped the sampling; what was in flight is stored. After SIGTERM what it
            does otherwise: `SystemExit` in the command line.
        typer.Exit: samples are missing.
    """
    from evaluator.evals.running import run_eval
    from evaluator.reports.standing import read_numbers
    from service.asks.ask import INTERRUPTED
    from service.models.stopping import deliver_signal
    from ui.cli.eval import summary

    problems: list[str] = []
    reasons: set[str] = set()
    records = []
    noted: set[str] = set()
    for run in runs:
        output.note_new(models.notices, noted)
        with terminal.progress(run.name) as bar:
            outcome = await run_eval(
                database,
                run,
                models.models(options),
                n,
                output.stages(bar),
                grader=grader,
                retry_final=retry_final,
            )
        if options.max_requests is not None:
            options = replace(options, max_requests=options.max_requests - outcome.sent)
        if outcome.stopped == INTERRUPTED:
            deliver_signal()
        output.note_new(models.notices, noted)
        numbers = read_numbers(database, run, n)
        if terminal.as_json:
            records.append({**numbers.to_json(), **summary.outcome_json(outcome)})
        else:
            summary.print_numbers(numbers)
        _note_beyond(numbers, outcome)
        problems += complaints(run, outcome, numbers)
        reasons |= {outcome.stopped} if outcome.stopped else set()
        if outcome.stopped in FATAL and run is not runs[-1]:
            problems.append("the runs after it were not started")
            break
    if terminal.as_json:
        output.print_json({"runs": records})
    if problems:
        raise exits.unfinished(reasons, "; ".join(problems) + ".")


def _note_beyond(numbers: "RunNumbers", outcome: "EvalOutcome") -> None:
    """Say what a run has or has begun beyond the samples that were asked for now."""
    name, asked = numbers.run.name, f"beyond --n {numbers.n:,}"
    if numbers.most > numbers.n:
        output.note(
            f"run {name} has up to {plural(numbers.most, 'sample')} per problem; those {asked} count too"
        )


def complaints(run: "Run", outcome: "EvalOutcome", numbers: "RunNumbers") -> list[str]:
    """Say what of a run needs attention; requests that are open although nothing stopped are in a job.

    Why requests failed stands there in the server's own words, unless they stand in `stopped` already.
    """
    from service.asks.ask import BUDGET
    from ui.cli.eval import summary

    problems = []
    more = " with a higher --max-usd" if outcome.stopped == BUDGET else ""
    if outcome.stopped:
        problems.append(f"{run.name}: stopped: {outcome.message or outcome.stopped}")
    if outcome.lost:
        problems.append(summary.lost_words(run.name, outcome.lost, errors=numbers.errors))
    if coming := outcome.missing - outcome.lost:
        words = words_by_kind(numbers.errors)
        failed = ", ".join(
            f"{kind} {count:,}"
            + (f": {words[kind]}" if words.get(kind) and words[kind] not in (outcome.message or "") else "")
            for kind, count in sorted(outcome.failures.items())
        )
        problems.append(
            f"{run.name}: {plural(coming, 'sample')} missing"
            + (f" (failed requests: {failed})" if failed else "")
            + f"; run the same command{more} to draw them"
        )
    return problems
