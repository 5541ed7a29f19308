"""Ends and ticks of axes, computed here so that labels can be placed before the chart is drawn."""

from collections.abc import Sequence
from math import ceil, floor, log2
from typing import Any

import altair as alt

_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25)


def share_ticks(values: Sequence[float], most: int = 6) -> list[float]:
    """Return up to `most` + 1 even ticks that enclose the shares, within 0 to 1."""
    low, high = min(values), max(values)
    for step in _STEPS:
        first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
        last = max(last, first + 1)
        if last * step > 1 + 1e-9:
            first, last = first - 1, last - 1
        if last - first <= most:
            break
    return [round(number * step, 6) for number in range(first, last + 1)]


def shared_ticks(panels: Sequence[Sequence[float]], most: int = 6) -> list[list[float]]:
    """Return ticks of the panels: the same for all, unless one would lose half of its height."""
    alone = [share_ticks(values, most) for values in panels]
    together = share_ticks([value for values in panels for value in values], most)
    length = together[-1] - together[0]
    if all(2 * (ticks[-1] - ticks[0]) >= length for ticks in alone):
        return [together for _ in panels]
    return alone


def power_ticks(low: float, high: float, most: int = 9) -> list[int]:
    """Return powers of two from `low` to `high`, at most `most`: every second, third, ... if necessary."""
    first, last = ceil(log2(low) - 1e-9), floor(log2(high) + 1e-9)
    step = max(1, ceil((last - first + 1) / most))
    return [2**power for power in range(first, last + 1, step)]


def count_axis(most: float) -> dict[str, str]:
    """Return the format of an axis of counts up to `most`: 0, 2,500 and 5,000, or 0, 5k and 10k."""
    if most < 10_000:
        return {"format": ",d"}
    return {"labelExpr": "datum.value === 0 ? '0' : format(datum.value, '~s')"}


def share_axis(ticks: Sequence[float], **look: Any) -> dict[str, Any]:
    """Return scale and axis of shares, from the first to the last tick; `look` is the axis's."""
    whole = all(abs(tick * 100 - round(tick * 100)) < 1e-6 for tick in ticks)
    return {
        "scale": alt.Scale(domain=[ticks[0], ticks[-1]], nice=False, zero=False),
        "axis": alt.Axis(values=list(ticks), format=".0%" if whole else ".1%", **look),
    }


def sample_axis(low: int, high: int, room: float = 1) -> Any:
    """Return the encoding of k, which doubles from tick to tick; `room` extends the scale at both ends."""
    scale = alt.Scale(type="log", base=2, domain=[low / room, high * room], nice=False)
    axis = alt.Axis(values=power_ticks(low, high, 8), format="d", labelFlush=False)
    return alt.X("k:Q", title="k (samples)", scale=scale, axis=axis)
