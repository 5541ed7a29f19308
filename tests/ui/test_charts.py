"""Charts: what is computed for them, hostile labels in files, and what is missing or too much."""

import importlib
import json
import math
import sys
from itertools import pairwise
from typing import Any

import pytest

import ui.charts
from service.errors import InputError, PrerequisiteError
from ui.charts.axes import share_ticks
from ui.charts.eval_curves import curve_chart, wrap_label
from ui.charts.intervals import SET_APART, cost_points
from ui.charts.saving import save_chart
from ui.charts.stacked_bars import KIND_COLOURS, VERDICT_COLOURS, group_kinds_chart, stacked_bars
from ui.charts.theme import LINE_HEIGHT, colours
from ui.charts.training_steps import step_chart, window_means

KS = (1, 2, 4, 8, 16, 32)


def curve(label: str, rate: float = 0.3) -> list[dict[str, Any]]:
    row = {"run": label, "label": label, "benchmark": "AIME24", "problems": 30, "samples": 32}
    row["interval"] = "new problems"
    values = {k: 1 - (1 - rate) ** math.sqrt(k) for k in KS}
    return [
        {**row, "k": k, "value": v, "value_high": v, "low": max(0, v - 0.1), "high": min(1, v + 0.1)}
        for k, v in values.items()
    ]


def panel_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    panel: dict[str, Any] = curve_chart(rows).to_dict()["concat"][0]
    return panel


def values(spec: dict[str, Any], mark: str, **properties: Any) -> list[dict[str, Any]]:
    """Return the rows of the first layer with a mark of these properties; none without such a layer."""
    for layer in spec["layer"]:
        given = layer["mark"] if isinstance(layer["mark"], dict) else {"type": layer["mark"]}
        if given.items() >= {"type": mark, **properties}.items():
            return list(layer["data"]["values"])
    return []


def test_names_stand_at_the_ends_and_never_overlap():
    names = ["GRPO", "DAPO", "TA-GRPO with three neighbors of each question", "A-GRAE", "Qwen3-4B/base"]
    panel = panel_of([row for i, name in enumerate(names) for row in curve(name, 0.3 + i / 1000)])
    ticks = panel["layer"][0]["encoding"]["y"]["scale"]["domain"]
    per_pixel = (ticks[1] - ticks[0]) / panel["height"]
    boxes = []
    for row in values(panel, "text"):
        lines = row["text"].split("\n")
        assert (lines, row["right"]) == (wrap_label(row["label"]), 32)
        top = row["first"] / per_pixel + LINE_HEIGHT / 2
        boxes.append((top - len(lines) * LINE_HEIGHT, top))
    assert len(boxes) == 5
    assert all(low >= high - 1e-6 for (_, high), (low, _) in pairwise(sorted(boxes)))
    # Where a name had to move, a thin line leads to it.
    assert any(row["moved"] for row in values(panel, "rule"))


def test_unknown_grades_are_a_dashed_line_of_their_methods_only():
    sure, unsure = curve("sure"), curve("unsure")
    unsure[2]["value_high"] += 0.05
    panel = panel_of([*sure, *unsure])
    assert [row["label"] for row in values(panel, "line", strokeDash=[4, 3])] == ["unsure"] * len(KS)
    assert panel["title"]["subtitle"][-1] == "Dashed: unknown grades counted as correct"
    assert values(panel_of(sure), "line", strokeDash=[4, 3]) == []


def test_long_names_are_cut_in_the_middle_and_more_names_than_colours_are_refused():
    assert wrap_label("Qwen2.5-Math-7B-base") == ["Qwen2.5-Math-7B-", "base"]
    assert wrap_label("x" * 60) == ["x" * 18, "x" * 7 + "…" + "x" * 10, "x" * 14]
    lines = wrap_label("Qwen2.5-Math-7B-ta_rescue-lr1e-6-bs512-seed1-step400")
    assert (len(lines), lines[0][:8], lines[-1][-7:]) == (4, "Qwen2.5-", "step400")
    with pytest.raises(InputError, match=r"9 lines are too many to distinguish\. Draw at most 8"):
        colours([str(number) for number in range(9)])


def test_an_svg_holds_hostile_labels_as_text(tmp_path):
    hostile = "</script><script>alert(1)</script><img src=//x>"
    save_chart(curve_chart([*curve("TA-GRPO", 0.4), *curve(hostile)]), tmp_path / "c.svg")
    svg = (tmp_path / "c.svg").read_text()
    assert svg.startswith("<svg")
    assert ">TA-GRPO<" in svg
    for markup in ("<script", "<img", "href"):
        assert markup not in svg.replace("xmlns:xlink", "")


