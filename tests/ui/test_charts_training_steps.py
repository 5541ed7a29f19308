"""Charts over training steps: averaging, colours by method, scales, kinds of groups."""

import pytest

from service.errors import InputError
from ui.charts.rollout_groups import KIND_COLOURS, group_kinds_chart
from ui.charts.theme import PALETTE
from ui.charts.training_steps import method_colours, step_chart, window_means


def lines(*labels, values=(0.5, 0.25, 0.75)):
    return [
        {"label": label, "step": step, "value": value}
        for label in labels
        for step, value in enumerate(values, 1)
    ]


def layers(spec, mark):
    return [layer for layer in spec["layer"] if layer["mark"]["type"] == mark]


def test_points_are_means_of_a_window_at_its_last_step():
    found = window_means([1, 2, 3, 4, 5], [1.0, 3.0, None, 5.0, None], 2)
    assert found == [(2, 2.0), (4, 5.0), (5, None)]
    assert window_means([1, 2, 3, 4, 5, 6], [1, 1, 1, 1, 1, 7], 5) == [(6, 2.0)]  # no point of a single step
    assert window_means([], [], 3) == []
    with pytest.raises(ValueError, match="a window of 0"):
        window_means([1], [1.0], 0)


def test_colours_are_of_methods_and_stay_when_runs_are_left_out():
    every = ["grpo", "ta_grpo", "ta_grpo", "dapo"]
    assert method_colours({"a": "ta_grpo", "b": "dapo", "c": "ta_grpo"}, every) == {
        "a": PALETTE[1],
        "b": PALETTE[2],
        "c": PALETTE[1],
    }
    many = [f"m{number}" for number in range(12)]
    found = method_colours({"x": "m0", "y": "m8"}, many)  # both would be the first colour
    assert found == {"x": PALETTE[0], "y": PALETTE[1]}
    with pytest.raises(InputError, match="9 methods are too many to distinguish"):
        method_colours({name: name for name in many[:9]}, many)


def test_a_log_scale_leaves_out_what_has_no_logarithm():
    wide = step_chart(lines("a", values=(0.2, 0.04, 70.0)), title="t", y_title="v", scale="log").to_dict()
    axis = wide["layer"][0]["encoding"]["y"]
    assert axis["axis"]["values"] == [0.1, 1.0, 10.0]
    assert axis["scale"]["domain"] == pytest.approx([0.04 / 1.15, 70 * 1.15])
    spec = step_chart(lines("a", values=(0.0, 0.1, 10.0)), title="t", y_title="v", scale="log").to_dict()
    (line,) = layers(spec, "line")
    assert [row["value"] for row in line["data"]["values"]] == [0.1, 10.0]
    with pytest.raises(InputError, match="t: there are no values to plot"):
        step_chart(lines("a", values=(0.0, -1.0)), title="t", y_title="v", scale="log")


def kinds(step, last, *numbers):
    return [
        {"step": step, "last": last, "kind": kind, "questions": number}
        for kind, number in zip(KIND_COLOURS, numbers, strict=True)
    ]


def test_bars_stack_the_kinds_of_groups_to_one():
    chart = group_kinds_chart(
        [*kinds(1, 2, 6, 1, 3, 0), *kinds(3, 4, 0, 0, 5, 0)], title="t", window=2, chosen=4
    )
    spec = chart.to_dict()
    rows = spec["data"]["values"]
    assert [(row["step"], row["kind"]) for row in rows] == [
        (1, "mixed"),
        (1, "all right"),
        (1, "all wrong"),
        (3, "all wrong"),
    ]
    assert [row["above"] for row in rows] == pytest.approx([0.6, 0.7, 1.0, 1.0])
    assert [row["below"] for row in rows] == pytest.approx([0.0, 0.6, 0.7, 0.0])
    assert [row["stands_out"] for row in rows] == [False, False, False, True]
    assert spec["title"]["subtitle"].endswith("one bar per 2 steps")
