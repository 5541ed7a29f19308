"""Charts on pages: in the browser's theme, with downloads of data and pictures."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import streamlit as st

from ui.charts import saving
from ui.charts.theme import darken
from ui.pages.state.results import keep
from ui.pages.widgets import tables

Spec = dict[str, Any]

PAGE_FONT = '"Source Sans", "Source Sans Pro", sans-serif'

_PADDING = {"left": 2, "top": 4, "right": 12, "bottom": 0}
"""Pixels around a chart on a page; a downloaded picture has more."""


def show_chart(
    chart: Any,
    name: str,
    key: str,
    *,
    on_select: Callable[[], None] | None = None,
    rows: Sequence[Mapping[str, Any]] | None = None,
    alt: str | None = None,
    stretch: bool = True,
) -> Any:
    """Show a chart of `ui.charts` or its specification, with downloads; return the selection.

    Panels side by side scroll on a narrow page; one with `stretch=False` shrinks (see the style in `layout`).

    Args:
        name: of the downloaded files, without ending.
        on_select: called after a click; `st.session_state[key]` holds the selection.
        rows: the data to download; None for no CSV.
        alt: the chart in words, for screen readers; by default its title.
        stretch: let a single-panel chart fill its width; False if its aspect ratio matters.
    """
    spec: Spec = chart if isinstance(chart, dict) else chart.to_dict()
    drawn = darken(spec) if st.context.theme.type == "dark" else spec
    config, title = spec.get("config", {}), spec.get("title", "")
    padding = config.get("padding")
    padding = {**padding, "bottom": 0} if isinstance(padding, dict) else _PADDING
    look = {**drawn.get("config", {}), "font": PAGE_FONT, "padding": padding}
    text = title.get("text", "") if isinstance(title, dict) else title
    side_by_side = any(part in spec for part in ("concat", "hconcat", "vconcat", "facet", "repeat"))
    with st.container(key=f"{'chart' if stretch else 'shape'}-{key}", gap="xxsmall"):
        state = st.vega_lite_chart(
            spec={**drawn, "config": look},
            theme=None,
            width="stretch" if stretch and not side_by_side else "content",
            key=key,
            on_select=on_select or "ignore",
            alt=alt or (" ".join(text) if isinstance(text, list) else str(text)),
        )
        _downloads(spec, name, key, rows)
    return state


def cached_chart(make: Callable[..., Any], rows: Sequence[Any], **options: Any) -> Spec:
    """Return the specification of the chart that `make` returns, cached by its rows.

    Building one takes Altair some 20 ms of CPU, and a page is drawn again at every click. Checking it against
    Vega-Lite's schema would double that; the tests do.
    """
    key = make.__module__, make.__qualname__, rows, sorted(options.items())
    return keep(key, lambda: make(rows, **options).to_dict(validate=False))


def _downloads(spec: Spec, name: str, key: str, rows: Sequence[Mapping[str, Any]] | None) -> None:
    """Show one button per chart; the browser draws its content once it is pressed."""
    written = json.dumps(spec, sort_keys=True)
    with st.popover("Download", icon=":material/download:", type="tertiary"):
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
