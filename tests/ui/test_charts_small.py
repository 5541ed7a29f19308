"""Small charts: dots with intervals, stacked bars, rates of reviews, difficulty, densities."""

from typing import Any

import pytest

from rephraser.reviews.rates import GrowingRate
from ui.charts.diagnosis import density_panel, difficulty_chart
from ui.charts.intervals import SET_APART, cost_points, difference_chart, false_accept_chart
from ui.charts.stacked_bars import VERDICT_COLOURS, stacked_bars
from ui.charts.theme import PALETTE

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


def test_differences_are_drawn_in_points_around_zero():
    rows = [
        {"k": k, "difference": 0.1, "low": -0.05, "high": 0.25, "wins": 3, "losses": 1, "benchmark": "b"}
        for k in (1, 2, 4)
    ]
    chart = difference_chart(rows, title="b", reach=0.5).to_dict()
    dots = chart["layer"][2]
    assert dots["encoding"]["y"]["scale"]["domain"] == [-52.5, 52.5]
    assert dots["encoding"]["x"]["axis"]["values"] == [1, 2, 4]


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


RATES = [
    GrowingRate(1, 0, 0.0, 0.0, 0.975),
    GrowingRate(2, 1, 0.5, 0.013, 0.987),
    GrowingRate(2, 0, 0.0, 0.0, 0.842),
]


def test_the_last_point_of_each_number_is_drawn():
    spec = false_accept_chart(RATES).to_dict()
    band = spec["layer"][0]
    assert [(row["reviewed"], row["rejected"]) for row in band["data"]["values"]] == [(1, 0), (2, 0)]
    assert "0.0%, 95% interval 0.0% to 84.2%, from 2 candidates" in spec["title"]["subtitle"]


def neighbor(correct: int, original: int, flag: str | None = None, **changes: Any) -> dict[str, Any]:
    row = {"group_id": "q_1", "correct": correct, "known": 8, "original_correct": original}
    return row | {"original_known": 8, "flag": flag} | changes


def values(layer: dict[str, Any]) -> list[dict[str, Any]]:
    return list(layer["data"]["values"])


def test_difficulty_shows_equal_places_as_one_larger_circle() -> None:
    rows = [
        neighbor(4, 2),
        neighbor(4, 2),
        neighbor(8, 0, "too easy"),
        neighbor(0, 8, "too hard", group_id="q_2"),
    ]
    spec = difficulty_chart(rows).to_dict()
    diagonal, circles = spec["layer"]
    assert [(row["original"], row["neighbor"]) for row in values(diagonal)] == [(0, 0), (1, 1)]
    places = {(row["original"], row["neighbor"]): row for row in values(circles)}
    assert places[0.25, 0.5]["neighbors"] == 2
    assert places[0.25, 0.5]["area"] == 2 * places[0, 1]["area"]
    assert places[1, 0]["flag"] == "too hard"
    assert circles["encoding"]["color"]["scale"]["range"] == [PALETTE[0], PALETTE[1], PALETTE[3]]
    assert spec["title"]["subtitle"] == [
        "4 neighbors of 2 questions",
        "Mean difference +12.5 points",
        "above the dashed line: easier than the original, below: harder",
        "1 flagged too easy, 1 flagged too hard",
    ]


def test_densities_are_overlaid_by_series() -> None:
    points = [
        {"series": series, "distance": x / 10, "density": height * x * (10 - x)}
        for series, height in (("original", 1.0), ("neighbors", 2.0))
        for x in range(11)
    ]
    spec = density_panel(points, title="step 200").to_dict()
    assert spec["title"]["text"] == "step 200"
    area, line = spec["layer"]
    assert area["encoding"]["y"]["stack"] is None
    assert line["encoding"]["color"]["scale"]["domain"] == ["original", "neighbors"]
    assert len(spec["data"]["values"]) == 22
