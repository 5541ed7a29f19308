"""Theme of charts and pages: a light one that also prints, a dark one, one palette in both."""

from collections.abc import Mapping
from typing import Any, Literal

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
    """Return a finished chart's specification for the dark background; data and other colours stay."""
    if isinstance(spec, dict):
        return {key: value if key in ("data", "datasets") else darken(value) for key, value in spec.items()}
    if isinstance(spec, list):
        return [darken(value) for value in spec]
    return _DARK.get(spec, spec) if isinstance(spec, str) else spec


def colours(names: list[str], palette: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a colour for each name: of the palette, or in order if there are not too many to distinguish."""
    if palette:
        return {name: palette[name] for name in names}
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

_OWN_COLOURS = {  # `primary` is also the background of white text: chosen methods, buttons
    "light": {"primary": PALETTE[0], "border": "#dfe2e8", "field": "#f5f6f8", "side": "#f8f9fb"},
    "dark": {"primary": "#1a80b6", "border": "#2d333f", "field": "#1c2028", "side": "#101318"},
}


def page_colours(mode: Literal["light", "dark"]) -> dict[str, object]:
    """Return the colours of the pages by the names of Streamlit's options."""
    own, shared = _OWN_COLOURS[mode], _DARK if mode == "dark" else {}
    fields = ("secondaryBackgroundColor", "dataframeHeaderBackgroundColor", "codeBackgroundColor")
    return {
        **{name: shared.get(colour, colour) for name, colour in _PAGE_COLOURS.items()},
        "primaryColor": own["primary"],
        "borderColor": own["border"],
        **dict.fromkeys(fields, own["field"]),
        "sidebar.backgroundColor": own["side"],
        "chartCategoricalColors": [shared.get(colour, colour) for colour in PALETTE],
    }


def page_theme() -> dict[str, object]:
    """Return the pages' theme as Streamlit's options; its fonts come with Streamlit, so none is fetched."""
    options: dict[str, object] = {
        "font": "sans-serif",
        "codeFont": "monospace",
        "baseFontSize": 15,
        "headingFontSizes": ["1.7rem", "1.25rem", "1.05rem", "1rem", "0.95rem", "0.9rem"],
        "headingFontWeights": [600] * 6,
        "metricValueFontSize": "1.55rem",
        "metricValueFontWeight": 500,
        "codeFontSize": "0.85rem",
        "baseRadius": "6px",
        "paddingTop": "2.5rem",
        "showSidebarBorder": True,
        "showWidgetBorder": True,
        **{f"light.{name}": colour for name, colour in page_colours("light").items()},
        **{f"dark.{name}": colour for name, colour in page_colours("dark").items()},
    }
    return {f"theme.{name}": value for name, value in options.items()}
