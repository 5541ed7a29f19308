"""`tagrpo eval run`, `score`, `import`, `export` and `benchmarks`: how responses and grades come about."""

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, BadParameter, Option

from evaluator.config import EvalConfig, ScoreConfig
from service.errors import InputError, PrerequisiteError
from ui.cli import output, settings
from ui.cli.configs import Verb
from ui.cli.lazy import lazy_imports
from ui.cli.output import Part, list_table, plural, record_parts, terminal, value_table
from ui.cli.runs import error_words, show_estimates
from ui.cli.settings import db, resume_command

with lazy_imports():
    from evaluator import grading, judging
    from evaluator.benchmarks import catalogue, loading
    from evaluator.evals import results, running, runs
    from evaluator.exchange import exporting, importing
    from evaluator.exchange import files as exchange_files
    from evaluator.reports import document
    from rephraser.sets import problems as neighbor_problems
    from service.asks import request
    from service.database import engine
    from service.runs import store

FLAGS = "--model --n --name --limit --preset --from=sources --max-usd --base-url"
SHOWN = (
    *("missing", "missing_for_good", "open_requests", "failed_requests", "errors", "why"),
    *("truncated_share", "refused_share", "mean_tokens", "usd", "sources"),
    *("neighbors", "unknown", "human_grades", "overruled"),
)
"""Numbers of a run that follow its pass@k; runs show has all."""
LISTED = (
    *("name", "title", "rows", "kind", "configs", "split", "revision", "content_hash"),
    *("gated", "licence", "citation", "note"),
)
"""What `eval benchmarks --json` has of each."""

SamplesFormat = Literal["jsonl", "parquet"]
BY_SUFFIX: dict[str, SamplesFormat] = {".jsonl": "jsonl", ".parquet": "parquet"}


@Verb(EvalConfig, "benchmarks", FLAGS)
def run(config: EvalConfig, *, dry_run: settings.DryRun = False) -> None:
    """Sample n responses to every problem of one or more benchmarks, grade them, and print pass@k.

    pass@k is the chance that at least one of k responses is correct. After an interruption or a spent budget,
    or for a larger --n, run the same command again: it requests only missing samples. neighbors=NAME
    evaluates a neighbor set instead of benchmarks; endpoint=NAME selects a profile.

    Exit codes: 3 samples are missing, 1 requests to the model fail. The message says why.

    Example: tagrpo eval run amc23 aime24 --model hosted_vllm/Qwen/Qwen3-4B --n 128
    --base-url http://localhost:8000/v1 temperature=0.7
    """
    problem_sets = running.load_benchmarks(config)  # a wrong name leaves no new database
    if dry_run:
        there = not isinstance(db.place, Path) or db.place.is_file() or config.neighbors is not None
        with db.open(read_only=True) if there else nullcontext() as stored:
            if stored is not None and not problem_sets:
                problem_sets = [neighbor_problems.load_neighbors(config, stored)]
            estimates = running.estimate(config, stored, problem_sets, output.note)
        record = {"runs": [{"run": name, **each.to_json()} for name, each in estimates.items()]}
        show_estimates(record, estimates.values(), config.max_usd)
        return
    problems: list[str] = []
    records: list[dict[str, Any]] = []

    def add(run: "store.Run", outcome: "running.EvalOutcome") -> None:
        record = results.read_numbers(database, run, config.n)
        numbers = {name: getattr(outcome, name) for name in ("drawn", "stopped", "message", "failures")}
        records.append({**record, **numbers, "graded": outcome.graded.total()})
        if not terminal.as_json:
            output.say(*_numbers_parts(record))
        problems.extend(attention(record, outcome.stopped, outcome.message))

    with db.open(create=config.neighbors is None) as database:
        problem_sets = problem_sets or [neighbor_problems.load_neighbors(config, database)]
        reports: dict[str, Any] = {"progress": terminal.progress, "note": output.note, "each": add}
        worked = asyncio.run(running.evaluate(config, database, problem_sets, **reports))
    output.end_if_interrupted(worked[-1][1].stopped)
    if terminal.as_json:
        terminal.emit({"runs": records})
    if problems:
        raise output.unfinished({outcome.stopped for _, outcome in worked}, "; ".join(problems) + ".")


def attention(
    record: Mapping[str, Any], stopped: str | None = None, message: str | None = None, imported: bool = False
) -> list[str]:
    """Say what of a run needs attention, with the way on."""
    name, errors, lost = record["run"], record["errors"], record["missing_for_good"]
    problems = [f"stopped: {message or stopped}" if stopped else message] if stopped or message else []
    if lost:
        words = error_words(errors, {*request.FINAL, request.TIME_OUT})
        why = f"too long, refused, or timed out twice{f' ({words})' if words else ''}"
        retry = f"; {resume_command(name, 'retry_final=true')} retries"
        if imported:
            why, retry = "the other tool received no response", ""
        lack = f"{plural(lost, 'sample')} permanently missing: {why}"
        problems.append(f"{lack}; pass@k is given as a range{retry}")
    if coming := record["missing"] - lost:
        words = "" if message else error_words(errors)
        failed = f" (failed requests: {words})" if words else ""
        resume = resume_command(name, *(["max_usd=MORE"] if stopped == "budget" else []))
        problems.append(f"{plural(coming, 'sample')} missing{failed}; {resume} requests them")
    return [f"{name}: {problem}" for problem in problems]


