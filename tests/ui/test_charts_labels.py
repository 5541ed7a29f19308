"""Labels: moved apart without overlap, long ones broken; ticks of axes; the palette."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import InputError
from ui.charts.drawing.axes import share_ticks, shared_ticks
from ui.charts.drawing.labels import wrap_label
from ui.charts.theme import CONFIG, DARK_PALETTE, DARK_PAPER, PALETTE, colours, darken


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.integers(4, 8))
def test_share_ticks_span_the_values_within_0_and_1(values: list[float], most: int) -> None:
    ticks = share_ticks(values, most)
    assert 2 <= len(ticks) <= most + 1
    assert -1e-9 <= ticks[0] <= min(values) + 1e-6
    assert max(values) - 1e-6 <= ticks[-1] <= 1 + 1e-9
    steps = np.diff(ticks)
    assert steps == pytest.approx(steps[0])


def test_panels_share_ticks_unless_one_would_lose_half_its_height() -> None:
    alike = shared_ticks([[0.2, 0.7], [0.3, 0.9]])
    assert alike[0] == alike[1]
    apart = shared_ticks([[0.0, 1.0], [0.9, 0.95]])
    assert apart[0] != apart[1]
    assert apart[1][0] >= 0.9


# Machado, Oliveira and Fernandes, "A physiologically-based model for simulation of color vision deficiency",
# IEEE TVCG 2009: severity 1.0, on linear RGB.
SEEN = {
    "normal": np.eye(3),
    "protan": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}


def linear(colour: str) -> np.ndarray:
    rgb = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ rgb
    x, y, z = np.cbrt(np.clip(xyz / np.array([0.9505, 1.0, 1.089]), 1e-9, None))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("palette", [PALETTE, DARK_PALETTE], ids=["light", "dark"])
@pytest.mark.parametrize("eyes", SEEN)
@pytest.mark.parametrize(("first", "apart"), [(4, 20), (len(PALETTE), 13)])
def test_colours_can_be_told_apart(eyes: str, first: int, apart: float, palette: tuple[str, ...]) -> None:
    seen = [lab(np.clip(SEEN[eyes] @ linear(colour), 0, 1)) for colour in palette[:first]]
    near = min((float(np.linalg.norm(a - b)), i, j) for (i, a), (j, b) in combinations(enumerate(seen), 2))
    assert near[0] >= apart, f"{palette[near[1]]} and {palette[near[2]]} look alike"


def test_a_chart_in_the_dark_has_other_colours_and_the_same_data() -> None:
    spec = {
        "config": CONFIG,
        "data": {"values": [{"name": "white", "colour": PALETTE[0]}]},
        "layer": [
            {"mark": {"type": "line", "color": PALETTE[1]}, "encoding": {"x": {"field": "white space"}}}
        ],
        "scale": {"range": list(PALETTE)},
        "own": "#123456",
    }
    dark = darken(spec)
    assert dark["config"]["background"] == DARK_PAPER
    assert dark["layer"][0]["mark"]["color"] == DARK_PALETTE[1]
    assert dark["scale"]["range"] == list(DARK_PALETTE)
    assert dark["data"] == spec["data"]
    assert dark["own"] == "#123456"
    assert dark["layer"][0]["encoding"] == spec["layer"][0]["encoding"]
    assert spec["config"]["background"] == "white"


def test_more_names_than_colours_are_refused() -> None:
    assert list(colours(["a", "b"])) == ["a", "b"]
    with pytest.raises(InputError, match=r"9 lines are too many to distinguish\. Draw at most 8"):
        colours([str(number) for number in range(9)])


def test_long_names_are_cut_in_the_middle():
    assert wrap_label("Qwen2.5-Math-7B-base") == ["Qwen2.5-Math-7B-", "base"]
    assert wrap_label("x" * 60) == ["x" * 18, "x" * 9 + "…" + "x" * 8, "x" * 18]
    lines = wrap_label("Qwen2.5-Math-7B-ta_rescue-lr1e-6-bs512-seed1-step400")
    assert len(lines) == 3
    assert lines[0].startswith("Qwen2.5-")
    assert lines[-1].endswith("step400")
