"""How the policy moves: entropy, KL, gradient norms, drift of the anchor, covariances, any logged metric."""

from collections.abc import Mapping

import streamlit as st

from service.runs.store import Run
from ui.charts.theme import PALETTE
from ui.charts.training_steps import Scale
from ui.pages.training_signal import lines
from ui.pages.training_signal.lines import Line, Panel
from ui.pages.training_signal.runs import Chosen
from ui.pages.widgets import choices, layout
from ui.pages.widgets.documents import show_printed

METRICS: tuple[tuple[str, str, str, Scale], ...] = (
    ("tagrpo/entropy/mean", "Entropy", "nats per token", "linear"),
    ("tagrpo/kl/k3/mean", "KL divergence from the reference policy", "k3, nats per token", "linear"),
    ("actor/grad_norm", "Gradient norm", "norm", "linear"),
    ("tagrpo/correct/mean", "Correct responses", "share of responses", "share"),
    ("tagrpo/tokens/mean", "Response length", "tokens", "linear"),
    ("actor/pg_clipfrac", "Clipped tokens", "share of tokens", "share"),
)
DRIFT = (
    ("tagrpo/anchor/log_ratio_token", "nats per token"),
    ("tagrpo/anchor/log_ratio", "nats per response"),
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


def show(chosen: Chosen) -> None:
    """Show the charts of what was logged at each step, and say what was not."""
    panels = [
        Panel(name.replace("/", "-"), title, unit, scale, _method_lines(chosen, name))
        for name, title, unit, scale in METRICS
    ]
    lines.show([panel for panel in panels if panel.lines], 3, chosen)
    if absent := [panel.title for panel in panels if not panel.lines]:
        layout.caption(f"Not logged by these runs: {', '.join(absent)}.")


def show_metrics(chosen: Chosen) -> None:
    names = sorted({name for of_run in chosen.logged.values() for name in of_run})
    known = [metric for metric, *_ in METRICS if metric in names]
    metrics = choices.choose_several(
        st.multiselect,
        "Metrics",
        "metric",
        names,
        (known or names)[:_USUAL_METRICS],
        most=MOST_METRICS,
        placeholder="Choose from all logged metrics",
    )
    if not metrics:
        layout.caption(f"{len(names):,} metrics are logged. Choose up to {MOST_METRICS}.")
        return
    panels = [
        Panel(f"metric-{name.replace('/', '-')}", name, "as logged", "linear", _method_lines(chosen, name))
        for name in metrics
    ]
    lines.show(panels, min(len(panels), 2), chosen)


def _method_lines(chosen: Chosen, metric: str) -> tuple[Line, ...]:
    """Return a line for each group of runs, of those of its runs that have logged the metric."""
    groups = [
        (label, tuple(run for run in of_group if metric in chosen.logged[run]))
        for label, of_group in chosen.groups
    ]
    return tuple(Line(of_group, metric, label) for label, of_group in groups if of_group)


def show_anchor(chosen: Chosen) -> None:
    """Show how far the anchor is from the prompts that responses were drawn for, a chart for each run."""
    layout.section(
        "Anchoring drift",
        "log pi(o | anchor prompt) - log pi(o | sampled prompt), by prompt. Near 0, the anchor changes "
        "little. Far below 0, responses are unlikely under the question itself.",
    )
    panels = {}
    for run in chosen.runs:
        for metric, unit in DRIFT:
            names = {"original": f"{metric}/original"}
            names |= {f"neighbor {each}": f"{metric}/variant_{each}" for each in range(1, MOST_VARIANTS + 1)}
            drift = _run_lines(chosen, run, names)
            if drift and run.name not in panels:
                panels[run.name] = Panel(f"drift-{run.name}", run.name, unit, "linear", drift, zero_line=True)
    _show_each_run(chosen, panels, PROMPTS, 3 if len(panels) > 2 else 2)


def show_covariance(chosen: Chosen) -> None:
    """Show which covariances of log-prob and advantage are largest, a chart for each run."""
    layout.section(
        "Covariance of log-prob and advantage",
        "Mean over the tokens farthest from 0, by their share among tokens of the same sign (log scale). A "
        "few tokens with large positive covariance make entropy collapse.",
    )
    sign = choices.choose(st.segmented_control, "Sign", "sign", SIGNS)
    names = {f"top {share}%": f"tagrpo/covariance/{sign}/top_{share}" for share in SHARES}
    panels = {
        run.name: Panel(f"covariance-{sign}-{run.name}", run.name, f"magnitude, {sign}", "log", tops)
        for run in chosen.runs
        if (tops := _run_lines(chosen, run, names))
    }
    _show_each_run(chosen, panels, TOPS, 2)
    show_printed("covariance")


def _run_lines(chosen: Chosen, run: Run, names: Mapping[str, str]) -> tuple[Line, ...]:
    logged = [(label, name) for label, name in names.items() if name in chosen.logged[run.id]]
    return tuple(Line((run.id,), name, label) for label, name in logged)


def _show_each_run(
    chosen: Chosen, panels: Mapping[str, Panel], palette: Mapping[str, str], columns: int
) -> None:
    """Show a chart for each run that has one, by name, and say which have none."""
    lines.show(list(panels.values()), columns, chosen, palette=palette, level=True)
    if without := [run.name for run in chosen.runs if run.name not in panels]:
        layout.caption(f"Not logged by {', '.join(without)}.")