def standing(database: "engine.Database", run: "store.Run") -> tuple[Mapping[str, Any], list[str]]:
    """Return the state of a stored evaluation and what needs attention, for `runs show`."""
    record, imported = results.read_numbers(database, run), runs.is_imported(run)
    unknown = ("prompt", "sampling") if imported else ()  # of the other tool
    record["spec"] = {name: value for name, value in run.spec.items() if name not in unknown}
    return record, attention(record, imported=imported)


def _numbers_parts(record: Mapping[str, Any]) -> list[Part]:
    def span(low: float, high: float) -> str:
        return " to ".join(document.hundredths(each, 1) for each in ((low, high) if low < high else (low,)))

    fewest, most = record["fewest_samples"], record["most_samples"]
    size, questions, problems = (record[name] for name in ("benchmark_problems", "originals", "problems"))
    words = plural(problems, "problem")
    if questions < size:
        words = f"{questions:,} of {plural(size, 'problem')}"
        words += f", {problems:,} including neighbors" if problems > questions else ""
    each = f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"
    rows = [
        [point["k"], span(point["value"], point["value_high"])]
        + [span(*point[name]) for name in ("new_problems", "same_problems")]
        for point in record["pass_at_k"] or ()
    ]
    columns = ["k", "pass@k", "95%, new problems", "95%, same problems, new samples"]
    numbers = {name: record.get(name) for name in SHOWN}
    if "usd" in record and record["usd"] is None:
        numbers["usd"] = "unknown"
    return [
        document.Heading(f"{record['run']}: {words}, {each} samples per problem"),
        value_table(columns, rows) if rows else None,
        *record_parts({name: value for name, value in numbers.items() if value or name.endswith("_share")}),
    ]


@Verb(ScoreConfig, "run", "--judge=model --for=asked --answers --grader --max-usd --base-url")
def score(config: ScoreConfig, *, changes: bool = False, dry_run: settings.DryRun = False) -> None:
    """Grade the samples of a run that have no grade yet, by rules or by a judge model.

    Earlier grades are kept; it reports how many changed. --judge asks a model about the samples with an
    unknown grade. Its grades count only if `eval report` or `eval compare` gets --judge MODEL. After an
    interruption or a spent budget, run the same command again.

    Exit codes: 3 some samples still wait for the judge, 1 requests to the judge fail.

    Example: tagrpo eval score Qwen3-4B.math500 --judge gpt-4o --max-usd 2

    Args:
        changes: List the samples whose grade changed.
    """
    if dry_run and config.model is None:
        raise InputError("--dry-run estimates the cost of a judge. Add --judge, or remove --dry-run.")
    with db.open(read_only=dry_run) as database:
        with database.read() as session:
            chosen = runs.find_eval_run(session, config.run)
        if dry_run:
            estimate = judging.estimate_judging(config, database)
            show_estimates({"run": chosen.name, **estimate.to_json()}, [estimate], config.max_usd)
            return
        with terminal.progress(chosen.name) as bar:
            if config.model is None:
                record = judging.score_by_rules(config, chosen, database, bar)
            else:
                record = asyncio.run(judging.score_by_judge(config, database, bar, output.note))
    stopped, waiting = record.get("stopped"), record.get("waiting", 0)
    output.end_if_interrupted(stopped)
    listed = record.pop("changes")
    columns = "problem=position sample=ordinal gold old old_reason new new_reason old_extracted new_extracted"
    count = f"`tagrpo eval report {chosen.name} --judge {config.model}` counts these grades"
    table = list_table(listed, columns) if changes and listed else None
    record |= {"changes": listed} if changes else {}
    terminal.show(record, count if record.get("judged") else None, table, hidden=("changes",))
    if waiting:
        why = f": {record['message'] or stopped}" if stopped else ""
        lack = f"{chosen.name}: {plural(waiting, 'sample')} still waiting for the judge{why}"
        raise output.unfinished({stopped}, f"{lack}; run the same command again to resume.")


