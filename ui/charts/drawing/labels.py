"""Names at the ends of lines instead of a legend: their positions, and wrapping of long ones."""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import altair as alt

from ui.charts.building import data_of
from ui.charts.theme import LINE_HEIGHT

ELLIPSIS = "…"

_NEAR, _FAR = 5, 16  # pixels right of the line's end: where the leader starts and ends
_GAP = 9  # to the text if no leader is needed
_APART = 2  # pixels between labels
_MOVED = 3  # pixels: a label closer to its line than this needs no leader


def end_labels(
    ends: Sequence[tuple[str, float, float]],
    *,
    at: str,
    x: Any,
    y: Callable[[str], Any],
    colour: Any,
    room: tuple[float, float],
    per_pixel: float,
    wrapped: tuple[int, int],
) -> list[Any]:
    """Return layers with the name of each line right of its end, moved apart if names would overlap.

    Args:
        ends: of each line, its name and the position of its last point. Lines may end at different x.
        at: name of the field that x encodes.
        room: lowest and highest position of a label, in units of y; a pixel has `per_pixel` of them.
        wrapped: maximum characters per line of a label, and maximum lines.
    """
    labels = ["\n".join(lines) for lines in wrap_labels([name for name, _, _ in ends], *wrapped)]
    heights = [((label.count("\n") + 1) * LINE_HEIGHT + _APART) * per_pixel for label in labels]
    places = spread_labels([value for _, _, value in ends], heights, *room)
    rightmost = max(last for _, last, _ in ends)
    rows = [
        {
            "label": name,
            "text": label,
            at: last,
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
    moved = any(row["moved"] for row in rows)
    leaders = (
        base.transform_filter("datum.moved")
        .mark_rule(strokeWidth=0.8, opacity=0.7, xOffset=_NEAR, x2Offset=_FAR)
        .encode(x=x, x2="right:Q", y=y("value"), y2="place:Q")
    )
    names = base.mark_text(
        align="left",
        baseline="middle",
        dx=_FAR + 3 if moved else _GAP,
        lineBreak="\n",
        lineHeight=LINE_HEIGHT,
        fontWeight=600,
    ).encode(x=at_right, y=y("first"), text="text:N")
    return [leaders, names] if moved else [names]


def spread_labels(wanted: Sequence[float], heights: Sequence[float], low: float, high: float) -> list[float]:
    """Return positions for the centres of labels: no overlap, same order, least squared moves.

    After subtracting the height that labels take from the first one's centre, "no overlap" becomes "not
    falling". So the answer is the isotonic regression of the ideal positions (pool adjacent violators),
    clipped to `low` and `high`. Labels that do not fit are stacked around the middle and exceed both ends.
    """
    if not wanted:
        return []
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    offsets = [0.0]
    for before, after in pairwise(order):
        offsets.append(offsets[-1] + (heights[before] + heights[after]) / 2)
    floor = low + heights[order[0]] / 2
    ceiling = high - heights[order[-1]] / 2 - offsets[-1]
    if floor > ceiling:
        floor = ceiling = (floor + ceiling) / 2
    settled = _not_falling([wanted[label] - offset for label, offset in zip(order, offsets, strict=True)])
    places = [0.0] * len(wanted)
    for label, offset, place in zip(order, offsets, settled, strict=True):
        places[label] = min(max(place, floor), ceiling) + offset
    return places


def _not_falling(values: Sequence[float]) -> list[float]:
    pools: list[tuple[float, int]] = []  # sum and number of values that share one position
    for value in values:
        total, count = value, 1
        while pools and pools[-1][0] * count >= total * pools[-1][1]:
            earlier, number = pools.pop()
            total, count = total + earlier, count + number
        pools.append((total, count))
    return [total / count for total, count in pools for _ in range(count)]


def wrap_labels(labels: Sequence[str], width: int = 24, lines: int = 2) -> list[list[str]]:
    """Wrap each label; a label that must be cut starts where labels with the same first word differ."""
    wrapped = []
    for label in labels:
        rows = wrap_label(label, width, lines)
        if any(ELLIPSIS in row for row in rows) and (start := _shared(label, labels)):
            rows = wrap_label(ELLIPSIS + label[start:], width, lines)
        wrapped.append(rows)
    return wrapped


def _shared(label: str, labels: Sequence[str]) -> int:
    """Return how many characters a label shares with similar ones, up to the end of a word."""
    first = re.split("[ /-]", label)[0]
    alike = [other for other in labels if re.split("[ /-]", other)[0] == first]
    places = enumerate(zip(*alike, strict=False))
    differ = next((place for place, letters in places if len(set(letters)) > 1), 0)
    return 1 + max(label.rfind(mark, 0, differ) for mark in " /-")


def wrap_label(label: str, width: int = 24, lines: int = 2) -> list[str]:
    """Return a label in up to `lines` lines of up to `width` characters; the middle of longer ones is cut.

    Lines break at blanks, after `/` and `_`, after a `-` without a digit (`1e-6`), and within longer words.
    Model and checkpoint names differ more often at the ends than in the middle.
    """
    label = " ".join(label.split())
    for room in range(min(len(label), width * lines), 0, -1):
        wrapped = _wrap(_cut(label, room), width)
        if len(wrapped) <= lines:
            return wrapped
    return [""]


def _wrap(label: str, width: int) -> list[str]:
    pieces = [
        word[start : start + width]
        for word in re.split(r"(?<=[ /_])|(?<=-)(?!\d)", label)
        for start in range(0, len(word), width)
    ]
    lines = [""]
    for piece in pieces:
        if len((lines[-1] + piece).rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.strip() for line in lines if line.strip()]


def _cut(label: str, room: int) -> str:
    if len(label) <= room:
        return label
    head = room // 2
    return label[:head].rstrip() + ELLIPSIS + label[len(label) - (room - head - 1) :].lstrip()
