"""Scores over cost, paired differences over k, and curves as charts of their own."""

import pytest

pytest.importorskip("altair")

import pandas as pd

from service.errors import InputError
from ui.charts.cost_points import SET_APART, cost_points
from ui.charts.eval_curves import POINT, panel_charts
from ui.charts.paired_differences import difference_chart

POINTS = [
    {"label": "a", "run": "a.x", "cost": 1000, "value": 0.5, "low": 0.4, "high": 0.6},
    {"label": "b", "run": "b.x", "cost": 1000, "value": 0.6, "low": 0.5, "high": 0.7},
    {"label": "c", "run": "c.x", "cost": 200, "value": 0.3, "low": 0.2, "high": 0.4},
]


def test_methods_of_one_cost_stand_beside_each_other_and_tell_the_true_cost():
    chart = cost_points(pd.DataFrame(POINTS), title="T", x_title="responses", y_title="pass@32").to_dict()
    rows = next(iter(chart["datasets"].values())) if "datasets" in chart else chart["data"]["values"]
    places = {row["label"]: row["place"] for row in rows}
    assert places["a"] < 1000 < places["b"]
    assert places["a"] + places["b"] == pytest.approx(2000)
    assert places["c"] == 200
    assert [row["cost"] for row in rows] == [1000, 1000, 200]
    assert chart["title"]["subtitle"] == SET_APART
    alone = cost_points(pd.DataFrame(POINTS[1:]), title="T", x_title="responses", y_title="pass@32").to_dict()
    assert SET_APART not in str(alone)  # nothing was moved


def test_differences_are_drawn_in_points_around_zero():
    rows = [
        {"k": k, "difference": 0.1, "low": -0.05, "high": 0.25, "wins": 3, "losses": 1, "benchmark": "b"}
        for k in (1, 2, 4)
    ]
    chart = difference_chart(pd.DataFrame(rows), title="b", reach=0.5).to_dict()
    dots = chart["layer"][2]
    assert dots["encoding"]["y"]["scale"]["domain"] == [-52.5, 52.5]
    assert dots["encoding"]["x"]["axis"]["values"] == [1, 2, 4]
    with pytest.raises(InputError):
        difference_chart(pd.DataFrame(rows).drop(columns="low"), title="b")


def curves(ks=(1, 2, 4)):
    shared = {"interval": "new problems", "problems": 5, "samples": 8, "low": 0.2, "high": 0.9}
    return pd.DataFrame(
        [
            {**shared, "run": f"{label}.{name}", "label": label, "benchmark": name, "k": k}
            | {"value": 0.5, "value_high": 0.5}
            for label in ("a", "b")
            for name in ("x", "y")
            for k in ks
        ]
    )


@pytest.mark.parametrize("ks", [(1, 2, 4), (1,)])
def test_each_benchmark_is_a_chart_whose_points_can_be_clicked(ks):
    palette = {"a": "#111111", "b": "#222222", "c": "#333333"}
    charts = panel_charts(curves(ks), palette=palette)
    assert list(charts) == ["x", "y"]
    spec = charts["x"].to_dict()
    assert spec["width"] == "container"
    assert [one["name"] for one in spec["params"]] == [POINT]
    assert spec["params"][0]["select"]["fields"] == ["label", "k"]
    colours = [layer["encoding"]["color"]["scale"] for layer in spec["layer"]]
    assert colours[0] == {"domain": ["a", "b"], "range": ["#111111", "#222222"]}
