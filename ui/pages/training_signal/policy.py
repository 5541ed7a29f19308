"""How the policy moves: entropy, KL, gradient norms, drift of the anchor, covariances, any logged metric."""

from collections.abc import Mapping, Sequence

import streamlit as st

from ui.charts.theme import PALETTE
from ui.charts.training_steps import Scale
from ui.pages.text.markup import escaped
from ui.pages.training_signal import lines
from ui.pages.training_signal.lines import Line, Panel
from ui.pages.training_signal.runs import Chosen, Run, choose, join_seeds
from ui.pages.widgets import choices, layout
from ui.pages.widgets.documents import show_printed

METRICS: tuple[tuple[str, str, str, Scale], ...] = (
    ("tagrpo/entropy/mean", "Entropy", "nats a token", "linear"),
    ("tagrpo/kl/k3/mean", "KL divergence from the reference policy", "k3, nats per token", "linear"),
    ("actor/grad_norm", "Gradient norm", "norm", "linear"),
    ("tagrpo/correct/mean", "Correct responses", "share of responses", "share"),
    ("tagrpo/tokens/mean", "Response length", "tokens", "linear"),
    ("actor/pg_clipfrac", "Clipped tokens", "share of tokens", "share"),
)
DRIFT = (
    ("tagrpo/anchor/log_ratio_token", "nats a token"),
    ("tagrpo/anchor/log_ratio", "nats a response"),
)
MOST_VARIANTS = 6
MOST_METRICS, _USUAL_METRICS = 12, 2
SIGNS = ("positive", "negative")
SHARES = ("0.01", "1", "20", "40", "100")
_OTHERS = (5, 6, 7, 4, 3, 2, 1)  # of the palette: the first colours stand for methods
PROMPTS = dict(
    zip(
        ("original", *(f"neighbor {number}" for number in range(1, MOST_VARIANTS + 1))),
        (PALETTE[place] for place in _OTHERS),
        strict=True,
    )
)
TOPS = {f"top {share}%": PALETTE[place] for share, place in zip(SHARES, _OTHERS, strict=False)}


def show(runs: Sequence[Run]) -> None:
    """Show the charts of what was logged at each step, and say what was not."""
    chosen, logged = choose_logged(runs)
    if not logged:
        return
    there = [metric for metric in METRICS if any(metric[0] in names for names in logged.values())]
    panels = tuple(
        Panel(
            name.replace("/", "-"),
            title,
            unit,
            scale,
            method_lines(chosen, logged, name),
        )
        for name, title, unit, scale in there
    )
    _show_methods(panels, chosen, 3)
    absent = [title for name, title, _, _ in METRICS if name not in [metric[0] for metric in there]]
    if absent:
        st.caption(escaped(f"Not logged by these runs: {', '.join(absent)}."))


def show_metrics(runs: Sequence[Run]) -> None:
    chosen, logged = choose_logged(runs)
    if not logged:
        return
    names = sorted({name for of_run in logged.values() for name in of_run})
    known = [metric for metric, *_ in METRICS if metric in names]
    usual = (known or names)[:_USUAL_METRICS]
    metrics = choices.choose_several(
        st.multiselect,
        "Metrics",
        "metric",
        names,
        usual,
        most=MOST_METRICS,
        placeholder="Choose from all logged metrics",
    )
    if not metrics:
        st.caption(escaped(f"{len(names):,} metrics are logged. Choose up to {MOST_METRICS}."))
        return
    panels = tuple(
        Panel(
            f"metric-{name.replace('/', '-')}",
            name,
            "as logged",
            "linear",
            method_lines(chosen, logged, name),
        )
        for name in metrics
    )
    _show_methods(panels, chosen, min(len(panels), 2))


def _show_methods(panels: Sequence[Panel], chosen: Chosen, columns: int) -> None:
    by_name = {run.name: run.name for run in chosen.runs}
    lines.show(panels, columns, by_name, window=chosen.window, palette=chosen.palette, methods=chosen.methods)