def import_(
    files: list[Path],
    *,
    model: str | None = None,
    name: str | None = None,
    benchmark: str | None = None,
    by: Literal["text", "inside", "position"] = "text",
    kind: Literal["latex", "integer", "choice", "tolerance", "code"] = "latex",
    answers: settings.AnswersTaken = "all",
    own_grader: settings.OwnGrader = None,
    rows: settings.BenchmarkRows,
    form: Annotated[Literal["rows", "inspect", "lighteval", "lm-eval"] | None, Option("--format")] = None,
    column: Annotated[list[str] | None, Option("--column")] = None,
    opened_thoughts: bool = False,
) -> None:
    """Import responses that another tool sampled as an evaluation, and grade them.

    Reads JSON Lines, CSV and parquet, logs of inspect_ai, details of lighteval and samples of
    lm-evaluation-harness. Importing a file twice adds nothing. The other tool's grades are stored too.

    Exit code 3: some responses match no problem of the benchmark, or the other tool received no response.

    Example: tagrpo eval import logs/2026-11-25_math.eval --benchmark math500

    Args:
        files: Files written by one tool, in order.
        model: Model that produced the responses; inspect_ai logs contain it.
        name: Name of the run, stored as NAME.BENCHMARK. Default: the model.
        benchmark: Benchmark, or a file of your own. Default: the questions and answers in the input file.
        by: Match problems by equal text, text inside the prompt, or ids as row numbers.
        kind: Kind of the answers, for problems from an input file that does not state it.
        form: Tool that wrote the files. Default: detected automatically.
        column: Column of a part (response, question, answer, score, ...), as in response=text.
        opened_thoughts: The prompts end with <think>, so responses without </think> were cut off.
    """
    columns = {part: value for part, _, value in (word.partition("=") for word in column or ())}
    if wrong := [word for word in column or () if not word.partition("=")[0] or "=" not in word]:
        raise BadParameter(f"--column {wrong[0]}: give PART=NAME, as in response=text")
    if rows.source and benchmark is None:
        raise BadParameter("--from requires --benchmark")
    if benchmark is not None:  # which has the images itself
        columns = {"images": "", **columns}
    file = exchange_files.open_responses(files, form, columns)
    record, problems = importing.import_evaluation(
        file,
        files[0],
        partial(db.open, create=True),
        model=model,
        name=name,
        benchmark=None if benchmark is None else rows.loader([benchmark])(benchmark),
        by=by,
        kind=kind,
        answers=answers,
        grader=own_grader,
        opened_thoughts=opened_thoughts,
        progress=terminal.progress,
        note=output.note,
    )
    compare = f"`tagrpo eval compare {record['run']} --tool-grades` compares both tools' grades"
    terminal.show(record, compare if record["agreement"] else None)
    if problems:
        raise output.needs_attention("; ".join(problems) + ".")


def export(
    run: settings.EvalRun,
    *,
    out: Annotated[Path, Option()],
    form: Annotated[SamplesFormat | None, Option("--format")] = None,
    overwrite: settings.Overwrite = False,
) -> None:
    """Write the samples of a run, one per row, with problem, response, tokens and grades.

    `tagrpo eval import` reads them back. Gated benchmarks are not exported.

    Example: tagrpo eval export Qwen3-4B.math500 --out samples.parquet

    Args:
        out: File to write.
        form: Format. Default: from the suffix of --out.
    """
    form = settings.form_of(out, form, BY_SUFFIX)
    with db.open(read_only=True) as database, terminal.progress("export") as bar:
        with database.read() as session:
            chosen = runs.find_eval_run(session, run)
        report = partial(bar, "")
        count = exporting.export_samples(database, chosen, out, form, overwrite=overwrite, report=report)
    terminal.show({"run": chosen.name, "out": out, "format": form, "samples": count})


def benchmarks(
    names: Annotated[list[str] | None, Argument(metavar="[NAME|FILE]...")] = None,
    check: bool = False,
    *,
    rows: settings.BenchmarkRows,
) -> None:
    """List the known benchmarks; with names or files, load these and check them.

    A check compares the rows with the known ones, and grades every gold answer against itself.

    Exit code 3: a benchmark cannot be loaded, its content differs, or gold answers fail.

    Example: tagrpo eval benchmarks aime24 --from aime24.jsonl

    Args:
        names: Benchmarks to check, or .toml and .jsonl files of your own.
        check: Check all known benchmarks.
    """
    chosen = names or list(catalogue.BENCHMARKS)
    load = rows.loader(chosen)
    if not names and not check:
        benchmarks = catalogue.BENCHMARKS.values()
        known = [
            {"from": each.hub_id} | {name: getattr(each, name) for name in LISTED} for each in benchmarks
        ]
        terminal.rows("benchmarks", known, "name title rows kind from gated licence")
        return
    for name in chosen:
        loading.find_benchmark(name)
    checks: list[dict[str, Any]] = []
    with terminal.progress("check") as bar, grading.Grader() as grader:
        for count, name in enumerate(chosen):
            bar(name, count, len(chosen))
            try:
                loaded = load(name)
            except (loading.ChangedBenchmarkError, PrerequisiteError) as error:
                checks.append({"name": name, "ok": False, "problem": str(error)})
                continue
            failures = loading.check_golds(loaded, grader)
            result = {"name": loaded.name, "ok": not failures, "problems": len(loaded.problems)}
            result |= {each: getattr(loaded, each) for each in ("problems_hash", "source", "content")}
            checks.append({**result, "gold_failures": failures})
        bar("", len(chosen), len(chosen))
    terminal.show({"benchmarks": checks})
    if failed := [name for name, each in zip(chosen, checks, strict=True) if not each["ok"]]:
        raise output.needs_attention(f"failed checks: {', '.join(failed)}")
