"""Difficulty and diversity of neighbors, computed on a button: they take seconds."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import isclose
from typing import TYPE_CHECKING, Any, TypeVar

import pandas as pd
import streamlit as st

from service.errors import TagrpoError
from ui.pages.state import links
from ui.pages.text.markup import escaped
from ui.pages.training_signal import sources
from ui.pages.training_signal.runs import Run
from ui.pages.training_signal.sources import Source
from ui.pages.widgets import charts, layout
from ui.pages.widgets.tables import Column, page_table, pick_row

if TYPE_CHECKING:
    from evaluator.signal.difficulty import NeighborRow

LAST_STEPS = 20
QUESTIONS = 100
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
    Column("original_rate", "rate of the original", "share"),
    Column("original_known", "of the original, graded", "whole"),
    Column("p_value", "p", "p"),
)
GRADED = tuple(one for one in FLAGGED if one.key not in ("flag", "rate", "original_rate"))
"""Of neighbors at one place, which have their rates in common."""

Record = dict[str, Any]
R = TypeVar("R")


@dataclass(frozen=True)
class Audit:
    """What the page shows of a difficulty audit."""

    spec: Record
    neighbors: list[Record]
    flagged: list[Record]
    questions: int
    shift: tuple[float, float, float]
    sd: tuple[float, float, float]
    at_bound: str


@dataclass(frozen=True)
class Distances:
    """What the page shows of diversity."""

    spec: Record | None
    points: list[Record]
    means: list[Record]
    words: str


def difficulty(runs: Sequence[Run]) -> None:
    """Show the difficulty audit of a chosen source."""
    layout.section(
        "Difficulty of neighbors",
        "The success rate of each neighbor beside that of its original. Shifts are wanted; a rate that is "
        "implausible given the question's other prompts may mean a leaked answer or another problem.",
    )
    source = _choose(runs, "difficulty")
    found = _on_button(source, "difficulty", lambda one: _audit(one)) if source else None
    if found is None:
        return
    layout.numbers(
        [
            layout.Number("questions", f"{found.questions:,}"),
            layout.Number("neighbors", f"{len(found.neighbors):,}"),
            layout.Number("flagged", f"{len(found.flagged):,}", hint="at a false-discovery rate of 5%"),
            layout.Number("mean shift", f"{found.shift[0]:+.2f}", "logits", "above 0: neighbors are easier"),
            layout.Number("spread of shifts", f"{found.sd[0]:.2f}", "logits", "their standard deviation"),
        ]
    )
    st.caption(
        escaped(
            f"95% intervals: mean shift {found.shift[1]:+.2f} to {found.shift[2]:+.2f}, "
            f"spread {found.sd[1]:.2f} to {found.sd[2]:.2f} logits."
            f"{f' But {found.at_bound}.' if found.at_bound else ''}"
        )
    )
    left, right = st.columns(2, gap="large")
    with left:
        charts.show_chart(
            found.spec,
            "tagrpo-difficulty",
            CHART,
            rows=found.neighbors,
            stretch=False,
            on_select=_dot_clicked,
        )
        st.caption("A click on a circle lists its neighbors.")
    with right:
        at = rows_at(found.neighbors, links.text("dot"))
        if at:
            _at_a_dot(at)
        else:
            _flagged(found)


def _dot_clicked() -> None:
    from ui.charts.difficulty import DOT

    dots = st.session_state[CHART]["selection"].get(DOT) or []
    dot = ",".join(repr(float(dots[0][name])) for name in ("original", "neighbor")) if dots else None
    links.put(dot=dot, flagged=None)


def rows_at(neighbors: Sequence[Record], dot: str) -> list[Record]:
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


def _at_a_dot(rows: Sequence[Record]) -> None:
    first = rows[0]
    layout.section(
        f"{len(rows):,} {'neighbor' if len(rows) == 1 else 'neighbors'} solved in {first['rate']:.1%} of "
        f"responses, the original in {first['original_rate']:.1%}"
    )
    _neighbors(rows, "tagrpo-neighbors-at-a-point", GRADED)
    st.button(
        "Those to look at again",
        icon=":material/arrow_back:",
        type="tertiary",
        on_click=lambda: links.put(dot=None, flagged=None),
    )


def _flagged(found: Audit) -> None:
    layout.section("Neighbors to look at again")
    if not found.flagged:
        st.caption("None: no neighbor's rate is implausible at this false-discovery rate.")
        return
    _neighbors(found.flagged, "tagrpo-flagged-neighbors", FLAGGED)


def _neighbors(rows: Sequence[Record], name: str, columns: Sequence[Column]) -> None:
    """Show the first neighbors as a table; a chosen one has a link to its question."""
    shown = [{**row, "place": f"{row['group_id']}:{row['variant']}"} for row in rows[:ROWS_SHOWN]]
    if len(rows) > len(shown):
        st.caption(f"The first {ROWS_SHOWN} of them; the CSV of the chart has all.")  # safe: a number
    picked = pick_row(
        shown,
        columns,
        "difficulty-table",
        parameter="flagged",
        value="place",
        name=name,
    )
    question = next((row["group_id"] for row in shown if row["place"] == picked), None)
    if question is not None:
        links.link(
            "This question with its neighbors",
            "questions",
            icon=":material/arrow_forward:",
            id=str(question),
        )


def diversity(runs: Sequence[Run]) -> None:
    """Show the densities of distances between responses of a chosen source."""
    layout.section(
        "Diversity of responses",
        "Mean cosine distance among responses to the original, to neighbors, and between the two: what "
        "neighbors add to what the policy tries. TF-IDF over words and formulas; with a model of embeddings: "
        "tagrpo diagnose diversity --embedding NAME.",
    )
    source = _choose(runs, "diversity")
    found = _on_button(source, "diversity", _distances) if source else None
    if found is None:
        return
    if found.spec is None:
        st.caption("All questions have one distance, so there is no density to draw.")
    else:
        charts.show_chart(found.spec, "tagrpo-diversity", "diversity-chart", rows=found.points)
    page_table(
        found.means,
        [
            Column("series", "responses"),
            Column("distance", "mean distance", "number"),
            Column("low", "from", "number"),
            Column("high", "to", "number"),
            Column("difference", "minus the original's", "number"),
        ],
        "diversity-table",
        name="tagrpo-diversity-means",
    )
    st.caption(escaped(found.words))


def _choose(runs: Sequence[Run], part: str) -> Source | None:
    """Show the choice of the responses: a training run with its steps, or an evaluation run."""
    trained = {run.name: run for run in runs if run.rollouts and run.last_step is not None}
    options = [*trained, *(one.name for one in sources.eval_choices() if one.name not in trained)]
    if not options:
        layout.empty_state(
            "There are no responses to diagnose.",
            "Import the rollouts of a training, or sample a neighbor set with an evaluation:",
            commands=("tagrpo rollouts import FOLDER",),
        )
        return None
    usual = next((run.name for run in reversed(list(trained.values())) if run.n), options[0])
    resets = ["from", "to", *FOUND]
    name_place, first_place, last_place = st.columns([3, 1, 1], vertical_alignment="bottom")
    with name_place:
        name = st.selectbox(
            "Responses of",
            options,
            format_func=lambda name: f"training {name}" if name in trained else f"evaluation {name}",
            **links.bound("of", lambda: links.choice("of", options, usual), resets=resets),
        )
    if asked := links.unknown("of", options):
        layout.note(f"There are no responses of {asked} in this database; these are those of {name}.")
    if name not in trained:
        return Source(name)
    low, high = trained[name].first_step or 0, trained[name].last_step or 0
    with first_place:
        first = _step("From step", "from", max(low, high - LAST_STEPS + 1), low, high)
    with last_place:
        last = _step("to step", "to", high, low, high)
    if first > last:
        st.caption("The first step is behind the last one.")
        return None
    return Source(name, first, last)


def _step(label: str, name: str, usual: int, low: int, high: int) -> int:
    return int(
        st.number_input(
            escaped(label),
            min_value=low,
            max_value=high,
            step=1,
            **links.bound(name, lambda: links.number(name, usual, low=low, high=high), resets=FOUND),
        )
    )


def _on_button(source: Source, what: str, make: Callable[[Source], R]) -> R | None:
    """Return the result once it was asked for; the address says so, so that a link shows it."""
    wanted = links.flag("made") or sources.is_ready(source, what)
    if not wanted:
        st.button(
            "Compute",
            type="primary",
            icon=":material/play_arrow:",
            key=f"{what}-make",
            on_click=lambda: links.put(made=True),
        )
        st.caption(escaped(f"Takes some seconds for {source.words}; the result is kept."))
        return None
    try:
        with st.spinner(f"Computing {what}: {source.words}", show_time=True):  # safe
            return sources.once(source, what, lambda: make(source))
    except TagrpoError as error:
        layout.error_box("This cannot be computed.", str(error))
        return None


def _audit(source: Source) -> Audit:
    from evaluator.signal.difficulty import audit_difficulty
    from ui.charts.difficulty import difficulty_chart

    audit = audit_difficulty(sources.load(source))
    rows, flagged = ([_row(one) for one in part] for part in (audit.neighbors, audit.flagged))
    spread = audit.spread
    chart = difficulty_chart(pd.DataFrame(rows), title=source.words, page=True)
    return Audit(
        # Streamlit would fit the title into the width of the square, and leave little of it.
        {**chart.to_dict(), "autosize": {"type": "pad"}},
        rows,
        flagged,
        audit.questions,
        (spread.shift.mean, spread.mean_low, spread.mean_high),
        (spread.shift.sd, spread.sd_low, spread.sd_high),
        spread.shift.at_bound,
    )


def _row(neighbor: "NeighborRow") -> Record:
    original = neighbor.original_correct / neighbor.original_known
    return {**asdict(neighbor), "rate": neighbor.rate, "original_rate": original}


def _distances(source: Source) -> Distances:
    from evaluator.signal.diversity import densities
    from evaluator.signal.diversity import diversity as measure
    from evaluator.signal.embeddings import make_embedder
    from ui.charts.densities import density_panel

    g, n = sources.shape(sources.load(source))
    groups = sources.texts(source, QUESTIONS)
    embedder = make_embedder(
        None, lambda: (text for group in groups for prompt in group.prompts.values() for text in prompt)
    )
    result = measure(source.words, groups, embedder, g, n)
    points = [asdict(row) for row in densities(result)]
    means = [
        {
            "series": name,
            "distance": estimate.value,
            "low": estimate.low,
            "high": estimate.high,
            "difference": result.differences[name].value if name in result.differences else None,
        }
        for name, estimate in result.means.items()
    ]
    title = source.words
    return Distances(
        density_panel(pd.DataFrame(points), title=title).to_dict() if points else None,
        points,
        means,
        f"{len(result.rows):,} questions (of up to {QUESTIONS} drawn), G = {g}, N = {n}; "
        f"{result.left_out:,} had too few responses. Intervals: 95%, for new questions.",
    )
