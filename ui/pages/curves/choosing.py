"""Which methods are compared, on which benchmarks, by which metric: read from the address."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st
from sqlalchemy.orm import Session

from evaluator.evals.overview import RunOverview
from evaluator.reports.choices import MethodChoice, method_choices
from evaluator.reports.published import in_order
from evaluator.reports.scores import INTERVALS
from ui.charts.theme import PALETTE
from ui.pages.state import links
from ui.pages.state.database import cached
from ui.pages.text.markup import escaped
from ui.pages.widgets import layout
from ui.pages.widgets.methods import colours_of, evaluated_methods, training_methods

METRICS = ("pass@k", "pass^k", "g-pass@k", "maj@k")
WITH_SAME = ("pass@k", "pass^k")
INTERVAL_NAMES = tuple(INTERVALS)
USUAL_METHODS = 6


@dataclass(frozen=True)
class Choice:
    """What is shown.

    `palette` holds the colour of every method chosen; `references` are those of `load_methods`, by label.
    """

    methods: tuple[MethodChoice, ...]
    benchmarks: tuple[str, ...]
    metric: str
    interval: str
    palette: tuple[tuple[str, str], ...]

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(one.label for one in self.methods)

    @property
    def references(self) -> tuple[str, ...]:
        return tuple(reference for one in self.methods for reference in one.references(self.benchmarks))

    def references_of(self, label: str) -> tuple[str, ...]:
        """Return the references of one method."""
        return next(one.references(self.benchmarks) for one in self.methods if one.label == label)

    def shares(self, label: str) -> tuple[str, ...]:
        """Return the other methods that were measured on a benchmark of this one."""
        mine = next(set(one.benchmarks) for one in self.methods if one.label == label) & set(self.benchmarks)
        return tuple(one.label for one in self.methods if one.label != label and mine & set(one.benchmarks))

    def run(self, label: str, benchmark: str) -> RunOverview | None:
        """Return the run of a method on a benchmark, None where there is none."""
        found = (one for method in self.methods if method.label == label for one in method.runs)
        return next((one for one in found if one.run.spec["problems"] == benchmark), None)


@cached
def read_methods(session: Session) -> list[MethodChoice]:
    """Return all methods that were evaluated."""
    return method_choices(session)


def palette_of(found: Sequence[MethodChoice], chosen: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return a colour for each chosen method: that of its recipe on the pages of training."""
    trainings = training_methods()
    models = {one.label: str(one.runs[0].run.spec["model"]) for one in found if one.runs}
    return tuple(colours_of(chosen, evaluated_methods(models, trainings), trainings).items())


def usual_methods(ready: Sequence[str]) -> list[str]:
    """Return the methods shown at first: the oldest, mostly the base model, and the newest ones."""
    if len(ready) <= USUAL_METHODS:
        return list(ready)
    return [ready[0], *ready[len(ready) - USUAL_METHODS + 1 :]]


def choose(found: list[MethodChoice]) -> Choice | None:
    """Show the widgets and return what they say; None where nothing is chosen."""
    ready = {one.label: one for one in found if one.runs}
    usual = usual_methods(list(ready))
    picked = st.multiselect(
        "Methods",
        list(ready),
        max_selections=len(PALETTE),
        placeholder="Choose methods to compare",
        **links.bound(
            "run",
            lambda: list(links.many("run", list(ready)))[: len(PALETTE)] or usual,
            lambda chosen: None if chosen == usual else chosen,
            resets=["of", "against", "point", "problem", "after", "which"],
            pinned=True,
        ),
    )
    if asked := links.unknown("run", list(ready)):
        layout.note(f"Not evaluated in this database, or not graded yet: {asked}.")
    methods = tuple(one for label, one in ready.items() if label in picked)
    absent = [asked for name in ("of", "against") if (asked := links.unknown(name, picked))]
    if absent and methods:
        layout.note(f"Not among the methods above: {', '.join(absent)}; others are compared.")
    benchmarks = in_order(dict.fromkeys(name for one in methods for name in one.benchmarks))
    if not methods:
        return None
    with layout.row():
        metric, interval, shown = _settings(benchmarks)
        say_not_ready(found)
    return Choice(methods, tuple(shown), metric, interval, palette_of(found, [one.label for one in methods]))


def _settings(benchmarks: Sequence[str]) -> tuple[str, str, list[str]]:
    metric = links.choice("metric", METRICS, METRICS[0])
    interval = links.choice("interval", INTERVAL_NAMES, INTERVAL_NAMES[0])
    interval = interval if metric in WITH_SAME else INTERVAL_NAMES[0]
    shown = [name for name in links.many("on") if name in benchmarks] or list(benchmarks)
    said = f"{metric}, intervals for {INTERVALS[interval]}"
    if len(shown) < len(benchmarks):
        said += f", {len(shown)} of {len(benchmarks)} benchmarks"
    with st.popover(escaped(said), icon=":material/tune:"):
        st.pills(
            "Benchmarks",
            benchmarks,
            selection_mode="multi",
            **links.bound(
                "on",
                lambda: [name for name in links.many("on") if name in benchmarks] or list(benchmarks),
                lambda chosen: None if set(chosen) == set(benchmarks) else list(chosen),
            ),
        )
        st.segmented_control(
            "Metric",
            METRICS,
            required=True,
            help="pass@k: at least one of k samples is right; pass^k: all are; g-pass@k: half of them; "
            "maj@k: the most frequent answer is.",
            **links.bound(
                "metric",
                lambda: links.choice("metric", METRICS, METRICS[0]),
                lambda one: None if one == METRICS[0] else one,
                resets=["made"],
            ),
        )
        if metric in WITH_SAME:
            st.radio(
                "Intervals answer",
                INTERVAL_NAMES,
                format_func=lambda one: {
                    "new-problems": "How would it do on other problems like these?",
                    "same-problems": "What are the chances on exactly these problems?",
                }[one],
                **links.bound(
                    "interval",
                    lambda: links.choice("interval", INTERVAL_NAMES, INTERVAL_NAMES[0]),
                    lambda one: None if one == INTERVAL_NAMES[0] else one,
                ),
            )
    return metric, interval, shown


def say_not_ready(found: Sequence[MethodChoice]) -> None:
    """Name the runs that cannot be shown, and the command that grades them."""
    names = [name for one in found for name in one.not_ready]
    if names:
        said = "1 run is not graded" if len(names) == 1 else f"{len(names)} runs are not graded"
        with layout.folded(f"{said} yet", icon=":material/hourglass_empty:"):
            for name in names[:20]:
                st.code(f"tagrpo eval grade {name}", language=None)
