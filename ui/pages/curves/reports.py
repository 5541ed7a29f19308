"""The report of the chosen methods: charts, table, paired differences, cost, and maj@k on demand."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st
from sqlalchemy.orm import Session

from evaluator.exchange.agreement import agreement_notes
from evaluator.reports.comparing import MethodComparison, compare_methods, comparison_notes
from evaluator.reports.document import Document, Table
from evaluator.reports.layout import (
    contamination_notes,
    curve_rows,
    human_notes,
    records,
    report_document,
    run_notes,
    source_notes,
    source_table,
)
from evaluator.reports.methods import load_methods
from evaluator.reports.published import in_order
from evaluator.reports.report import (
    INTERVALS,
    MAJ_AT_K,
    PASS_AT_K,
    Metric,
    build_report,
    curve_ks,
)
from trainer_adapter.record.reading import Record
from trainer_adapter.record.series import trained_checkpoint
from ui.charts.eval_curves import MEANINGS, panel_charts
from ui.charts.intervals import cost_points, difference_chart
from ui.pages.curves.choosing import POINT_PARAMETERS, CurveChoice
from ui.pages.state import links, settings
from ui.pages.state.database import cached, fetch, keep, reading
from ui.pages.state.records import list_trainings, recorded
from ui.pages.text.markup import escaped, with_commands
from ui.pages.widgets import layout
from ui.pages.widgets.charts import Clicked, Spec, draw_chart, show_chart
from ui.pages.widgets.choices import asked_to_compute, choose, note_absent
from ui.pages.widgets.documents import show_document, show_table
from ui.pages.widgets.tables import Column, download, page_table

MOST_K = 64
"""Maximum k; beyond it, counting a problem's subsets takes long."""

UNITS = ("responses", "tokens")


@dataclass(frozen=True)
class PageReport:
    """A report for the page: points of its curves, its table, where answers were found."""

    k: int
    curves: list[dict[str, Any]]
    records: list[dict[str, Any]]
    document: Document
    sources: Table
    sources_notes: list[str]


def make_report(session: Session, choice: CurveChoice, k: int | None = None) -> PageReport:
    """Return the report of methods, with its table at one k, by default the usual one."""
    methods = fetch(load_methods, choice.references())
    ks: tuple[int, ...] | None = None if k is None else (k,)
    if choice.metric == MAJ_AT_K:
        runs = [run for method in choice.methods.values() for run in method.runs]
        fewest = min(run.fewest for run in runs if run.benchmark in choice.benchmarks)
        ks = curve_ks(min(max(fewest, 1), MOST_K))
    interval = INTERVALS[choice.interval]
    report = build_report(methods, ks=ks, metric=Metric(choice.metric), interval=interval, session=session)
    return PageReport(
        report.ks[-1],
        curve_rows(report),
        records(report),
        report_document(report, contamination_notes(session, methods)),
        source_table(report),
        list(source_notes(report)),
    )


load_report = cached(make_report)


@cached
def load_notes(session: Session, references: tuple[str, ...]) -> list[str]:
    """Return notes on the runs of methods and on their grades."""
    methods = fetch(load_methods, references)
    entries = [(each.label, each.entries[name]) for each in methods for name in in_order(each.entries)]
    return [
        *run_notes([entry for _, entry in entries]),
        *human_notes(entries),
        *agreement_notes(session, [result.run for _, entry in entries for result in entry.results]),
    ]


@cached
def load_comparison(_session: Session, references: tuple[str, ...]) -> MethodComparison:
    a, b = fetch(load_methods, references)
    return compare_methods(a, b, allow_missing=False)


def read_report(choice: CurveChoice) -> PageReport:
    """Return the report of the choice; that of maj@k is offered first, and the page stops."""
    if choice.metric != MAJ_AT_K:
        return load_report(choice)
    words = (
        "The grader groups equivalent wrong answers of every problem. This takes seconds to minutes; the "
        "result is cached."
    )
    if not asked_to_compute("Compute maj@k", words, "maj-make"):
        st.stop()

    def make() -> PageReport:
        with reading() as session:
            return make_report(session, choice)

    with st.spinner("Grouping answers, counting majorities", show_time=True):  # safe
        # The methods change whenever samples or grades of their runs change.
        return keep((settings.current().database, choice), make)


