"""Curves of pass@k: what is drawn, from which rows, and what is refused."""

import math
from itertools import pairwise
from typing import Any

from ui.charts.drawing.labels import wrap_label
from ui.charts.eval_curves import curve_chart
from ui.charts.theme import LINE_HEIGHT

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
