"""`tagrpo eval`: list, report, compare. They stand among the commands of `ui.cli.eval.commands`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from service.errors import InputError
from ui.cli import output
from ui.cli.eval import options as options
from ui.cli.output import DbOption, JsonOption

if TYPE_CHECKING:
    from evaluator.reports.document import Document
    from evaluator.reports.report import Majority, Report
    from service.database import Database

Format = Literal["table", "markdown", "latex", "csv", "json"]
BY_SUFFIX: dict[str, Format] = {
    ".md": "markdown",
    ".tex": "latex",
    ".csv": "csv",
    ".json": "json",
    ".txt": "table",
}
CHART_SUFFIXES = (".png", ".svg", ".html", ".json")

References = Annotated[
    list[str],
    typer.Argument(
        help="RUN, LABEL=RUN, LABEL=RUN+RUN (pooled); NAME stands for all runs called NAME.BENCHMARK.",
        show_default=False,
    ),
]
Ks = Annotated[str | None, typer.Option("--k", help="Values of k: 32 or 1,2,4,8.", show_default=False)]
FormatOption = Annotated[
    Format | None,
    typer.Option("--format", help="By default what --out ends in, else a table.", show_default=False),
]
Out = Annotated[Path | None, typer.Option("--out", help="Write to this file.", show_default=False)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files that exist.")]
AllowMissing = Annotated[
    bool, typer.Option("--allow-missing", help="Leave out problems with too few samples, and say how many.")
]
PoolAnyway = Annotated[
    bool, typer.Option("--pool-anyway", help="Pool runs that differ in more than the seed.")
]

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(db: DbOption = None, as_json: JsonOption = False) -> None:
    """List eval runs, oldest first: model, samples, pass@1, answers in a box, whether finished and graded.

    Example: [bold]tagrpo eval list[/bold]
    """
    from evaluator.evals.overview import runs_overview
    from evaluator.evals.sources import BOX
    from service.database import Database, locate_database

    with Database.open(locate_database(db), create=False) as database, database.read() as session:
        runs = sorted(runs_overview(session), key=lambda one: (one.run.created_at, one.run.name))
    if as_json:
        output.print_json(
            {
                "runs": [
                    {
                        "run": one.run.name,
                        "id": one.run.id,
                        "benchmark": one.run.spec["problems"],
                        "model": one.run.spec["model"],
                        "problems": one.problems,
                        "groups": one.groups,
                        "samples": one.samples,
                        "fewest": one.fewest,
                        "most": one.most,
                        "graded": one.graded,
                        "unknown": one.unknown,
                        "truncated": one.truncated,
                        "pass_at_1": one.mean,
                        "sources": one.sources.shares,
                        "correct_sources": one.sources.correct_shares,
                        "grader": None if one.grader is None else one.grader.version,
                        "created_at": one.run.created_at,
                        "finished_at": one.run.finished_at,
                    }
                    for one in runs
                ]
            }
        )
    elif not runs:
        output.say("no eval runs yet; start one with `tagrpo eval run`")
    else:
        output.table(
            [
                "run",
                "benchmark",
                "model",
                "problems",
                "samples each",
                "graded",
                "pass@1 %",
                "in a box %",
                "finished",
            ],
            [
                [
                    one.run.name,
                    one.run.spec["problems"],
                    one.run.spec["model"],
                    one.problems,
                    str(one.most) if one.fewest == one.most else f"{one.fewest} to {one.most}",
                    "all" if one.graded == one.samples else f"{one.graded:,} of {one.samples:,}",
                    "-" if one.mean is None else f"{100 * one.mean:.2f}",
                    "-" if (shares := one.sources.shares) is None else f"{100 * shares[BOX]:.1f}",
                    one.run.finished_at or "no",
                ]
                for one in runs
            ],
        )


@app.command()
def report(
    references: References,
    k: Ks = None,
    metric: Annotated[
        Literal["pass@k", "pass^k", "g-pass@k", "maj@k"],
        typer.Option("--metric", help="pass^k: all k right; g-pass@k: tau of them; maj@k: majority."),
    ] = "pass@k",
    tau: Annotated[float, typer.Option("--tau", help="For g-pass@k.", min=0, max=1)] = 0.5,
    interval: Annotated[
        Literal["new-problems", "same-problems"],
        typer.Option("--interval", help="The question the intervals answer."),
    ] = "new-problems",
    paper: Annotated[
        str | None,
        typer.Option(
            "--paper",
            help="Its figures of Qwen3-1.7B, Qwen3-4B, Llama-3.2-1B or Llama-3.2-3B beside yours; none. By "
            "default those of the runs' model.",
            show_default=False,
        ),
    ] = None,
    answers: options.AnswersChoice = None,
    chart: Annotated[
        Path | None, typer.Option("--chart", help="Draw the curves: .png, .svg, .html.", show_default=False)
    ] = None,
    format: FormatOption = None,
    out: Out = None,
    overwrite: Overwrite = False,
    allow_missing: AllowMissing = False,
    pool_anyway: PoolAnyway = False,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put runs into the table of the TA-GRPO paper, with intervals, and its figures beside them.

    Example: [bold]tagrpo eval report base "TA-GRPO=tuned+tuned-seed1" --out table.tex[/bold]
    """
    from evaluator.reports.layout import report_document
    from evaluator.reports.methods import load_methods
    from evaluator.reports.notes import contamination_notes
    from evaluator.reports.records import records
    from evaluator.reports.report import build_report
    from evaluator.reports.scores import INTERVALS, Metric, check_interval
    from service.database import Database, locate_database

    chosen = _format(format, out, as_json)
    _check_files(out, chart, overwrite=overwrite)
    measured, question = Metric(metric, tau), INTERVALS[interval]
    check_interval(measured, question)
    with Database.open(locate_database(db), create=False) as database:
        with database.read() as session:
            methods = load_methods(session, references, pool_anyway=pool_anyway, answers=answers)
            warnings = contamination_notes(session, methods)
        found = build_report(
            methods,
            ks=_whole_numbers(k),
            metric=measured,
            interval=question,
            paper=paper,
            allow_missing=allow_missing,
            majority=_majority(database, quiet=chosen == "json") if metric == "maj@k" else None,
        )
    document = report_document(found, warnings)
    rows = records(found)
    value = {
        "metric": found.metric.name,
        "tau": found.metric.tau if found.metric.name == "g-pass@k" else None,
        "interval": found.interval,
        "k": list(found.ks),
        "paper": found.paper,
        "scores": rows,
        "notes": list(document.notes),
    }
    if chart is not None:
        _draw(found, chart)
    _deliver(document, rows, value, chosen, out, overwrite=overwrite)