def show_panels(choice: CurveChoice, report: PageReport) -> None:
    meaning = MEANINGS.get(choice.metric, "share of problems with at least half of k samples correct")
    layout.caption(f"{choice.metric}: {meaning}. Click a point to see its problems.")
    for note in load_notes(choice.references()):
        st.caption(with_commands(note))  # safe

    def draw() -> dict[str, Spec]:
        charts = panel_charts(report.curves, choice.metric, choice.palette)
        return {name: chart.to_dict(validate=False) for name, chart in charts.items()}

    specs = keep(("panels", report.curves, choice.metric, choice.palette), draw)
    for benchmark in layout.in_columns(list(specs), min(2, len(specs)), gap="medium"):
        show_chart(
            specs[benchmark],
            f"{choice.metric.replace('@', '-at-').replace('^', '-all-')}-{benchmark}".replace("/", "-"),
            f"curve-{benchmark}",
            on_click=partial(_show_problems, benchmark),
            rows=[row for row in report.curves if row["benchmark"] == benchmark],
            alt=f"{choice.metric} over k on {benchmark}: {', '.join(choice.labels)}",
        )


def _show_problems(benchmark: str, point: Clicked) -> None:
    if not point:
        return
    label, k = str(point["label"]), int(point["k"])
    values: dict[str, Any] = {"of": label, "point": benchmark, "k": k}
    if links.text("against") == label:
        values["against"] = None
    links.set_query(**values, **dict.fromkeys(POINT_PARAMETERS))
    st.toast(escaped(f"{label} on {benchmark} at k = {k}: its problems are listed below the charts."))


def show_report(choice: CurveChoice, report: PageReport) -> None:
    if choice.metric != MAJ_AT_K:
        curves: dict[tuple[str, str], set[int]] = {}
        for row in report.curves:
            curves.setdefault((row["label"], row["benchmark"]), set()).add(row["k"])
        ks = sorted(set.intersection(*curves.values()))
        k = choose(st.selectbox, "k", "k", ks, report.k, width=90, resets=POINT_PARAMETERS)
        note_absent("k", ks, "table at k =", f"k = {k}")
        if k != report.k:
            report = load_report(choice, k)
    show_document(report.document, "report")
    download("report", report.records, key="report-csv", label="CSV, full precision")


def show_sources(report: PageReport) -> None:
    with st.expander(escaped(report.sources.title)):
        show_table(report.sources, "sources")
    for note in report.sources_notes:
        st.caption(with_commands(note))  # safe


def show_differences(choice: CurveChoice) -> None:
    labels = [label for label in choice.methods if choice.shared(label)]
    if not labels:
        st.caption("No common benchmark. Choose two methods evaluated on the same benchmark.")
        return
    with layout.row():
        first = choose(st.selectbox, "Method", "of", labels, labels[-1], width=200)
        others = choice.shared(first)
        most_shared = max(others, key=others.__getitem__)
        second = choose(st.selectbox, "against", "against", list(others), most_shared, width=200)
    with layout.or_stop(f"{first} and {second} cannot be compared."):
        comparison = load_comparison((*choice.references(first), *choice.references(second)))
    rows = comparison.rows
    layout.caption(
        f"pass@k of {first} minus that of {second} on the same problems; above 0, {first} is better. "
        f"Bars: 95% interval for {rows[0]['interval']}."
        + ("" if choice.metric == PASS_AT_K else f" Differences are for pass@k, not for {choice.metric}.")
    )
    reach = max(abs(row[key]) for row in rows for key in ("low", "high"))
    for name in layout.in_columns(list(comparison.compared), min(2, len(comparison.compared)), gap="medium"):
        draw_chart(
            difference_chart,
            [row for row in rows if row["benchmark"] == name],
            f"difference-{name}",
            f"difference-{name}",
            title=name,
            subtitle=f"{len(comparison.compared[name].problem_ids):,} problems",
            reach=reach,
            colour=choice.palette[first],
        )
    page_table(rows, _columns(first, second), "differences", name="differences")
    st.caption(
        "p: sign-flip test on per-problem differences. p (Holm): adjusted over the benchmarks at the same "
        "k. Better and worse count problems."
    )
    for note in comparison_notes(comparison):
        st.caption(with_commands(note))  # safe


