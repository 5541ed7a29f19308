"""Labels: moved apart without overlap, long ones broken; ticks of axes; the palette."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import InputError
from ui.charts.drawing.axes import share_ticks, shared_ticks
from ui.charts.drawing.labels import wrap_label
from ui.charts.theme import colours


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
