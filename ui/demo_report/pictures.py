"""Pictures of a demo's report that no command draws: training curves, shares with intervals."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import altair as alt

from ui.charts.building import apply_theme
from ui.charts.drawing.panels import add_titles, dot_panels, line_panels, panel_size
from ui.charts.theme import colours

if TYPE_CHECKING:
    from ui.demo_report.findings import Trained

WINDOWS = 10
"""Points of a line: steps are averaged, since a step has few questions."""


def training_chart(runs: "Mapping[str, Trained]") -> dict[str, Any]:
    """Return success and groups without a gradient over the responses of trainings, by name."""
    wanted = (
        ("tagrpo/correct/mean", "Correct responses"),
        ("tagrpo/zero/group/share", "Groups without a gradient"),
    )
    palette, size = colours(list(runs)), panel_size(len(wanted))
    panels = [
        [row for label, trained in runs.items() for row in _windows(label, trained, metric)]
        for metric, _ in wanted
    ]
    last = max(trained.rollouts for trained in runs.values())
    tooltip = [
        alt.Tooltip("label:N"),
        alt.Tooltip("responses:Q", format=",.0f"),
        alt.Tooltip("value:Q", format=".1%"),
    ]

    def x(place: int) -> Any:
        return alt.X(
            "responses:Q",
            title="responses sampled" if place + size.columns >= len(panels) else None,
            scale=alt.Scale(domain=[0, last], nice=False),
            axis=alt.Axis(tickCount=size.x_ticks, tickMinStep=1, labelFlush=False),
        )

    drawn = line_panels(panels, palette, size, at="responses", x=x, y_title="share", tooltip=tooltip)
    chart = alt.concat(
        *add_titles(drawn, [title for _, title in wanted], ["" for _ in wanted]),
        columns=size.columns,
        spacing=28,
    ).properties(
        title=alt.TitleParams(
            "Training",
            subtitle="Responses sampled in training; each point is the mean of a tenth of the steps, or "
            "a single step",
        )
    )
    return dict(apply_theme(chart).to_dict())


def _windows(label: str, trained: "Trained", metric: str) -> list[dict[str, Any]]:
    steps = trained.steps
    width, a_step = max(1, round(len(steps) / WINDOWS)), trained.rollouts / max(1, len(steps))
    rows = []
    for start in range(0, len(steps), width):
        values = [step[metric] for step in steps[start : start + width] if metric in step]
        if values:
            mean = sum(values) / len(values)
            middle = a_step * (start + min(width, len(steps) - start) / 2)
            rows.append(
                {
                    "label": label,
                    "responses": middle,
                    "value": mean,
                    "value_high": mean,
                    "low": None,
                    "high": None,
                }
            )
    return rows


def share_chart(
    rows: Sequence[Mapping[str, Any]], *, title: str, subtitle: str, x_title: str
) -> dict[str, Any]:
    """Return shares with intervals, one below the other.

    Args:
        rows: label, share, low, high; at most eight.
    """
    palette = colours([str(row["label"]) for row in rows])
    drawn_rows = [{**row, "value": row["share"], "value_high": row["share"]} for row in rows]
    tooltip = [
        alt.Tooltip("label:N"),
        *(alt.Tooltip(f"{name}:Q", format=".1%") for name in ("share", "low", "high")),
    ]
    drawn = dot_panels([drawn_rows], palette, panel_size(1), x_title=x_title, tooltip=tooltip)
    chart = alt.concat(*drawn).properties(title=alt.TitleParams(title, subtitle=subtitle))
    return dict(apply_theme(chart).to_dict())