def test_missing_packages_say_how_to_install_them(tmp_path, monkeypatch):
    how = "Install the extra `ui`"
    chart = curve_chart(curve("TA-GRPO"))
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(PrerequisiteError, match=rf"pictures of charts need vl-convert\. {how}"):
        save_chart(chart, tmp_path / "c.png")
    save_chart(chart, tmp_path / "c.json")  # needs no converter
    assert "TA-GRPO" in json.dumps(json.loads((tmp_path / "c.json").read_text()))
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(PrerequisiteError, match=rf"charts need altair\. {how}"):
        importlib.reload(ui.charts)


def test_methods_of_one_cost_stand_beside_each_other_and_tell_the_true_cost():
    points = [
        {"label": label, "run": f"{label}.x", "cost": cost, "value": value, "low": 0.2, "high": 0.7}
        for label, cost, value in (("a", 1000, 0.5), ("b", 1000, 0.6), ("c", 200, 0.3))
    ]
    words = {"title": "T", "x_title": "responses", "y_title": "pass@32"}
    chart = cost_points(points, **words).to_dict()
    rows = next(iter(chart["datasets"].values())) if "datasets" in chart else chart["data"]["values"]
    assert [row["place"] for row in rows] == pytest.approx([985, 1000, 215])
    assert [row["cost"] for row in rows] == [1000, 1000, 200]
    assert chart["title"]["subtitle"] == SET_APART
    assert SET_APART not in str(cost_points(points[2:], **words).to_dict())  # nothing was moved


def test_parts_are_added_and_stand_in_the_order_of_their_colours():
    counts = [("rename", "rejected", 1), ("rename", "accepted", 2), ("rename", "accepted", 1)]
    counts.append(("format", "undecided", 0))
    rows = [{"name": name, "part": part, "count": count} for name, part, count in counts]
    chart = stacked_bars(rows, title="T", colours=VERDICT_COLOURS, unit="candidates").to_dict()
    bars, ends = chart["layer"]
    parts = [(row["part"], row["count"], row["share"]) for row in bars["data"]["values"]]
    assert parts == [("rejected", 1, 0.25), ("accepted", 3, 0.75)]
    scale = bars["encoding"]["color"]["scale"]
    assert scale["domain"] == ["accepted", "rejected"]  # nothing is undecided or unverified
    assert scale["range"] == [VERDICT_COLOURS["accepted"], VERDICT_COLOURS["rejected"]]
    assert ends["data"]["values"] == [{"name": "rename", "sum": 4}, {"name": "format", "sum": 0}]


def test_small_shares_use_the_height_of_the_axis():
    assert share_ticks([0.0, 0.0028]) == [0.0, 0.001, 0.002, 0.003]


def test_points_are_means_of_a_window_at_its_last_step():
    found = window_means([1, 2, 3, 4, 5], [1.0, 3.0, None, 5.0, None], 2)
    assert found == [(2, 2.0), (4, 5.0), (5, None)]
    assert window_means([1, 2, 3, 4, 5, 6], [1, 1, 1, 1, 1, 7], 5) == [(6, 2.0)]  # no point of a single step
    assert window_means([], [], 3) == []


def test_a_log_scale_leaves_out_what_has_no_logarithm():
    def drawn(*numbers: float) -> dict[str, Any]:
        rows = [{"label": "a", "step": step, "value": value} for step, value in enumerate(numbers, 1)]
        spec: dict[str, Any] = step_chart(rows, title="t", y_title="v", scale="log").to_dict()
        return spec

    axis = drawn(0.2, 0.04, 70.0)["layer"][0]["encoding"]["y"]
    assert axis["axis"]["values"] == [0.1, 1.0, 10.0]
    assert axis["scale"]["domain"] == pytest.approx([0.04 / 1.15, 70 * 1.15])
    assert [row["value"] for row in values(drawn(0.0, 0.1, 10.0), "line")] == [0.1, 10.0]
    with pytest.raises(InputError, match="t: there are no values to plot"):
        drawn(0.0, -1.0)


def test_bars_stack_the_kinds_of_groups_to_one():
    rows = [
        {"step": step, "last": step + 1, "kind": kind, "questions": number}
        for step, numbers in ((1, (6, 1, 3, 0)), (3, (0, 0, 5, 0)))
        for kind, number in zip(KIND_COLOURS, numbers, strict=True)
    ]
    spec = group_kinds_chart(rows, title="t", window=2, chosen=4).to_dict()
    bars = spec["data"]["values"]
    kinds = [(row["step"], row["kind"], row["stands_out"]) for row in bars]
    first = [(1, "mixed", False), (1, "all right", False), (1, "all wrong", False)]
    assert kinds == [*first, (3, "all wrong", True)]
    assert [row["above"] for row in bars] == pytest.approx([0.6, 0.7, 1.0, 1.0])
    assert [row["below"] for row in bars] == pytest.approx([0.0, 0.6, 0.7, 0.0])
    assert spec["title"]["subtitle"].endswith("one bar per 2 steps")
