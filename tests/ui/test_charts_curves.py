"""Curves of pass@k: what is drawn, from which rows, and what is refused."""

import math
from itertools import pairwise
from typing import Any

import pytest

from ui.charts.drawing.labels import wrap_label
from ui.charts.eval_curves import POINT, curve_chart, panel_charts
from ui.charts.theme import LINE_HEIGHT, PALETTE

KS = (1, 2, 4, 8, 16, 32)


def line(
    label: str, benchmark: str = "AIME24", *, rate: float = 0.3, ks: tuple[int, ...] = KS, **changes: Any
) -> list[dict[str, Any]]:
    rows = []
    for k in ks:
        value = 1 - (1 - rate) ** math.sqrt(k)
        row = {"run": label, "label": label, "benchmark": benchmark, "k": k, "value": value}
        row |= {"value_high": value, "low": max(0, value - 0.1), "high": min(1, value + 0.1)}
        rows.append(row | {"interval": "new problems", "problems": 30, "samples": 32, **changes})
    return rows


def spec_of(rows: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
    return curve_chart(rows, **options).to_dict()


def panel_of(rows: list[dict[str, Any]], place: int = 0) -> dict[str, Any]:
    return spec_of(rows)["concat"][place]


def mark(layer: dict[str, Any]) -> str:
    return str(layer["mark"] if isinstance(layer["mark"], str) else layer["mark"]["type"])


def layer_of(panel: dict[str, Any], kind: str, **properties: Any) -> dict[str, Any] | None:
    for layer in panel["layer"]:
        given = layer["mark"] if isinstance(layer["mark"], dict) else {}
        if mark(layer) == kind and all(given.get(name) == value for name, value in properties.items()):
            return dict(layer)
    return None


def values(layer: dict[str, Any] | None) -> list[dict[str, Any]]:
    assert layer is not None
    return list(layer["data"]["values"])


def test_a_curve_is_a_band_a_line_and_points_over_k_on_a_log_scale() -> None:
    panel = panel_of(line("GRPO"))
    assert [mark(layer) for layer in panel["layer"]] == ["area", "line", "circle", "rule", "text"]
    x = panel["layer"][1]["encoding"]["x"]
    assert (x["field"], x["type"]) == ("k", "quantitative")
    assert x["scale"] == {"type": "log", "base": 2, "domain": [1, 32], "nice": False}
    assert x["axis"]["values"] == [1, 2, 4, 8, 16, 32]
    band = layer_of(panel, "area")
    assert band is not None
    assert (band["encoding"]["y"]["field"], band["encoding"]["y2"]["field"]) == ("low", "high")
    drawn = values(layer_of(panel, "line"))
    assert [row["k"] for row in drawn] == list(KS)
    assert drawn[3]["value"] == pytest.approx(1 - 0.7 ** math.sqrt(8))


def test_the_title_says_what_is_drawn_and_the_subtitle_what_the_band_means() -> None:
    spec = spec_of(line("GRPO"))
    assert spec["title"]["text"] == "pass@k: share of problems that at least one of k samples solves"
    assert spec["concat"][0]["title"]["text"] == "AIME24"
    assert spec["concat"][0]["title"]["subtitle"] == [
        "30 problems, 32 samples each",
        "Bands: 95% interval for new problems",
    ]
    other = spec_of(line("GRPO"), metric="G-Pass@k_0.5", title="Mine")
    assert other["title"]["text"] == "Mine"
    assert other["concat"][0]["layer"][1]["encoding"]["y"]["title"] == "G-Pass@k_0.5"


def test_each_method_has_one_colour_in_every_panel_and_no_legend() -> None:
    rows = [*line("A"), *line("B"), *line("B", "AMC23"), *line("A", "AMC23")]
    spec = spec_of(rows)
    for panel in spec["concat"]:
        colour = panel["layer"][1]["encoding"]["color"]
        assert colour["scale"] == {"domain": ["A", "B"], "range": list(PALETTE[:2])}
        assert colour["legend"] is None
    assert [panel["title"]["text"] for panel in spec["concat"]] == ["AIME24", "AMC23"]
    assert spec["columns"] == 2


def test_names_stand_at_the_ends_and_never_overlap() -> None:
    names = ["GRPO", "DAPO", "TA-GRPO with three neighbors of each question", "A-GRAE", "Qwen3-4B/base"]
    panel = panel_of([row for i, name in enumerate(names) for row in line(name, rate=0.3 + i / 1000)])
    text = layer_of(panel, "text")
    ticks = panel["layer"][0]["encoding"]["y"]["scale"]["domain"]
    per_pixel = (ticks[1] - ticks[0]) / panel["height"]
    boxes = []
    for row in values(text):
        lines = row["text"].count("\n") + 1
        assert row["text"].split("\n") == wrap_label(row["label"])
        top = row["first"] / per_pixel + LINE_HEIGHT / 2
        boxes.append((top - lines * LINE_HEIGHT, top))
        assert row["right"] == 32
    boxes.sort()
    assert len(boxes) == 5
    assert all(low >= high - 1e-6 for (_, high), (low, _) in pairwise(boxes))
    # Where a name had to move, a thin line leads to it.
    leaders = layer_of(panel, "rule")
    assert leaders is not None
    assert leaders["encoding"]["y2"]["field"] == "place"
    assert any(row["moved"] for row in values(leaders))


def test_unknown_grades_are_a_dashed_line_of_their_methods_only() -> None:
    sure, unsure = line("sure"), line("unsure")
    unsure[2]["value_high"] += 0.05
    spec = spec_of([*sure, *unsure])
    dashed = layer_of(spec["concat"][0], "line", strokeDash=[4, 3])
    assert {row["label"] for row in values(dashed)} == {"unsure"}
    assert len(values(dashed)) == len(KS)
    assert spec["concat"][0]["title"]["subtitle"][1:] == [
        "Bands: 95% interval for new problems",
        "Dashed: unknown grades counted as correct",
    ]
    assert layer_of(panel_of(sure), "line", strokeDash=[4, 3]) is None


def test_a_single_k_is_drawn_as_dots_on_bars() -> None:
    rows = [*line("A", ks=(8,)), *line("B", ks=(8,), rate=0.5)]
    rows[1]["value_high"] += 0.02
    spec = spec_of(rows)
    panel = spec["concat"][0]
    assert [mark(layer) for layer in panel["layer"]] == ["rule", "point", "circle"]
    assert panel["layer"][0]["encoding"]["y"]["sort"] == ["A", "B"]
    assert panel["layer"][2]["encoding"]["x"]["title"] == "pass@8"
    assert spec["title"]["text"] == "pass@8: share of problems that at least one of 8 samples solves"
    assert panel["title"]["subtitle"][1:] == [
        "Bars: 95% interval for new problems",
        "Rings: unknown grades counted as correct",
    ]


def two_benchmarks(ks=(1, 2, 4)):
    shared = {"interval": "new problems", "problems": 5, "samples": 8, "low": 0.2, "high": 0.9}
    return [
        {**shared, "run": f"{label}.{name}", "label": label, "benchmark": name, "k": k}
        | {"value": 0.5, "value_high": 0.5}
        for label in ("a", "b")
        for name in ("x", "y")
        for k in ks
    ]


@pytest.mark.parametrize("ks", [(1, 2, 4), (1,)])
def test_each_benchmark_is_a_chart_whose_points_can_be_clicked(ks):
    palette = {"a": "#111111", "b": "#222222", "c": "#333333"}
    charts = panel_charts(two_benchmarks(ks), palette=palette)
    assert list(charts) == ["x", "y"]
    spec = charts["x"].to_dict()
    assert spec["width"] == "container"
    assert [parameter["name"] for parameter in spec["params"]] == [POINT]
    assert spec["params"][0]["select"]["fields"] == ["label", "k"]
    colours = [layer["encoding"]["color"]["scale"] for layer in spec["layer"]]
    assert colours[0] == {"domain": ["a", "b"], "range": ["#111111", "#222222"]}
