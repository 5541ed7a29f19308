"""Dots with intervals: rates by name, scores over cost, paired differences over k."""

import pytest

from ui.charts.intervals import SET_APART, cost_points, difference_chart, rate_dots

POINTS = [
    {"label": "a", "run": "a.x", "cost": 1000, "value": 0.5, "low": 0.4, "high": 0.6},
    {"label": "b", "run": "b.x", "cost": 1000, "value": 0.6, "low": 0.5, "high": 0.7},
    {"label": "c", "run": "c.x", "cost": 200, "value": 0.3, "low": 0.2, "high": 0.4},
]


def test_methods_of_one_cost_stand_beside_each_other_and_tell_the_true_cost():
    chart = cost_points(POINTS, title="T", x_title="responses", y_title="pass@32").to_dict()
    rows = next(iter(chart["datasets"].values())) if "datasets" in chart else chart["data"]["values"]
    places = {row["label"]: row["place"] for row in rows}
    assert places["a"] < 1000 < places["b"]
    assert places["a"] + places["b"] == pytest.approx(2000)
    assert places["c"] == 200
    assert [row["cost"] for row in rows] == [1000, 1000, 200]
    assert chart["title"]["subtitle"] == SET_APART
    alone = cost_points(POINTS[1:], title="T", x_title="responses", y_title="pass@32").to_dict()
    assert SET_APART not in str(alone)  # nothing was moved


def test_differences_are_drawn_in_points_around_zero():
    rows = [
        {"k": k, "difference": 0.1, "low": -0.05, "high": 0.25, "wins": 3, "losses": 1, "benchmark": "b"}
        for k in (1, 2, 4)
    ]
    chart = difference_chart(rows, title="b", reach=0.5).to_dict()
    dots = chart["layer"][2]
    assert dots["encoding"]["y"]["scale"]["domain"] == [-52.5, 52.5]
    assert dots["encoding"]["x"]["axis"]["values"] == [1, 2, 4]


def test_rows_keep_their_order_and_the_scale_holds_all_intervals():
    rows = [
        {"name": "rename", "rate": 0.5, "low": 0.31, "high": 0.69, "of": 20},
        {"name": "all", "rate": 0.6, "low": 0.52, "high": 0.68, "of": 120},
    ]
    bars, dots = rate_dots(rows, title="T", x_title="accepted").to_dict()["layer"]
    assert dots["encoding"]["y"]["scale"]["domain"] == ["rename", "all"]
    low, high = dots["encoding"]["x"]["scale"]["domain"]
    assert low <= 0.31
    assert high >= 0.69
    assert bars["encoding"]["x"]["scale"] == dots["encoding"]["x"]["scale"]
