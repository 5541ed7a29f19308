"""Small charts: dots with intervals, stacked bars, rates of reviews, difficulty, densities."""

from typing import Any

import pytest

from ui.charts.intervals import SET_APART, cost_points
from ui.charts.stacked_bars import VERDICT_COLOURS, stacked_bars

POINTS = [
    {"label": "a", "run": "a.x", "cost": 1000, "value": 0.5, "low": 0.4, "high": 0.6},
    {"label": "b", "run": "b.x", "cost": 1000, "value": 0.6, "low": 0.5, "high": 0.7},
    {"label": "c", "run": "c.x", "cost": 200, "value": 0.3, "low": 0.2, "high": 0.4},
]


def test_methods_of_one_cost_stand_beside_each_other_and_tell_the_true_cost():
    chart = cost_points(POINTS, title="T", x_title="responses", y_title="pass@32").to_dict()
    rows = next(iter(chart["datasets"].values())) if "datasets" in chart else chart["data"]["values"]
    places = [row["place"] for row in rows]
    assert places == pytest.approx([985, 1000, 215])
    assert [row["cost"] for row in rows] == [1000, 1000, 200]
    assert chart["title"]["subtitle"] == SET_APART
    alone = cost_points(POINTS[2:], title="T", x_title="responses", y_title="pass@32").to_dict()
    assert SET_APART not in str(alone)  # nothing was moved


PARTS = [
    {"name": "rename", "part": "rejected", "count": 1},
    {"name": "rename", "part": "accepted", "count": 2},
    {"name": "rename", "part": "accepted", "count": 1},
    {"name": "format", "part": "undecided", "count": 0},
]


def bars_of(rows):
    chart = stacked_bars(rows, title="T", colours=VERDICT_COLOURS, unit="candidates")
    return chart.to_dict()


def test_parts_are_added_and_stand_in_the_order_of_their_colours():
    bars, ends = bars_of(PARTS)["layer"]
    assert [(row["part"], row["count"], row["share"]) for row in bars["data"]["values"]] == [
        ("rejected", 1, 0.25),
        ("accepted", 3, 0.75),
    ]
    scale = bars["encoding"]["color"]["scale"]
    assert scale["domain"] == ["accepted", "rejected"]  # nothing is undecided or unverified
    assert scale["range"] == [VERDICT_COLOURS["accepted"], VERDICT_COLOURS["rejected"]]
    assert ends["data"]["values"] == [{"name": "rename", "sum": 4}, {"name": "format", "sum": 0}]


def values(layer: dict[str, Any]) -> list[dict[str, Any]]:
    return list(layer["data"]["values"])
