"""Where the names of lines stand, and how long ones are broken."""

import re
from collections.abc import Sequence
from itertools import pairwise

ELLIPSIS = "…"


def spread(wanted: Sequence[float], heights: Sequence[float], low: float, high: float) -> list[float]:
    """Return places for the centres of labels: none overlap, order is kept, the squared moves are least.

    With the room that labels take from the first one's centre subtracted, "no overlap" becomes "not falling",
    so the answer is the isotonic regression of the wanted places (pool adjacent violators), cut to the ends.

    Args:
        wanted: where each label would stand if it were alone, in any unit, rising upwards or downwards.
        heights: room that each takes, in the same unit, 0 or more.
        low, high: the labels stay between them. If they do not fit, they stand on end around the middle and
            leave it on both sides.

    Raises:
        ValueError: as many heights as places are needed, and `low` must not be above `high`.
    """
    if len(wanted) != len(heights):
        raise ValueError(f"{len(wanted)} labels with {len(heights)} heights")
    if low > high:
        raise ValueError(f"labels cannot stand between {low} and {high}")
    if not wanted:
        return []
    order = sorted(range(len(wanted)), key=lambda one: wanted[one])
    offsets = [0.0]
    for before, after in pairwise(order):
        offsets.append(offsets[-1] + (heights[before] + heights[after]) / 2)
    floor = low + heights[order[0]] / 2
    ceiling = high - heights[order[-1]] / 2 - offsets[-1]
    if floor > ceiling:
        floor = ceiling = (floor + ceiling) / 2
    settled = _not_falling([wanted[one] - offset for one, offset in zip(order, offsets, strict=True)])
    places = [0.0] * len(wanted)
    for one, offset, place in zip(order, offsets, settled, strict=True):
        places[one] = min(max(place, floor), ceiling) + offset
    return places


def _not_falling(values: Sequence[float]) -> list[float]:
    pools: list[tuple[float, int]] = []  # sum and number of values that share one place
    for value in values:
        total, count = value, 1
        while pools and pools[-1][0] * count >= total * pools[-1][1]:
            earlier, number = pools.pop()
            total, count = total + earlier, count + number
        pools.append((total, count))
    return [total / count for total, count in pools for _ in range(count)]


def wrap_label(label: str, width: int = 24, lines: int = 2) -> list[str]:
    """Return a label in up to `lines` lines of up to `width` characters; the middle of longer ones is cut.

    Lines break at blanks and behind `/` and `_`, and within a word only where it is longer than a line. The
    ends of names of models and checkpoints tell them apart more often than their middles.
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
        for word in re.findall(r"[^ /_]*[ /_]|[^ /_]+$", label)
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
