"""Names at the ends of lines instead of a legend: their positions, and wrapping of long ones."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import altair as alt

from ui.charts.building import data_of
from ui.charts.theme import LINE_HEIGHT

ELLIPSIS = "…"
WIDTH, LINES = 18, 3
"""Maximum characters per line of a label, and maximum lines."""

_NEAR, _FAR = 5, 16  # pixels right of the line's end: where the leader starts and ends
_APART = 2  # pixels between labels
_MOVED = 3  # pixels: a label closer to its line than this needs no leader


def end_labels(
    ends: Sequence[tuple[str, float, float]],
    *,
    x: Any,
    y: Callable[[str], Any],
    colour: Any,
    room: tuple[float, float],
    per_pixel: float,
) -> list[Any]:
    """Return layers with the name of each line right of its end, moved apart if names would overlap.

    Args:
        ends: of each line, its name, its last k and its value there. Lines may end at different k.
        room: lowest and highest position of a label, in units of y; a pixel has `per_pixel` of them.
    """
    labels = ["\n".join(wrap_label(name)) for name, _, _ in ends]
    heights = [((label.count("\n") + 1) * LINE_HEIGHT + _APART) * per_pixel for label in labels]
    places = spread_labels([value for _, _, value in ends], heights, *room)
    rightmost = max(last for _, last, _ in ends)
    rows = [
        {
            "label": name,
            "text": label,
            "k": last,
            "right": rightmost,
            "value": value,
            "place": place,
            # A text of several lines is anchored at its first one.
            "first": place + (height - (LINE_HEIGHT + _APART) * per_pixel) / 2,
            "moved": abs(place - value) > _MOVED * per_pixel or last != rightmost,
        }
        for (name, last, value), label, height, place in zip(ends, labels, heights, places, strict=True)
    ]
    at_right = x.copy(deep=False)
    at_right.shorthand = "right:Q"
    base = alt.Chart(data_of(rows)).encode(color=colour)
    leaders = (
        base.transform_filter("datum.moved")
        .mark_rule(strokeWidth=0.8, opacity=0.7, xOffset=_NEAR, x2Offset=_FAR)
        .encode(x=x, x2="right:Q", y=y("value"), y2="place:Q")
    )
    names = base.mark_text(
        align="left",
        baseline="middle",
        dx=_FAR + 3,
        lineBreak="\n",
        lineHeight=LINE_HEIGHT,
        fontWeight=600,
    ).encode(x=at_right, y=y("first"), text="text:N")
    return [leaders, names]


def spread_labels(wanted: Sequence[float], heights: Sequence[float], low: float, high: float) -> list[float]:
    """Return positions for the centres of labels: in order, without overlap, near the wanted ones.

    Labels that do not fit between `low` and `high` exceed the lower end.
    """
    places = list(wanted)
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    for label in order:  # no lower than the one below allows
        places[label] = max(places[label], low + heights[label] / 2)
        low = places[label] + heights[label] / 2
    for label in reversed(order):  # no higher than the one above allows
        places[label] = min(places[label], high - heights[label] / 2)
        high = places[label] - heights[label] / 2
    return places


def wrap_label(label: str) -> list[str]:
    """Return a label in up to `LINES` lines of up to `WIDTH` characters; the middle of longer ones is cut.

    Lines break at blanks, after `/` and `_`, after a `-` without a digit (`1e-6`), and within longer words.
    Model and checkpoint names differ more often at the ends than in the middle.
    """
    label = " ".join(label.split())
    room = min(len(label), WIDTH * LINES)
    while len(wrapped := _wrap(_cut(label, room))) > LINES:
        room -= 1
    return wrapped


def _wrap(label: str) -> list[str]:
    pieces = [
        word[start : start + WIDTH]
        for word in re.split(r"(?<=[ /_])|(?<=-)(?!\d)", label)
        for start in range(0, len(word), WIDTH)
    ]
    lines = [""]
    for piece in pieces:
        if len((lines[-1] + piece).rstrip()) > WIDTH:
            lines.append("")
        lines[-1] += piece
    return [line.strip() for line in lines if line.strip()]


def _cut(label: str, room: int) -> str:
    if len(label) <= room:
        return label
    head = room // 2
    return label[:head].rstrip() + ELLIPSIS + label[len(label) - (room - head - 1) :].lstrip()
