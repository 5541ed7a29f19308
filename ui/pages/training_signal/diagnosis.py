"""Diagnosis of responses: difficulty and diversity of neighbors, computed on a button and kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st
from sqlalchemy.orm import Session

from evaluator.evals.overview import runs_overview
from evaluator.signal.diagnosis import Diagnosis, DiagnosisSettings, Part, diagnose
from evaluator.signal.sources import eval_source
from service.database import Database
from trainer_adapter.record.diagnosing import training_source
from trainer_adapter.record.reading import Record
from trainer_adapter.record.runs import TrainRun
from ui.charts.diagnosis import density_panel, difficulty_chart
from ui.pages.state import links, settings
from ui.pages.state.database import cached, keep
from ui.pages.state.records import open_run, recorded
from ui.pages.widgets import charts, layout
from ui.pages.widgets.choices import asked_to_compute, choose, note_absent
from ui.pages.widgets.tables import Column, page_table, pick_row

LAST_STEPS = 20
ROWS_SHOWN = 50

CHART = "shape-difficulty"
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
    """Those of an evaluation, whose `state` changes with its samples, or of steps of a training."""

    name: str
    state: str = ""
    run_id: str = ""
    first: int = 0
    last: int = 0
    has_neighbors: bool = True

    @property
    def words(self) -> str:
        if self.state:
            return f"evaluation {self.name}"
        steps = f"step {self.first}" if self.first == self.last else f"steps {self.first} to {self.last}"
        return f"training {self.name}, {steps}"


@cached
def evaluated(session: Session) -> dict[str, Responses]:
    """Return the responses of evaluation runs by name, those with neighbors first."""
    drawn = [
        Responses(
            row.run.name, f"{row.run.id}:{row.grader}:{row.samples}", has_neighbors=row.groups < row.problems
        )
        for row in runs_overview(session)
        if row.samples
    ]
    return {each.name: each for each in sorted(drawn, key=lambda each: not each.has_neighbors)}


@recorded
def sizes(record: Record) -> tuple[int, int]:
    """Return the neighbors of a question and the responses to each prompt, by the first groups."""
    groups = record.counts().page_groups(limit=16)
    most = max(groups, key=lambda group: group.prompts, default=None)
    return (most.prompts - 1, most.responses // most.prompts) if most else (0, 0)


@recorded
def _content(record: Record, first: int, last: int) -> str:
    of_steps = [content for step, content in record.contents().items() if first <= step <= last]
    return f"{record.folder}:{','.join(of_steps)}"


def diagnosed(responses: Responses, part: Part, wanted: DiagnosisSettings = DiagnosisSettings()) -> Diagnosis:
    """Return the diagnosis of responses, made again only when they have changed."""

    def make() -> Diagnosis:
        if responses.state:
            with Database.open(settings.current().database, read_only=True) as database:
                return diagnose(eval_source(database, [responses.name]), [part], wanted)
        steps = (responses.first, responses.last)
        source = training_source(open_run(responses.run_id), responses.name, [steps])
        return diagnose(source, [part], wanted)

    state = responses.state or _content(responses.run_id, responses.first, responses.last)
    return keep((settings.current().database, responses, state, part, wanted), make)


def difficulty(trainings: Sequence[TrainRun]) -> None:
    layout.section(
        "Difficulty of neighbors",
        "Success rate of each neighbor and its original. Some shift is intended. An implausible rate, given "
        "the question's other prompts, may mean a leaked answer or a different problem.",
    )
    if (made := _diagnose(trainings, "difficulty")) is None:
        return
    words, diagnosis = made
    rows, flagged = diagnosis.tables["difficulty_neighbors"], diagnosis.flagged
    [spread] = diagnosis.tables["difficulty_spread"]
    layout.numbers(
        ("questions", f"{spread['questions']:,}"),
        ("neighbors", f"{len(rows):,}"),
        ("flagged", f"{len(flagged):,}", "at a false-discovery rate of 5%"),
        ("unrelated", f"{spread['stray_share']:.1%}", "share of neighbors, left out of the shifts"),
        ("mean shift", f"{spread['mean']:+.2f} logits", "above 0: neighbors are easier"),
        ("spread of shifts", f"{spread['sd']:.2f} logits", "their standard deviation"),
    )
    layout.caption(
        f"95% intervals: mean shift {spread['mean_low']:+.2f} to {spread['mean_high']:+.2f}, "
        f"spread {spread['sd_low']:.2f} to {spread['sd_high']:.2f} logits."
        + (f" But {spread['at_bound']}." if spread["at_bound"] else "")
    )

    def clicked(dot: charts.Clicked) -> None:
        links.set_query(dot=_place(dot["original"], dot["neighbor"]) if dot else None, flagged=None)

    left, right = st.columns(2, gap="large")
    with left:
        charts.draw_chart(
            difficulty_chart,
            rows,
            "tagrpo-difficulty",
            CHART,
            on_click=clicked,
            title=words,
        )
        st.caption("Click a circle to list its neighbors.")
    with right:
        dot = links.text("dot")
        at = [row for row in rows if _place(row["original_rate"], row["rate"]) == dot]
        if at:
            layout.section(
                f"{len(at):,} neighbor{'s' * (len(at) > 1)} solved in {at[0]['rate']:.1%} of responses, the "
                f"original in {at[0]['original_rate']:.1%}"
            )
            _neighbors(at, "tagrpo-neighbors-at-a-point", GRADED)
            st.button(
                "Neighbors to check again",
                icon=":material/arrow_back:",
                type="tertiary",
                on_click=lambda: links.set_query(dot=None, flagged=None),
            )
            return
        layout.section("Neighbors to check again")
        if flagged:
            _neighbors(flagged, "tagrpo-flagged-neighbors", FLAGGED)
        else:
            st.caption("No neighbor has an implausible rate at this false-discovery rate.")


def _place(original: float, neighbor: float) -> str:
    """Return the rates of a circle, as the address has them."""
    return f"{original:.6g},{neighbor:.6g}"


def _neighbors(rows: Sequence[Row], name: str, columns: Sequence[Column]) -> None:
    listed = [{**row, "place": f"{row['group_id']}:{row['variant']}"} for row in rows[:ROWS_SHOWN]]
    if len(rows) > len(listed):
        st.caption(f"The first {ROWS_SHOWN}; the chart's CSV file contains all.")  # safe: a number
    picked = pick_row(listed, columns, "difficulty-table", parameter="flagged", value="place", name=name)
    question = next((row["group_id"] for row in listed if row["place"] == picked), None)
    if question is not None:
        words = "This question with its neighbors"
        links.link(words, "questions", icon=":material/arrow_forward:", id=str(question))


def diversity(trainings: Sequence[TrainRun]) -> None:
    layout.section(
        "Diversity of responses",
        "Mean cosine distance (TF-IDF over words and formulas) among responses to the original, among "
        "responses to neighbors, and between the two. It shows how much neighbors diversify the responses.",
    )
    if (made := _diagnose(trainings, "diversity")) is None:
        return
    words, diagnosis = made
    tables = diagnosis.tables
    if densities := tables["diversity_densities"]:
        charts.draw_chart(density_panel, densities, "tagrpo-diversity", "diversity-chart", title=words)
    else:
        st.caption("All questions have the same distance, so there is no density to plot.")
    means = tables["diversity_means"]
    differences = {row["series"]: row["value"] for row in means if row["minus"]}
    page_table(
        [{**row, "difference": differences.get(row["series"])} for row in means if not row["minus"]],
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
    layout.caption(
        f"{len(tables['diversity']):,} questions, G = {diagnosis.g}, N = {diagnosis.n}; intervals: 95%, "
        f"for new questions. Notes: {'; '.join(diagnosis.remarks)}."
    )


def _choose(trainings: Sequence[TrainRun]) -> Responses | None:
    """Show the choice of the responses: a training run with its steps, or an evaluation run."""
    trained = {
        each.run.name: each
        for each in trainings
        if each.numbers.rollouts and each.numbers.last_step is not None
    }
    options = list(dict.fromkeys([*trained, *evaluated()]))
    if not options:
        layout.empty_state(
            "There are no responses to diagnose.",
            "Add the rollouts of a training run, or evaluate a model on a neighbor set:",
            commands=(settings.command("train rollouts FOLDER --add"),),
        )
        return None
    usual = next((name for name in reversed(trained) if sizes(trained[name].run.id)[0]), options[0])
    with layout.row("bottom"):
        name = choose(
            st.selectbox,
            "Responses of",
            "of",
            options,
            usual,
            words=lambda name: f"training {name}" if name in trained else f"evaluation {name}",
            resets=["from", "to", *FOUND],
        )
        if name not in trained:
            first, last = 0, 0
        else:
            low, high = trained[name].numbers.first_step or 0, trained[name].numbers.last_step or 0
            look: dict[str, Any] = {"resets": FOUND, "width": 150}
            usual_first = max(low, high - LAST_STEPS + 1)
            first = choose(st.selectbox, "From step", "from", range(low, high + 1), usual_first, **look)
            last = choose(st.selectbox, "to step", "to", range(low, high + 1), high, **look)
    note_absent("of", options, "run with responses", name)
    if name not in trained:
        return evaluated()[name]
    if first > last:
        st.caption("The first step comes after the last step.")
        return None
    return Responses(name, run_id=trained[name].run.id, first=first, last=last)


def _diagnose(trainings: Sequence[TrainRun], part: Part) -> tuple[str, Diagnosis] | None:
    """Return the chosen responses in words and their diagnosis, once it was asked for.

    The address says so, so that a link shows it.
    """
    responses = _choose(trainings)
    if responses is None:
        return None
    words = f"This takes a few seconds for {responses.words}; the result is cached."
    if not asked_to_compute("Compute", words, f"{part}-make"):
        return None
    with (
        layout.or_stop("The diagnosis cannot be computed."),
        st.spinner(f"Computing {part}: {responses.words}", show_time=True),  # safe
    ):
        return responses.words, diagnosed(responses, part)
