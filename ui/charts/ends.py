"""The names of lines, written where the lines end instead of in a legend."""

from collections.abc import Callable, Sequence
from typing import Any

from ui.charts.building import data_of
from ui.charts.labels import spread, wrap_label
from ui.charts.theme import LINE_HEIGHT, altair

_NEAR, _FAR = 5, 16  # pixels right of the line's end: where the leader begins and ends
_GAP = 9  # to the text where no leader is needed
_APART = 2  # pixels between labels
_MOVED = 3  # pixels: below that a label stands beside its line well enough without a leader


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
    """Return layers with the name of each line right of its end, moved apart where names would overlap.

    Args:
        ends: of each line, its name and the place of its last point. Lines may end at different x.
        at: name of the field that x encodes.
        x, y, colour: encodings of the chart's other layers; `y` takes the name of a field.
        room: lowest and highest place for a label, in units of y.
        per_pixel: units of y in a pixel.
        wrapped: characters in a line of a label, and lines at most.
    """
    alt = altair()
    labels = ["\n".join(wrap_label(name, *wrapped)) for name, _, _ in ends]
    heights = [((label.count("\n") + 1) * LINE_HEIGHT + _APART) * per_pixel for label in labels]
    places = spread([value for _, _, value in ends], heights, *room)
    rightmost = max(last for _, last, _ in ends)
    rows = [
        {
            "label": name,
            "text": label,
            at: last,
            "right": rightmost,
            "value": value,
            "place": place,
            # A text of several lines hangs from its first one.
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
