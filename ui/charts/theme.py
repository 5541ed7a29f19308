"""How all charts look: one light theme that also prints, one palette, one way to say a share."""

from typing import Any

from evaluator.errors import InputError, PrerequisiteError

FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
"""The first one comes with vl-convert; it has Arial's widths, so labels stand alike in a browser."""

INK, MUTED, GRID = "#1f2430", "#5d6472", "#e6e8ec"

PALETTE = ("#0072b2", "#c34d1b", "#06956b", "#7d34ca", "#b98806", "#1c2027", "#1a97cf", "#a62047")
"""One colour a method, in this order: at least 3:1 on white, apart for colour-blind readers (tested)."""

TEXT_SIZE, LINE_HEIGHT = 11, 13
"""Of labels, in pixels."""

CONFIG: dict[str, Any] = {
    "background": "white",
    "font": FONT,
    "padding": 12,
    "view": {"stroke": None},
    "title": {
        "anchor": "start",
        "frame": "group",
        "color": INK,
        "fontSize": 15,
        "fontWeight": 600,
        "offset": 14,
        "subtitleColor": MUTED,
        "subtitleFontSize": 11.5,
        "subtitleLineHeight": 15,
        "subtitlePadding": 5,
    },
    "axis": {
        "domain": False,
        "ticks": False,
        "grid": True,
        "gridColor": GRID,
        "labelColor": MUTED,
        "labelFontSize": 11,
        "labelPadding": 6,
        "titleColor": INK,
        "titleFontSize": 11.5,
        "titleFontWeight": "normal",
        "titlePadding": 8,
    },
    "axisX": {"grid": False, "domain": True, "domainColor": "#b9bec8"},
    "line": {"strokeWidth": 2, "strokeCap": "round", "strokeJoin": "round"},
    "text": {"fontSize": TEXT_SIZE, "color": INK},
    "concat": {"spacing": 28},
}
PANEL_TITLE: dict[str, Any] = {
    "anchor": "start",
    "frame": "group",
    "fontSize": 12.5,
    "fontWeight": 600,
    "offset": 8,
    "subtitleFontSize": 10.5,
    "subtitlePadding": 3,
}


def altair() -> Any:
    """Return the altair package.

    Raises:
        PrerequisiteError: it is not installed.
    """
    try:
        import altair as package
    except ImportError as error:
        raise PrerequisiteError("charts need altair; install it with `pip install 'tagrpo[ui]'`.") from error
    return package


def themed(chart: Any) -> Any:
    """Return the finished chart in the house's theme; it can no longer be part of another chart."""
    return chart.configure(**CONFIG)


def colours(names: list[str]) -> dict[str, str]:
    """Return a colour for each name, in order.

    Raises:
        InputError: there are more names than colours that can be told apart.
    """
    if len(names) > len(PALETTE):
        raise InputError(
            f"{len(names)} lines are more than can be told apart; draw at most {len(PALETTE)} in one chart."
        )
    return dict(zip(names, PALETTE, strict=False))


def colour_by(field: str, palette: dict[str, str]) -> Any:
    """Return the encoding of a field's colours, without a legend: lines are labelled where they end."""
    alt = altair()
    return alt.Color(
        f"{field}:N", scale=alt.Scale(domain=list(palette), range=list(palette.values())), legend=None
    )
