"""Choice of methods, benchmarks and metric: read from the address."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from evaluator.evals.overview import RunOverview
from evaluator.reports.methods import MethodChoice, method_choices
from evaluator.reports.published import in_order
from evaluator.reports.report import INTERVALS, METRICS, PASS_AT_K, PASS_HAT_K
from trainer_adapter.record.series import trained_checkpoint
from ui.charts.theme import PALETTE
from ui.charts.training_steps import method_colours
from ui.pages.state import links, settings
from ui.pages.state.database import cached
from ui.pages.state.records import list_trainings, method_of
from ui.pages.text.markup import escaped
from ui.pages.widgets import layout
from ui.pages.widgets.choices import choose, choose_several, note_absent

WITH_SAME = (PASS_AT_K, PASS_HAT_K)
INTERVAL_NAMES = tuple(INTERVALS)
INTERVAL_QUESTIONS = {
    "new-problems": "Expected scores on other, similar problems",
    "same-problems": "Expected scores on exactly these problems",
}
DEFAULT_METHODS = 6
POINT_PARAMETERS = ("problem", "after", "which")
"""Parameters to reset when another point is chosen."""


@dataclass(frozen=True)
class CurveChoice:
    """The displayed choice: methods by label, with their colours."""

    methods: dict[str, MethodChoice]
    benchmarks: tuple[str, ...]
    metric: str
    interval: str
    palette: dict[str, str]

    @property
    def labels(self) -> list[str]:
        return list(self.methods)

    def references(self, *labels: str) -> tuple[str, ...]:
        """Return what `load_methods` takes for these methods; for all if none is named."""
        methods = [self.methods[label] for label in labels or self.labels]
        return tuple(reference for method in methods for reference in method.references(self.benchmarks))

    def shared(self, label: str) -> dict[str, int]:
        """Return the other methods, with how many of the benchmarks they share with this one."""
        on = {name: set(method.benchmarks) & set(self.benchmarks) for name, method in self.methods.items()}
        return {other: len(on[label] & on[other]) for other in on if other != label and on[label] & on[other]}


read_methods = cached(method_choices)


def sampled_runs(evaluated: Sequence[MethodChoice]) -> dict[str, dict[str, RunOverview]]:
    """Return all runs with samples by method and benchmark; further runs under their own name."""
    runs: dict[str, dict[str, RunOverview]] = {}
    for method in evaluated:
        for overview in (*method.runs, *(run for run in method.not_ready if run.samples)):
            benchmark = overview.benchmark
            taken = benchmark in runs.get(method.label, {})
            runs.setdefault(overview.run.name if taken else method.label, {})[benchmark] = overview
    return runs


def place_of(run_id: str) -> tuple[str, str, bool] | None:
    """Return a run's method and benchmark, and whether it has a curve; None if it has no samples."""
    evaluated = read_methods()
    graded = {run.run.id for method in evaluated for run in method.runs}
    places = (
        (label, benchmark, run_id in graded)
        for label, runs in sampled_runs(evaluated).items()
        for benchmark, overview in runs.items()
        if overview.run.id == run_id
    )
    return next(places, None)


def choose_methods(evaluated: list[MethodChoice]) -> CurveChoice | None:
    ready = {method.label: method for method in evaluated if method.runs}
    usual = list(ready)
    if len(usual) > DEFAULT_METHODS:  # the oldest, usually the base model, and the newest ones
        usual = [usual[0], *usual[1 - DEFAULT_METHODS :]]
    picked = choose_several(
        st.multiselect,
        "Methods",
        "run",
        list(ready),
        usual,
        most=len(PALETTE),
        placeholder="Choose methods to compare",
        resets=["of", "against", "point", *POINT_PARAMETERS],
    )
    note_absent("run", list(ready), "graded evaluation of", "the methods above")
    methods = {label: method for label, method in ready.items() if label in picked}
    if not methods:
        return None
    if len(methods) < len(ready):
        st.caption(f"{len(methods)} of {len(ready)} methods")
    benchmarks = in_order(dict.fromkeys(name for method in methods.values() for name in method.benchmarks))
    metric = links.choice("metric", METRICS, METRICS[0])
    interval = links.choice("interval", INTERVAL_NAMES, INTERVAL_NAMES[0])
    interval = interval if metric in WITH_SAME else INTERVAL_NAMES[0]
    on = links.values("on", benchmarks) or benchmarks
    summary = f"{metric}, intervals for {INTERVALS[interval]}"
    if len(on) < len(benchmarks):
        summary += f", {len(on)} of {len(benchmarks)} benchmarks"
    with layout.row():
        with st.popover(escaped(summary), icon=":material/tune:"):
            choose_several(st.pills, "Benchmarks", "on", benchmarks, benchmarks)
            choose(
                st.segmented_control,
                "Metric",
                "metric",
                METRICS,
                label_visibility="visible",
                help="pass@k: at least one of k samples is correct. pass^k: all are. g-pass@k: at least half "
                "are. maj@k: the most frequent answer is.",
                resets=["made"],
            )
            if metric in WITH_SAME:
                words = INTERVAL_QUESTIONS.__getitem__
                choose(st.radio, "Intervals for", "interval", INTERVAL_NAMES, words=words)
        show_ungraded(evaluated)
    # A label is linked to a training by its checkpoint's path or, if that does not match, by its name.
    trainings = {each.run.name: method_of(each) for each in list_trainings()}
    by_label = {}
    for label, method in ready.items():
        checkpoint = trained_checkpoint(str(method.runs[0].run.spec["model"]), list(trainings))
        by_label[label] = trainings.get(checkpoint[0] if checkpoint else label, label)
    every = [*trainings.values(), *by_label.values()]
    colours = method_colours({label: by_label[label] for label in methods}, every)
    return CurveChoice(methods, tuple(on), metric, interval, colours)


def show_ungraded(evaluated: Sequence[MethodChoice]) -> None:
    names = [overview.run.name for method in evaluated for overview in method.not_ready]

    def commands() -> None:
        for name in names[:20]:
            st.code(settings.command(f"eval score {name}"), language=None)

    if names:
        words = "1 run is not graded" if len(names) == 1 else f"{len(names)} runs are not graded"
        layout.folded(f"{words} yet", "ungraded", commands, icon=":material/hourglass_empty:")