@app.command()
def compare(
    a: Annotated[str, typer.Argument(help="A: RUN, NAME, LABEL=RUN or LABEL=RUN+RUN.")],
    b: Annotated[str, typer.Argument(help="B, with problems of the same benchmarks.")],
    k: Ks = None,
    flips: Annotated[int, typer.Option("--flips", help="Sign flips of the test.", min=1)] = 10_000,
    seed: Annotated[int, typer.Option("--seed", help="Of the sign flips.")] = 0,
    changes: Annotated[
        int, typer.Option("--changes", help="Problems with the largest gains and losses to show.", min=0)
    ] = 5,
    common_only: Annotated[
        bool, typer.Option("--common-only", help="Where problems differ compare those that both have.")
    ] = False,
    answers: options.AnswersChoice = None,
    format: FormatOption = None,
    out: Out = None,
    overwrite: Overwrite = False,
    allow_missing: AllowMissing = False,
    pool_anyway: PoolAnyway = False,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two models on the same problems: paired differences, p-values, wins and losses.

    Example: [bold]tagrpo eval compare tuned base --k 1,32[/bold]
    """
    from evaluator.reports.comparing import change_records, compare_methods, comparison_records
    from evaluator.reports.comparison_layout import comparison_document
    from evaluator.reports.methods import load_methods
    from evaluator.reports.notes import contamination_notes
    from service.database import Database, locate_database

    chosen = _format(format, out, as_json)
    _check_files(out, None, overwrite=overwrite)
    with (
        Database.open(locate_database(db), create=False) as database,
        database.read() as session,
    ):
        methods = load_methods(session, [a, b], pool_anyway=pool_anyway, answers=answers)
        warnings = contamination_notes(session, methods)
    if len(methods) != 2:
        raise InputError(f"{a} and {b} have one label, {methods[0].label}; write LABEL=RUN for one of them.")
    found = compare_methods(
        *methods,
        ks=_whole_numbers(k),
        flips=flips,
        seed=seed,
        allow_missing=allow_missing,
        common_only=common_only,
    )
    document = comparison_document(found, warnings, changes=changes)
    rows = comparison_records(found)
    value = {
        "a": found.label_a,
        "b": found.label_b,
        "k": list(found.ks),
        "differences": rows,
        "problems": change_records(found),
        "notes": list(document.notes),
    }
    _deliver(document, rows, value, chosen, out, overwrite=overwrite)


def _format(asked: Format | None, out: Path | None, as_json: bool) -> Format:
    if as_json:
        if asked not in (None, "json"):
            raise typer.BadParameter("--json and another --format exclude each other")
        return "json"
    if asked is not None or out is None:
        return asked or "table"
    found = BY_SUFFIX.get(out.suffix.lower())
    if found is None:
        raise InputError(f"{out}: which format? End it in {', '.join(BY_SUFFIX)}, or give --format.")
    return found


def _check_files(out: Path | None, chart: Path | None, *, overwrite: bool) -> None:
    """Refuse before any work is done."""
    from service.writing import check_file_target

    for path in (out, chart):
        if path is not None:
            check_file_target(path, overwrite=overwrite)
    if chart is not None and chart.suffix.lower() not in CHART_SUFFIXES:
        raise InputError(f"{chart}: a chart's name ends in {', '.join(CHART_SUFFIXES)}.")


def _whole_numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--k is {text!r}; give whole numbers such as 1,2,4.") from None
    if min(found) < 1:
        raise InputError(f"--k is {text!r}; k must be at least 1.")
    return found


def _deliver(
    document: "Document",
    rows: Sequence[dict[str, Any]],
    value: dict[str, Any],
    format: Format,
    out: Path | None,
    *,
    overwrite: bool,
) -> None:
    from evaluator.reports.rendering import RENDERERS, finite, render_csv, render_json
    from service.writing import write_file

    if out is None and format == "json":
        output.print_json(finite(value))
        return
    if format == "json":
        text = render_json(value)
    elif format == "csv":
        text = render_csv(rows)
    else:
        text = RENDERERS[format](document)
    if out is None:
        output.say(text.rstrip("\n"))
    else:

        def write(path: Path) -> None:
            path.write_text(text, encoding="utf-8")

        write_file(out, write, overwrite=overwrite)
        output.note(f"written to {out}")


def _majority(database: "Database", *, quiet: bool) -> "Majority":
    """Return the scores of maj@k from the stored answers, grouped by the grader."""
    from evaluator.evals.votes import make_votes, read_answers
    from evaluator.grading import Grader
    from evaluator.grading.versions import VerdictCache
    from evaluator.reports.methods import Entry
    from evaluator.reports.scores import Score, score_majority

    def scores(entry: Entry, problem_ids: Sequence[str], ks: Sequence[int]) -> tuple[Score, ...]:
        with database.read() as session:
            answers = [
                read_answers(session, result.run.id, result.grader_version) for result in entry.results
            ]
        with (
            Grader(cache=VerdictCache(database)) as grader,
            output.progress(f"{'+'.join(entry.runs)}: grouping answers", quiet=quiet) as bar,
        ):
            votes = make_votes(answers, lambda jobs: grader.cluster_many(jobs, bar.update))
        return score_majority(votes, problem_ids, ks)

    return scores


def _draw(found: "Report", chart: Path) -> None:
    import pandas as pd

    from evaluator.reports.records import curve_rows
    from ui.charts.eval_curves import curve_chart, save_chart

    save_chart(curve_chart(pd.DataFrame(curve_rows(found)), metric=found.metric.name), chart)
    output.note(f"curves drawn in {chart}")
