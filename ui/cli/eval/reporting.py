"""`tagrpo eval report` and `compare`: models in a table, two of them problem by problem."""

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, BadParameter, Option

from service.errors import InputError, NotFoundError
from ui.cli import output
from ui.cli.eval.settings import Counted
from ui.cli.files import ReportFile, check_chart
from ui.cli.settings import db

References = Annotated[
    list[str],
    Argument(help="RUN, LABEL=RUN or LABEL=RUN+RUN (pooled); NAME selects all runs named NAME.BENCHMARK."),
]
Ks = Annotated[str | None, Option("--k", help="Values of k, such as 32 or 1,2,4,8.")]


class Allowed(StrEnum):
    """What is refused unless the user allows it."""

    MISSING = "missing"
    POOLING = "pooling"


Allow = Annotated[
    list[Allowed] | None,
    Option(
        "--allow",
        metavar="missing|pooling",
        help="missing: leave out problems with too few samples. pooling: pool runs that differ in more than "
        "the seed. Repeat the option for both.",
    ),
]


def report(
    references: References,
    *,
    k: Ks = None,
    metric: str = "pass@k",
    interval: Literal["new-problems", "same-problems"] = "new-problems",
    paper: str | None = None,
    counted: Counted,
    chart: Path | None = None,
    allow: Allow = None,
    file: ReportFile,
) -> None:
    """Compare runs in a table with intervals, next to the published figures of a paper.

    Example: tagrpo eval report base "TA-GRPO=tuned+tuned-seed1" --out table.tex

    Args:
        metric: pass@k; pass^k: all k correct; g-pass@k:TAU: at least a share TAU of them; or maj@k:
            majority vote.
        interval: Whether intervals cover new problems or only these.
        paper: Model of the TA-GRPO, A-GRAE or CW-GRPO paper whose published figures are added, or none.
            Default: the runs' model.
        chart: Plot the curves to a .png, .svg or .json file.
    """
    from evaluator.reports.layout import report_document
    from evaluator.reports.records import records
    from evaluator.reports.report import build_report, score_votes
    from evaluator.reports.scores import INTERVALS, Metric, check_interval

    form = file.choose()
    if chart is not None:
        check_chart(chart, overwrite=file.overwrite)
    measured, question = Metric.parse(metric), INTERVALS[interval]
    check_interval(measured, question)
    with db.reading() as session:
        methods, warnings = counted.load(session, references, allow)
        built = build_report(
            methods,
            ks=_whole_numbers(k),
            metric=measured,
            interval=question,
            paper=paper,
            allow_missing="missing" in (allow or ()),
            majority=partial(score_votes, session) if metric == "maj@k" else None,
        )
    document = report_document(built, warnings)
    rows = records(built)
    record = {
        "metric": built.metric.name,
        "tau": built.metric.tau if built.metric.name == "g-pass@k" else None,
        "interval": built.interval,
        "k": list(built.ks),
        "grades": counted.grades,
        "judge": counted.judge,
        "paper": built.paper,
        "scores": rows,
        "notes": list(document.notes),
    }
    if chart is not None:
        from evaluator.reports.records import curve_rows
        from ui.charts.eval_curves import curve_chart
        from ui.charts.saving import save_chart

        save_chart(curve_chart(curve_rows(built), metric=built.metric.name), chart)
        output.note(f"chart written to {chart}")
    file.deliver(form, document, rows, record)


def compare(
    a: str,
    b: Annotated[str | None, Argument()] = None,
    *,
    k: Ks = None,
    tool_grades: bool = False,
    changes: Annotated[int, Option(min=0)] = 5,
    common_only: bool = False,
    counted: Counted,
    allow: Allow = None,
    file: ReportFile,
) -> None:
    """Compare two models on the same problems: paired differences, p-values, wins and losses.

    Example: tagrpo eval compare tuned base --k 1,32

    Example: tagrpo eval compare Qwen3-4B.math500 --tool-grades --out differences.csv

    Args:
        a: Model A: RUN, NAME, LABEL=RUN or LABEL=RUN+RUN.
        b: Model B, on problems of the same benchmarks. Not with --tool-grades.
        tool_grades: Compare the grades of an imported run A with those of the tool that sampled it.
        changes: Number of problems with the largest gains and losses to show.
        common_only: If the problems differ, compare only those that both have.
    """
    from evaluator.evals.runs import find_eval_run
    from evaluator.exchange.agreement import agreement_document, read_agreement, unlike_grades
    from evaluator.reports.comparing import change_records, compare_methods, comparison_records
    from evaluator.reports.comparison_layout import comparison_document

    form = file.choose()
    if (b is None) != tool_grades:
        raise BadParameter("give two models, or one run with --tool-grades")
    if b is None:
        with db.reading() as session:
            chosen, judge = find_eval_run(session, a), counted.judge
            agrees = read_agreement(session, chosen.id, judge=judge)
            if agrees is None:
                ours = "ours" if judge is None else f"those of the judge {judge}"
                raise NotFoundError(
                    f"run {chosen.name} has no grades of another tool to compare with {ours}."
                )
            unlike = unlike_grades(session, chosen, agrees, judge)
        record = {"run": chosen.name, **agrees.to_json(), "unlike": unlike}
        file.deliver(form, agreement_document(agrees, unlike), unlike, record)
        return
    with db.reading() as session:
        methods, warnings = counted.load(session, [a, b], allow)
    if len(methods) != 2:
        raise InputError(
            f"{a} and {b} have the same label, {methods[0].label}. Write LABEL=RUN for one of them."
        )
    comparison = compare_methods(
        *methods, ks=_whole_numbers(k), allow_missing="missing" in (allow or ()), common_only=common_only
    )
    document = comparison_document(comparison, warnings, changes=changes)
    rows = comparison_records(comparison)
    record = {
        "a": comparison.label_a,
        "b": comparison.label_b,
        "k": list(comparison.ks),
        "grades": counted.grades,
        "judge": counted.judge,
        "differences": rows,
        "problems": change_records(comparison),
        "notes": list(document.notes),
    }
    file.deliver(form, document, rows, record)


def _whole_numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    numbers = [int(part) if part.isdecimal() else 0 for part in text.split(",")]
    if min(numbers) < 1:
        raise InputError(f"--k {text!r}: give integers of at least 1, such as 1,2,4.")
    return numbers
