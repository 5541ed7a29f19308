"""Diagnosis of responses: difficulty and diversity of neighbors, computed on a button and kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any

import streamlit as st
from sqlalchemy.orm import Session

from evaluator.evals.overview import runs_overview
from evaluator.signal.diagnosis import Diagnosis, Part, diagnose
from evaluator.signal.sources.eval_runs import eval_source
from service.database import Database
from trainer_adapter.record.diagnosing import training_source
from trainer_adapter.record.reading import Record
from ui.charts.diagnosis import DOT, density_panel, difficulty_chart
from ui.pages.state import links, settings
from ui.pages.state.database import cached
from ui.pages.state.records import open_run, recorded, run_id_of
from ui.pages.state.results import keep
from ui.pages.text.markup import escaped
from ui.pages.training_signal.runs import Run
from ui.pages.widgets import charts, layout
from ui.pages.widgets.choices import choose, note_absent
from ui.pages.widgets.tables import Column, page_table, pick_row

LAST_STEPS = 20
ROWS_SHOWN = 50

CHART = "difficulty-chart"
FOUND = ("made", "flagged", "dot")
"""Parameters that lose their meaning when other responses are chosen."""

FLAGGED = (
    Column("flag", "flag"),
    Column("group_id", "question"),
    Column("source_id", "neighbor"),
    Column("strategy", "strategy"),
    Column("rate", "rate", "share"),
    Column("known", "graded", "whole"),
    Column("original_rate", "success rate of the original", "share"),
    Column("original_known", "graded responses to the original", "whole"),
    Column("p_value", "p", "p"),
)
GRADED = tuple(column for column in FLAGGED if column.key not in ("flag", "rate", "original_rate"))
"""Of neighbors at one place, which have their rates in common."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Responses:
    """Those of an evaluation run, or of some steps of a training run.

    `state` changes with the samples and grades of an evaluation.
    """

    name: str
    state: str = ""
    first: int = 0
    last: int = 0

    @property
    def words(self) -> str:
        if self.state:
            return f"evaluation {self.name}"
        steps = f"step {self.first}" if self.first == self.last else f"steps {self.first} to {self.last}"
        return f"training {self.name}, {steps}"


@cached
def evaluated(session: Session) -> dict[str, Responses]:
    """Return the responses of evaluation runs by name, those with neighbors first."""
    drawn = sorted(
        (row for row in runs_overview(session) if row.samples), key=lambda row: row.groups == row.problems
    )
    return {
        row.run.name: Responses(row.run.name, f"{row.run.id}:{row.grader}:{row.samples}") for row in drawn
    }


@recorded
def _content(record: Record, first: int, last: int) -> str:
    of_steps = [content for step, content in record.contents().items() if first <= step <= last]
    return f"{record.folder}:{','.join(of_steps)}"


def difficulty(runs: Sequence[Run]) -> None:
    layout.section(
        "Difficulty of neighbors",
        "Success rate of each neighbor and its original. Some shift is intended. An implausible rate, given "
        "the question's other prompts, may mean a leaked answer or a different problem.",
    )
    responses = _choose(runs)
    diagnosis = _on_button(responses, "difficulty") if responses else None
    if responses is None or diagnosis is None:
        return
    rows, flagged = diagnosis.tables["difficulty_neighbors"], diagnosis.flagged
    [spread] = diagnosis.tables["difficulty_spread"]
    layout.numbers(
        [
            layout.Number("questions", f"{spread['questions']:,}"),
            layout.Number("neighbors", f"{len(rows):,}"),
            layout.Number("flagged", f"{len(flagged):,}", hint="at a false-discovery rate of 5%"),
            layout.Number("mean shift", f"{spread['mean']:+.2f}", "logits", "above 0: neighbors are easier"),
            layout.Number("spread of shifts", f"{spread['sd']:.2f}", "logits", "their standard deviation"),
        ]
    )
    st.caption(
        escaped(
            f"95% intervals: mean shift {spread['mean_low']:+.2f} to {spread['mean_high']:+.2f}, "
            f"spread {spread['sd_low']:.2f} to {spread['sd_high']:.2f} logits."
            + (f" But {spread['at_bound']}." if spread["at_bound"] else "")
        )
    )
    spec = charts.cached_chart(difficulty_chart, rows, title=responses.words)
    left, right = st.columns(2, gap="large")
    with left:
        charts.show_chart(
            {**spec, "autosize": {"type": "pad"}},  # else the title would take the width of the square
            "tagrpo-difficulty",
            CHART,
            rows=rows,
            stretch=False,
            on_select=_dot_clicked,
        )
        st.caption("Click a circle to list its neighbors.")
    with right:
        at = rows_at(rows, links.text("dot"))
        if at:
            _at_a_dot(at)
        else:
            _flagged(flagged)


def _dot_clicked() -> None:
    dots = st.session_state[CHART]["selection"].get(DOT) or []
    dot = ",".join(repr(float(dots[0][name])) for name in ("original", "neighbor")) if dots else None
    links.set_query(dot=dot, flagged=None)


def rows_at(neighbors: Sequence[Row], dot: str) -> list[Row]:
    """Return the neighbors with these rates: of the original, then their own ("0.5,0.25")."""
    try:
        original, own = (float(rate) for rate in dot.split(","))
    except ValueError:
        return []
    return [
        row
        for row in neighbors
        if isclose(row["original_rate"], original, abs_tol=1e-9) and isclose(row["rate"], own, abs_tol=1e-9)
    ]


