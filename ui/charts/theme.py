"""Theme of charts and pages: a light one that also prints, a dark one, one palette in both."""

from typing import Any

from service.errors import InputError

FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
"""The first font comes with vl-convert and has Arial's widths, so labels look the same in a browser."""

INK, MUTED, GRID, RULE = "#1f2430", "#5d6472", "#e6e8ec", "#b9bec8"

PALETTE = ("#0072b2", "#c34d1b", "#06956b", "#7d34ca", "#b98806", "#1c2027", "#1a97cf", "#a62047")
"""One colour per method, in order: contrast at least 3:1 on white, safe for colour-blind readers (tested)."""

DARK_PALETTE = ("#26b3eb", "#de7f50", "#22dd9a", "#9a60e8", "#dfcb45", "#e9ebee", "#63cae4", "#d64b7b")
"""The same methods on the dark background: contrast at least 3:1, safe for colour-blind readers (tested)."""

PAPER, DARK_PAPER = "#ffffff", "#14171d"

TEXT_SIZE, LINE_HEIGHT = 11, 13
"""Font size of labels, in pixels."""

CONFIG: dict[str, Any] = {
    "background": "white",  # the only place for this word: `darken` looks for it
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
    "axisX": {"grid": False, "domain": True, "domainColor": RULE},
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


_DARK: dict[str, str] = {
    "white": DARK_PAPER,
    PAPER: DARK_PAPER,
    INK: "#e6e8ee",
    MUTED: "#9ba3b2",
    GRID: "#272c36",
    RULE: "#4a5160",
    **dict(zip(PALETTE, DARK_PALETTE, strict=True)),
}


def darken(spec: Any) -> Any:
    """Return a finished chart's specification (`chart.to_dict()`) for the dark background.

    Every colour of the light theme is replaced by its dark partner; data and other colours stay. The argument
    is not changed.
    """
    if isinstance(spec, dict):
        return {key: value if key in ("data", "datasets") else darken(value) for key, value in spec.items()}
    if isinstance(spec, list):
        return [darken(value) for value in spec]
    return _DARK.get(spec, spec) if isinstance(spec, str) else spec


def colours(names: list[str]) -> dict[str, str]:
    """Return a colour for each name, in order.

    Raises:
        InputError: there are more names than distinguishable colours.
    """
    if len(names) > len(PALETTE):
        raise InputError(
            f"{len(names)} lines are too many to distinguish. Draw at most {len(PALETTE)} in one chart."
        )
    return dict(zip(names, PALETTE, strict=False))


_PAGE_COLOURS = {
    "backgroundColor": PAPER,
    "textColor": INK,
    "linkColor": PALETTE[0],
    "dataframeBorderColor": GRID,
    "blueColor": PALETTE[0],
    "orangeColor": PALETTE[1],
    "greenColor": PALETTE[2],
    "violetColor": PALETTE[3],
    "yellowColor": PALETTE[4],
    "redColor": PALETTE[7],
    "grayColor": MUTED,
}
"""Colours that pages share with charts."""

_LIGHT_PAGE = {"primary": PALETTE[0], "border": "#dfe2e8", "field": "#f5f6f8", "side": "#f8f9fb"}
_DARK_PAGE = {"primary": "#1a80b6", "border": "#2d333f", "field": "#1c2028", "side": "#101318"}
"""`primary` is also the background of white text: chosen methods, buttons."""


def page_theme() -> dict[str, object]:
    """Return the pages' theme as Streamlit's options; its fonts come with Streamlit, so none is fetched."""
    options: dict[str, object] = {
        "theme.font": "sans-serif",
        "theme.codeFont": "monospace",
        "theme.baseFontSize": 15,
        "theme.headingFontSizes": ["1.7rem", "1.25rem", "1.05rem", "1rem", "0.95rem", "0.9rem"],
        "theme.headingFontWeights": [600, 600, 600, 600, 600, 600],
        "theme.metricValueFontSize": "1.55rem",
        "theme.metricValueFontWeight": 500,
        "theme.codeFontSize": "0.85rem",
        "theme.baseRadius": "6px",
        "theme.paddingTop": "2.5rem",
        "theme.showSidebarBorder": True,
        "theme.showWidgetBorder": True,
    }
    for mode, own, shared in (("light", _LIGHT_PAGE, {}), ("dark", _DARK_PAGE, _DARK)):
        colours = {name: shared.get(colour, colour) for name, colour in _PAGE_COLOURS.items()}
        colours |= {"primaryColor": own["primary"], "borderColor": own["border"]}
        fields = ("secondaryBackgroundColor", "dataframeHeaderBackgroundColor", "codeBackgroundColor")
        colours |= dict.fromkeys(fields, own["field"]) | {"sidebar.backgroundColor": own["side"]}
        options.update({f"theme.{mode}.{name}": colour for name, colour in colours.items()})
        options[f"theme.{mode}.chartCategoricalColors"] = [shared.get(colour, colour) for colour in PALETTE]
    return options
