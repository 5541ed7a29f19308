"""`tagrpo eval`: run, grade, show."""

from typing import Annotated

import typer

from ui.cli import output
from ui.cli.eval import options as options
from ui.cli.output import DbOption, JsonOption
from ui.cli.runs.options import Batch, BatchPoll, Concurrency, MaxRequests, Price, Prices

app = typer.Typer(
    no_args_is_help=True,
    help="Measure models: draw responses to benchmarks, grade them, show pass@k.",
    epilog="Example: tagrpo eval run amc23 --model hosted_vllm/Qwen/Qwen3-4B "
    "--api-base http://localhost:8000/v1 --n 128",
)


@app.command()
def run(
    model: options.Model,
    benchmarks: Annotated[
        list[str] | None,
        typer.Argument(help="Names of `tagrpo benchmarks list`, or files of your own (.jsonl, .toml)."),
    ] = None,
    n: Annotated[
        int | None, typer.Option("--n", help="Samples for each problem; the preset's: 32, paper: 128.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", help="Runs are named NAME.BENCHMARK; by default after the model."),
    ] = None,
    neighbors: Annotated[
        str | None,
        typer.Option("--neighbors", help="A published neighbor set instead of benchmarks: NAME or NAME@3."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Only the first problems; the run's name says so.")
    ] = None,
    source: options.Sources = None,
    options_seed: Annotated[
        int, typer.Option("--options-seed", help="Shuffles the options of multiple-choice questions.")
    ] = 0,
    allow_changed: Annotated[
        bool, typer.Option("--allow-changed", help="Take a benchmark whose content is not as known.")
    ] = False,
    allow_bad_golds: Annotated[
        bool, typer.Option("--allow-bad-golds", help="Run although golds fail against themselves.")
    ] = False,
    sampler: options.SamplerOption = "auto",
    preset: options.Preset = "default",
    system: options.System = None,
    prompt_file: options.PromptFile = None,
    chat_template_kwargs: options.TemplateKwargs = None,
    raw: options.Raw = False,
    temperature: options.Temperature = None,
    top_p: options.TopP = None,
    max_tokens: options.MaxTokens = None,
    seed: options.Seed = None,
    samples_per_request: options.SamplesPerRequest = None,
    answers: options.AnswersOption = "all",
    api_base: options.EvalApiBase = None,
    max_usd: options.EvalMaxUsd = None,
    max_requests: MaxRequests = None,
    price: Price = None,
    prices: Prices = None,
    max_concurrency: Concurrency = 64,
    timeout: options.EvalTimeout = 600.0,
    batch: Batch = False,
    batch_poll: BatchPoll = 60.0,
    device: options.Device = None,
    dtype: options.Dtype = None,
    tensor_parallel: options.TensorParallel = None,
    max_model_len: options.MaxModelLen = None,
    gpu_memory_utilization: options.GpuMemory = None,
    batch_size: options.BatchSize = None,
    batch_tokens: options.BatchTokens = None,
    revision: options.Revision = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw n responses to every problem of benchmarks, grade them, and print pass@k.

    Everything is stored as it comes. Run the same command again to go on after an interruption or a spent
    budget; with a larger --n only the missing samples are drawn. Other settings are another run.

    Exit code 1: samples are missing; the message says why.

    Example: tagrpo eval run amc23 aime24 --model hosted_vllm/Qwen/Qwen3-4B
    --api-base http://localhost:8000/v1 --n 128
    """
    from evaluator.grading import Grader
    from evaluator.grading.versions import VerdictCache
    from service.database import Database, locate_database
    from service.models.prompts import Overrides, find_preset
    from ui.cli.eval import sampling as eval_sampling
    from ui.cli.eval.running import RunsPlan, carry_out, open_runs

    if bool(benchmarks) == (neighbors is not None):
        raise typer.BadParameter("name benchmarks, or a neighbor set with --neighbors, and not both")
    chosen = find_preset(preset)
    overrides = Overrides(
        raw,
        system,
        prompt_file,
        chat_template_kwargs,
        temperature,
        top_p,
        max_tokens,
        seed,
        samples_per_request,
    )
    drawing = eval_sampling.open_sampler(
        eval_sampling.choose_sampler(sampler, model),
        model,
        eval_sampling.RemoteOptions(
            api_base,
            max_usd,
            max_requests,
            price or (),
            prices,
            max_concurrency,
            timeout,
            batch,
            batch_poll,
        ),
        eval_sampling.EngineOptions(
            device,
            dtype,
            tensor_parallel,
            max_model_len,
            gpu_memory_utilization,
            batch_size,
            batch_tokens,
            revision,
        ),
    )
    with (
        Database.open(locate_database(db)) as database,
        Grader(cache=VerdictCache(database)) as grader,
    ):
        if neighbors is not None:
            found = [
                eval_sampling.load_neighbors(
                    database, neighbors, allow_bad_golds=allow_bad_golds, limit=limit, grader=grader
                )
            ]
        else:
            found = eval_sampling.load_benchmarks(
                benchmarks or (),
                source or (),
                options_seed=options_seed,
                allow_changed=allow_changed,
                allow_bad_golds=allow_bad_golds,
                limit=limit,
                grader=grader,
            )
        plan = RunsPlan(model, name, found, chosen, overrides, chosen.n if n is None else n, answers)
        runs = open_runs(database, plan, drawing)
        carry_out(database, runs, drawing, plan.n, grader, as_json=as_json)


@app.command()
def grade(
    run: Annotated[str, typer.Argument(help="Name or id of an eval run.")],
    changes: Annotated[
        bool, typer.Option("--changes", help="List the samples whose verdict another version gave otherwise.")
    ] = False,
    answers: options.AnswersChoice = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Processes that grade; default: CPUs, at most 8.")
    ] = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Grade the samples of a run that this version of the grader has not graded; nothing is drawn.

    Grades of other versions stay, and so do those that took other --answers. Where there are some, the
    verdicts that changed are counted, by where the answer was found, and listed with --changes.

    Example: tagrpo eval grade Qwen3-4B.amc23 --answers boxed --changes
    """
    from evaluator.evals.grading import grade_changes, grade_run
    from evaluator.evals.overview import other_version
    from evaluator.evals.results import load_result
    from evaluator.evals.runs import find_eval_run, run_answers
    from evaluator.grading import Grader
    from evaluator.grading.versions import VerdictCache, version_taking
    from service.database import Database, locate_database
    from ui.cli.eval import reports as eval_reports

    with Database.open(locate_database(db), create=False) as database:
        with database.read() as session:
            chosen = find_eval_run(session, run)
        version = version_taking(answers or run_answers(chosen))
        with (
            Grader(workers=workers, cache=VerdictCache(database)) as grader,
            output.progress(chosen.name, quiet=as_json) as bar,
        ):
            graded = grade_run(
                database,
                chosen.id,
                grader,
                lambda done, total: bar.update(done, total, "grading"),
                version=version,
            )
        with database.read() as session:
            old = other_version(session, chosen.id, version)
            changed = grade_changes(session, chosen.id, old, version) if old is not None else []
            result = load_result(session, chosen, version)
    eval_reports.print_graded(result, graded, old, changed, listed=changes, as_json=as_json)


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="Name or id of an eval run.")],
    samples: Annotated[
        str | None,
        typer.Option("--samples", help="Print responses to this problem: its place (from 0) or its id."),
    ] = None,
    grade: Annotated[
        str | None, typer.Option("--grade", help="Of these only correct, wrong, unknown or ungraded ones.")
    ] = None,
    after: Annotated[int, typer.Option("--after", help="Only samples behind this one.")] = -1,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Samples on a page.")] = 5,
    full: Annotated[bool, typer.Option("--full", help="Whole texts, not only their beginnings.")] = False,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a run: its settings, how far it is, pass@k, truncated and refused shares, tokens and cost.

    With --samples a page of the responses to one problem; of gated benchmarks only ids and grades.

    Example: tagrpo eval show Qwen3-4B.amc23 --samples 0 --grade wrong
    """
    from evaluator.evals.runs import find_eval_run
    from service.database import Database, locate_database
    from ui.cli.eval import reports as eval_reports
    from ui.cli.eval import samples as eval_samples

    with Database.open(locate_database(db), create=False) as database:
        with database.read() as session:
            chosen = find_eval_run(session, run)
            if samples is not None:
                page = eval_samples.read_samples(
                    session, chosen, samples, after=after, limit=limit, grade=grade, full=full
                )
                output.print_json(page) if as_json else eval_samples.print_samples(page)
                return
        shown = eval_reports.read_shown(database, chosen)
    if as_json:
        output.print_json({**shown.to_json(), "spec": chosen.spec, "versions": chosen.versions})
    else:
        eval_reports.print_settings(chosen)
        eval_reports.print_shown(shown)
