"""Pages in Streamlit's test runner: opened at an address, read as their reader does."""

import html
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from ui.pages.server.serving import SCRIPT
from ui.pages.state import settings

TIMEOUT_S = 60


def open_page(name: str, path: Path | None = None, *, review: bool = False, **address: Any) -> AppTest:
    """Open a page over a database (None: the one in use) at an address; it must not fail."""
    if path is not None:
        settings.use(settings.PageSettings(path, review))
    app = AppTest.from_file(str(SCRIPT), default_timeout=TIMEOUT_S)
    app._page_hash = calc_hash(name if name != "overview" else "")
    for key, value in address.items():
        app.query_params[key] = value
    app.run()
    assert not app.exception
    return app


def said(app: AppTest) -> str:
    """Return what a page says in words, without the escapes."""
    kinds = (app.markdown, app.caption, app.error)
    words = "\n".join(one.value for kind in kinds for one in kind)
    words += "\n".join(html.unescape(body) for body in bodies(app) if "class='heading'" in body)
    return words.replace("\\", "").replace("\u2060", "")


def headings(app: AppTest) -> list[str]:
    """Return the headings of a page's sections."""
    return [html.unescape(heading) for body in bodies(app) for heading in re.findall("<h3>(.*?)</h3>", body)]


def bodies(app: AppTest) -> list[str]:
    """Return the parts of a page that are HTML."""
    return [one.proto.body for one in app.get("html")]


def charts(app: AppTest) -> list[Any]:
    """Return the charts of a page; `.spec` is the specification of each as JSON."""
    return [chart.proto for chart in app.get("vega_lite_chart")]


def numbers(app: AppTest) -> dict[str, str]:
    """Return the numbers of a page by their names."""
    parts = [re.findall("<span>(.*?)</span><b>(.*?)</b>", body) for body in bodies(app)]
    return {html.unescape(name): html.unescape(value) for part in parts for name, value in part}


def tables(app: AppTest) -> list[pd.DataFrame]:
    """Return the tables of a page, as the texts of their cells by heading."""
    held = [
        one.proto for one in app.get("bidi_component") if one.proto.component_name.endswith("tagrpo_table")
    ]
    said = [json.loads(one.json) for one in held]
    return [pd.DataFrame(one["rows"], columns=[name for name, *_ in one["head"]], dtype=str) for one in said]