def _at_a_dot(rows: Sequence[Row]) -> None:
    first = rows[0]
    layout.section(
        f"{len(rows):,} {'neighbor' if len(rows) == 1 else 'neighbors'} solved in {first['rate']:.1%} of "
        f"responses, the original in {first['original_rate']:.1%}"
    )
    _neighbors(rows, "tagrpo-neighbors-at-a-point", GRADED)
    st.button(
        "Neighbors to check again",
        icon=":material/arrow_back:",
        type="tertiary",
        on_click=lambda: links.set_query(dot=None, flagged=None),
    )


def _flagged(rows: Sequence[Row]) -> None:
    layout.section("Neighbors to check again")
    if not rows:
        st.caption("No neighbor has an implausible rate at this false-discovery rate.")
        return
    _neighbors(rows, "tagrpo-flagged-neighbors", FLAGGED)


def _neighbors(rows: Sequence[Row], name: str, columns: Sequence[Column]) -> None:
    listed = [{**row, "place": f"{row['group_id']}:{row['variant']}"} for row in rows[:ROWS_SHOWN]]
    if len(rows) > len(listed):
        st.caption(f"The first {ROWS_SHOWN}; the chart's CSV file contains all.")  # safe: a number
    picked = pick_row(
        listed,
        columns,
        "difficulty-table",
        parameter="flagged",
        value="place",
        name=name,
    )
    question = next((row["group_id"] for row in listed if row["place"] == picked), None)
    if question is not None:
        links.link(
            "This question with its neighbors",
            "questions",
            icon=":material/arrow_forward:",
            id=str(question),
        )


def diversity(runs: Sequence[Run]) -> None:
    layout.section(
        "Diversity of responses",
        "Mean cosine distance (TF-IDF over words and formulas) among responses to the original, among "
        "responses to neighbors, and between the two. It shows how much neighbors diversify the responses.",
    )
    responses = _choose(runs)
    diagnosis = _on_button(responses, "diversity") if responses else None
    if responses is None or diagnosis is None:
        return
    made = diagnosis.tables
    densities = made["diversity_densities"]
    if densities:
        spec = charts.cached_chart(density_panel, densities, title=responses.words)
        charts.show_chart(spec, "tagrpo-diversity", "diversity-chart", rows=densities)
    else:
        st.caption("All questions have the same distance, so there is no density to plot.")
    differences = {row["series"]: row["value"] for row in made["diversity_means"] if row["minus"]}
    page_table(
        [
            {**row, "difference": differences.get(row["series"])}
            for row in made["diversity_means"]
            if not row["minus"]
        ],
        [
            Column("series", "responses"),
            Column("value", "mean distance", "number"),
            Column("low", "from", "number"),
            Column("high", "to", "number"),
            Column("difference", "difference from the original", "number"),
        ],
        "diversity-table",
        name="tagrpo-diversity-means",
    )
    st.caption(
        escaped(
            f"{len(made['diversity']):,} questions, G = {diagnosis.g}, N = {diagnosis.n}; intervals: 95%, "
            f"for new questions. {' '.join(f'{remark}.' for remark in diagnosis.remarks)}"
        )
    )


def _choose(runs: Sequence[Run]) -> Responses | None:
    """Show the choice of the responses: a training run with its steps, or an evaluation run."""
    trained = {run.name: run for run in runs if run.rollouts and run.last_step is not None}
    options = list(dict.fromkeys([*trained, *evaluated()]))
    if not options:
        layout.empty_state(
            "There are no responses to diagnose.",
            "Add the rollouts of a training run, or evaluate a model on a neighbor set:",
            commands=(settings.command("train rollouts FOLDER --add"),),
        )
        return None
    usual = next((run.name for run in reversed(list(trained.values())) if run.has_neighbors), options[0])
    name_place, first_place, last_place = st.columns([3, 1, 1], vertical_alignment="bottom")
    with name_place:
        name = choose(
            st.selectbox,
            "Responses of",
            "of",
            options,
            usual,
            words=lambda name: f"training {name}" if name in trained else f"evaluation {name}",
            resets=["from", "to", *FOUND],
        )
    note_absent("of", options, "run with responses", name)
    if name not in trained:
        return evaluated()[name]
    low, high = trained[name].first_step or 0, trained[name].last_step or 0
    steps = range(low, high + 1)
    with first_place:
        usual_first = max(low, high - LAST_STEPS + 1)
        first = choose(st.selectbox, "From step", "from", steps, usual_first, resets=FOUND)
    with last_place:
        last = choose(st.selectbox, "to step", "to", steps, high, resets=FOUND)
    if first > last:
        st.caption("The first step comes after the last step.")
        return None
    return Responses(name, first=first, last=last)


def _on_button(responses: Responses, part: Part) -> Diagnosis | None:
    """Return the diagnosis once it was asked for; the address says so, so that a link shows it."""
    if not links.flag("made"):
        st.button(
            "Compute",
            type="primary",
            icon=":material/play_arrow:",
            key=f"{part}-make",
            on_click=lambda: links.set_query(made=True),
        )
        st.caption(escaped(f"This takes a few seconds for {responses.words}; the result is cached."))
        return None

    def make() -> Diagnosis:
        if responses.state:
            with Database.open(settings.current().database, read_only=True) as database:
                return diagnose(eval_source(database, [responses.name]), [part])
        record = open_run(run_id_of(responses.name))
        source = training_source(record, responses.name, [(responses.first, responses.last)])
        return diagnose(source, [part])

    with (
        layout.or_stop("The diagnosis cannot be computed."),
        st.spinner(f"Computing {part}: {responses.words}", show_time=True),  # safe
    ):
        state = responses.state or _content(run_id_of(responses.name), responses.first, responses.last)
        return keep((settings.current().database, responses, state, part), make)
