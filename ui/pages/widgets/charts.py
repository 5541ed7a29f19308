"""Charts on pages: in the browser's theme, with downloads of data and pictures."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import streamlit as st

from ui.charts import saving
from ui.charts.theme import darken
from ui.pages.state.database import keep
from ui.pages.widgets import layout, tables

Spec = dict[str, Any]
Clicked = Mapping[str, Any]
"""The fields of a clicked mark; empty if a click beside all marks ended the selection."""

PAGE_FONT = '"Source Sans", "Source Sans Pro", sans-serif'

_PADDING = {"left": 2, "top": 4, "right": 12, "bottom": 0}
"""Pixels around a chart on a page; a downloaded picture has more."""


def show_chart(
    spec: Spec,
    name: str,
    key: str,
    *,
    on_click: Callable[[Clicked], None] | None = None,
    rows: Sequence[Mapping[str, Any]] | None = None,
    alt: str = "",
) -> Clicked:
    """Show the specification of a chart, with downloads called `name`; return what was clicked.

    `on_click` is called after a click, before the page is drawn again. `rows` are the data to download.
    `alt` is the chart in words, by default its title. A chart whose key starts with "shape-"
    keeps its aspect ratio and shrinks on a narrow page.
    """
    drawn = darken(spec) if st.context.theme.type == "dark" else spec
    config, title = spec.get("config", {}), spec.get("title", "")
    padding = config.get("padding")
    padding = {**padding, "bottom": 0} if isinstance(padding, dict) else _PADDING
    look = {**drawn.get("config", {}), "font": PAGE_FONT, "padding": padding}
    text = title.get("text", "") if isinstance(title, dict) else title
    state = st.vega_lite_chart(
        spec={**drawn, "config": look},
        theme=None,
        width="content" if key.startswith("shape-") else "stretch",
        key=key,
        on_select="ignore" if on_click is None else lambda: on_click(_clicked(st.session_state[key])),
        alt=alt or (" ".join(text) if isinstance(text, list) else str(text)),
    )
    downloads = partial(_downloads, spec, name, key, rows)
    layout.folded("Download", f"download-{key}", downloads, icon=":material/download:")
    return {} if on_click is None else _clicked(state)


def _clicked(state: Any) -> Clicked:
    """Return the clicked mark in the state of a chart, which has at most one parameter."""
    return next((marks[0] for marks in state["selection"].values() if marks), {})


def draw_chart(
    make: Callable[..., Any],
    rows: Sequence[Any],
    name: str,
    key: str,
    *,
    on_click: Callable[[Clicked], None] | None = None,
    **options: Any,
) -> Clicked:
    """Show the chart that `make` returns for these rows, as by `show_chart`.

    It is cached: building one takes Altair some 20 ms, checking it against Vega-Lite's schema as much again.
    """
    cache_key = make.__module__, make.__qualname__, rows, sorted(options.items())
    spec = keep(cache_key, lambda: make(rows, **options).to_dict(validate=False))
    return show_chart(spec, name, key, on_click=on_click, rows=rows)


def _downloads(spec: Spec, name: str, key: str, rows: Sequence[Mapping[str, Any]] | None) -> None:
    """Show the downloads of a chart; the server draws a picture once it is asked for."""
    written = json.dumps(spec, sort_keys=True)
    if rows is not None:
        tables.download(name, rows, key=f"{key}-csv")
    for suffix, mime in ((".png", "image/png"), (".svg", "image/svg+xml")):
        st.download_button(
            suffix[1:].upper(),  # safe
            lambda suffix=suffix: _drawn(written, suffix),  # type: ignore[misc]
            file_name=f"{name}{suffix}",
            mime=mime,
            key=f"{key}-{suffix[1:]}",
            icon=":material/download:",
            type="tertiary",
            on_click="ignore",
        )


@lru_cache(maxsize=16)
def _drawn(written: str, suffix: str) -> bytes:
    return saving.draw(json.loads(written), suffix)
