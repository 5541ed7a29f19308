"""Difficulty of neighbors compared with their questions: success rates against each other."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from service.errors import InputError
from ui.charts.building import data_of, percents
from ui.charts.drawing.tables import Row, Rows, read_rows
from ui.charts.theme import INK, LINE_HEIGHT, MUTED, PALETTE, altair, apply_theme, colour_by

if TYPE_CHECKING:
    from altair import LayerChart

DOT = "dot"
"""Parameter with the clicked circle of `difficulty_chart`: the rates `original` and `neighbor`."""

_SIDE = 340  # pixels of the difficulty chart
_AREA, _LARGEST_AREA = 36.0, 700.0  # square pixels of a point for one neighbor, and for the most at one place
_FLAGS = {"too easy": PALETTE[1], "too hard": PALETTE[3]}


def difficulty_chart(data: Rows, *, title: str | None = None, page: bool = False) -> "LayerChart":
    """Return each neighbor's success rate against its original's; equal points become one larger circle.

    A circle can be clicked (see `DOT`).

    Args:
        page: put the legend above the square instead of on its right, so that it fits on a phone.
        data: one row per neighbor, as `evaluator.signal.difficulty.NeighborRow`: group_id (of the
            question); correct, known (graded responses to the neighbor); original_correct, original_known;
            flag ("too easy", "too hard", or missing).

    Raises:
        InputError: columns or values that cannot be drawn, or a rate of no responses.
    """
    rows = read_rows(
        data,
        texts=("group_id", "flag"),
        numbers=("correct", "known", "original_correct", "original_known"),
        optional=("flag",),
    )
    places: Counter[tuple[float, float, str]] = Counter()
    for row in rows:
        flag = row["flag"] or ""
        if flag and flag not in _FLAGS:
            raise InputError(f"{row['group_id']}: {flag!r} is not a valid flag. Use {' or '.join(_FLAGS)}.")
        places[_rate(row, "original_"), _rate(row, ""), flag] += 1
    alt = altair()
    axis = alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format=".0%", grid=True, domain=False, labelFlush=False)
    scale = alt.Scale(domain=[-0.05, 1.05], nice=False)  # room for circles at 0 and 1
    x = alt.X("original:Q", title="success rate of the original", scale=scale, axis=axis)
    y = alt.Y("neighbor:Q", title="success rate of the neighbor", scale=scale, axis=axis)
    area = min(_AREA, _LARGEST_AREA / max(places.values()))
    points = [
        {"original": a, "neighbor": b, "flag": flag, "neighbors": count, "area": area * count}
        for (a, b, flag), count in places.items()
    ]
    fill = {"": PALETTE[0], **_FLAGS}
    ends = [{"original": 0, "neighbor": 0}, {"original": 1, "neighbor": 1}]
    diagonal = alt.Chart(data_of(ends)).mark_line(color=MUTED, strokeWidth=1, strokeDash=[4, 3])
    picked = alt.selection_point(name=DOT, fields=["original", "neighbor"], on="click", empty=False)
    circles = alt.Chart(data_of(points)).mark_circle(opacity=0.7, cursor="pointer")
    layers = [
        diagonal.encode(x=x, y=y),
        circles.encode(
            x=x,
            y=y,
            size=alt.Size("area:Q", scale=None, legend=None),
            color=colour_by("flag", fill),
            stroke=alt.condition(picked, alt.value(INK), alt.value("white")),
            strokeWidth=alt.condition(picked, alt.value(1.5), alt.value(0.5)),
            tooltip=[
                *percents("original", "neighbor"),
                alt.Tooltip("neighbors:Q"),
                alt.Tooltip("flag:N"),
            ],
        ).add_params(picked),
        *([] if page else _sides(rows, y)),
    ]
    heading = title or "Difficulty of neighbors compared with their originals"
    return apply_theme(  # type: ignore[no-any-return]
        alt.layer(*layers).properties(
            width=_SIDE,
            height=_SIDE,
            title=alt.TitleParams(heading, **_page_title(rows))
            if page
            else alt.TitleParams(heading, subtitle=_difference(rows)),
        )
    )


def _rate(row: Row, prefix: str) -> float:
    correct, known = row[f"{prefix}correct"], row[f"{prefix}known"]
    if not 0 <= correct <= known or known < 1:
        raise InputError(
            f"{row['group_id']}: {prefix}correct is {correct:g} of {known:g}, which is not a valid rate."
        )
    return float(correct / known)


def _difference(rows: Sequence[Row]) -> list[str]:
    mean = sum(_rate(row, "") - _rate(row, "original_") for row in rows) / len(rows)
    questions = len({row["group_id"] for row in rows})
    return [
        f"{len(rows):,} neighbors of {questions:,} questions; a circle's area is its number of neighbors",
        f"Mean difference {100 * mean:+.1f} points".replace("-", "\N{MINUS SIGN}"),
    ]


def _page_title(rows: Sequence[Row]) -> dict[str, Any]:
    questions = len({row["group_id"] for row in rows})
    subtitle = [
        f"{len(rows):,} neighbors of {questions:,} questions",
        *_difference(rows)[1:],
        "above the dashes: neighbor easier, below: harder",
    ]
    flagged = Counter(row["flag"] for row in rows if row["flag"])
    if flagged:
        subtitle.append(", ".join(f"{count} flagged {flag}" for flag, count in flagged.items()))
    return {"subtitle": subtitle, "fontSize": 13}


def _sides(rows: Sequence[Row], y: Any) -> list[Any]:
    """Label both sides of the diagonal, right of the chart, with the number of flagged neighbors."""
    alt = altair()
    flagged = Counter(row["flag"] for row in rows if row["flag"])
    layers = []
    for neighbor, down, words, flag in (
        (1, 1, "neighbor easier", "too easy"),
        (0, -1, "neighbor harder", "too hard"),
    ):
        lines = [(words, MUTED)]
        if flagged[flag]:
            lines.append((f"{flagged[flag]} flagged {flag}", _FLAGS[flag]))
        for number, (text, colour) in enumerate(lines):
            spot = alt.Chart(data_of([{"neighbor": neighbor, "text": text}]))
            mark = spot.mark_text(
                align="left", dx=12, dy=LINE_HEIGHT * number * down, color=colour, fontWeight=600
            )
            layers.append(mark.encode(x=alt.value(_SIDE), y=y, text="text:N"))
    return layers