def _columns(first: str, second: str) -> list[Column]:
    return [
        Column("benchmark", "benchmark"),
        Column("k", "k", "whole"),
        Column("value_a", f"{first}: pass@k", "share"),
        Column("value_b", f"{second}: pass@k", "share"),
        Column("difference", "difference, points", "points", hint="Percentage points."),
        Column("low", "95% interval from, points", "points"),
        Column("high", "to, points", "points"),
        Column("p_value", "p", "p"),
        Column("p_holm", "p (Holm)", "p"),
        Column("wins", "better", "whole"),
        Column("losses", "worse", "whole"),
        Column("ties", "same", "whole"),
    ]


def training_costs(models: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return training run, step, responses and tokens drawn until each of these models.

    The model that a training started from has no cost, at step 0.
    """
    runs = {training.run.name: training for training in list_trainings()}
    drawn: dict[str, dict[str, Any]] = {}
    for model in models:
        alike = [name for name, each in runs.items() if each.numbers.rollouts and each.model is not None]
        start = next((name for name in alike if same_model(model, str(runs[name].model))), None)
        if (checkpoint := trained_checkpoint(model, list(runs))) is not None:
            name, step = checkpoint
            steps = [] if runs[name].problem else drawn_by_step(runs[name].run.id)
            if until := [total for total in steps if total[0] <= step]:
                _, responses, tokens = max(until)
                drawn[model] = {"train_run": name, "step": step, "responses": responses, "tokens": tokens}
        elif start is not None:
            drawn[model] = {"train_run": start, "step": 0, "responses": 0, "tokens": 0}
    return drawn


@recorded
def drawn_by_step(record: Record) -> list[tuple[int, int, int]]:
    return record.counts().drawn_by_step()


def same_model(first: str, second: str) -> bool:
    """Say whether two names are one model: equal, or a path of two or more parts and the end of a longer one.

    >>> same_model("demo/policy", "/models/demo/policy")
    True
    """
    short, long = sorted((first.strip("/").split("/"), second.strip("/").split("/")), key=len)
    return short == long or (len(short) > 1 and long[-len(short) :] == short)


def show_cost(choice: CurveChoice, report: PageReport) -> None:
    models = {
        run.run.spec["model"]: label
        for label, method in choice.methods.items()
        for run in method.runs
        if run.benchmark in choice.benchmarks
    }
    drawn = training_costs(tuple(models))
    keys = ("label", "run", "benchmark", "k", "value", "low", "high")
    rows = [
        {**{key: row[key] for key in keys}, **drawn[row["model"]]}
        for row in report.records
        if row["source"] == "runs" and row["k"] == report.k and row["model"] in drawn
    ]
    missing = sorted({label for model, label in models.items() if model not in drawn})
    if missing:
        layout.caption(
            f"Not shown: {', '.join(missing)}. Their models are neither checkpoints "
            "(.../NAME/checkpoints/global_step_N/...) nor initial models of recorded training runs."
        )
    if not rows:
        layout.empty_state(
            "No evaluated model comes from a training run in this database.",
            "Add the rollouts of its training run, named like its folder:",
            commands=(settings.command("train rollouts FOLDER --add"),),
        )
        return
    unit = choose(st.segmented_control, "Cost in", "unit", UNITS, label_visibility="visible")
    names = [name for name in choice.benchmarks if any(row["benchmark"] == name for row in rows)]
    for name in layout.in_columns(names, min(2, len(names)), gap="medium"):
        draw_chart(
            cost_points,
            [{**row, "cost": row[unit]} for row in rows if row["benchmark"] == name],
            f"cost-{name}",
            f"cost-{name}",
            title=name,
            x_title=f"{unit} sampled in training",
            y_title=choice.metric.replace("k", str(report.k)),
            palette=choice.palette,
        )