def choose_logged(runs: Sequence[Run], *, seeds: bool = True) -> tuple[Chosen, dict[str, list[str]]]:
    """Show the choice of runs; return it, and what each run has logged, empty where there is nothing.

    `seeds`: offer to draw runs that differ only in their seed as one line.
    """
    chosen = choose(runs)
    if seeds:
        chosen = join_seeds(chosen)
    if not chosen.runs:
        layout.empty_state("No run selected.", "Choose one or more training runs above.")
        return chosen, {}
    logged = {run: lines.names_of(run) for run in chosen.ids}
    if any(logged.values()):
        return chosen, logged
    layout.empty_state(
        "These runs have no metrics.",
        "Training writes metrics to metrics.jsonl, next to the rollouts.",
    )
    return chosen, {}


def method_lines(chosen: Chosen, logged: dict[str, list[str]], metric: str) -> tuple[Line, ...]:
    """Return a line for each group of runs, of those of its runs that have logged the metric."""
    groups = [
        (label, tuple(run for run in of_group if metric in logged[run])) for label, of_group in chosen.groups
    ]
    return tuple(Line(of_group, metric, label) for label, of_group in groups if of_group)


def show_anchor(runs: Sequence[Run]) -> None:
    """Show how far the anchor is from the prompts that responses were drawn for, a chart for each run."""
    chosen, logged = choose_logged(runs, seeds=False)
    if not logged:
        return
    layout.section(
        "Anchoring drift",
        "log pi(o | anchor prompt) - log pi(o | sampled prompt), by prompt. Near 0, the anchor changes "
        "little. Far below 0, responses are unlikely under the question itself.",
    )
    panels = {run.name: panel for run in chosen.runs if (panel := _drift_panel(run, logged[run.id]))}
    _show_each_run(chosen, panels, PROMPTS, 3 if len(panels) > 2 else 2)


def _drift_panel(run: Run, names: list[str]) -> Panel | None:
    for metric, unit in DRIFT:
        variants = [f"{metric}/variant_{number}" for number in range(1, MOST_VARIANTS + 1)]
        drift = tuple(
            Line((run.id,), name, name.rsplit("/", 1)[1].replace("variant_", "neighbor "))
            for name in (f"{metric}/original", *variants)
            if name in names
        )
        if drift:
            return Panel(f"drift-{run.name}", run.name, unit, "linear", drift, zero_line=True)
    return None


def show_covariance(runs: Sequence[Run]) -> None:
    """Show which covariances of log-prob and advantage are largest, a chart for each run."""
    chosen, logged = choose_logged(runs, seeds=False)
    if not logged:
        return
    layout.section(
        "Covariance of log-prob and advantage",
        "Mean over the tokens farthest from 0, by their share among tokens of the same sign (log scale). A "
        "few tokens with large positive covariance make entropy collapse.",
    )
    sign = choices.choose(st.segmented_control, "Sign", "sign", SIGNS)
    panels = {}
    for run in chosen.runs:
        tops = tuple(
            Line((run.id,), name, f"top {share}%", magnitude=True)
            for share in SHARES
            if (name := f"tagrpo/covariance/{sign}/top_{share}") in logged[run.id]
        )
        if tops:
            name = f"covariance-{sign}-{run.name}"
            panels[run.name] = Panel(name, run.name, f"magnitude, {sign}", "log", tops)
    _show_each_run(chosen, panels, TOPS, 2)
    show_printed("covariance")


def _show_each_run(
    chosen: Chosen, panels: Mapping[str, Panel], palette: Mapping[str, str], columns: int
) -> None:
    """Show a chart for each run that has one, by name, and say which have none."""
    runs = {panel.name: name for name, panel in panels.items()}
    lines.show(list(panels.values()), columns, runs, window=chosen.window, palette=palette, level=True)
    without = [run.name for run in chosen.runs if run.name not in panels]
    if without:
        st.caption(escaped(f"Not logged by {', '.join(without)}."))
