"""Rates with intervals: rows in order, one scale for dots and bars."""

import pytest

pytest.importorskip("altair")

import pandas as pd

from service.errors import InputError
from ui.charts.rate_dots import rate_dots


def test_rows_keep_their_order_and_the_scale_holds_all_intervals():
    rows = [
        {"name": "rename", "rate": 0.5, "low": 0.31, "high": 0.69, "of": 20},
        {"name": "all", "rate": 0.6, "low": 0.52, "high": 0.68, "of": 120},
    ]
    bars, dots = rate_dots(pd.DataFrame(rows), title="T", x_title="accepted").to_dict()["layer"]
    assert dots["encoding"]["y"]["scale"]["domain"] == ["rename", "all"]
    low, high = dots["encoding"]["x"]["scale"]["domain"]
    assert low <= 0.31
    assert high >= 0.69
    assert bars["encoding"]["x"]["scale"] == dots["encoding"]["x"]["scale"]


def test_a_share_beyond_one_is_refused():
    with pytest.raises(InputError):
        rate_dots(
            pd.DataFrame([{"name": "a", "rate": 1.5, "low": 0, "high": 1, "of": 1}]), title="T", x_title="x"
        )
