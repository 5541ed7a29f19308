"""Charts of the training-signal report: questions without gradient, difficulty of neighbors."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from service.errors import InputError
from ui.charts.building import data_of
from ui.charts.panels import dot_panels, has_interval, line_panels, panel_size
from ui.charts.tables import Frame, Row, in_order, read_rows
from ui.charts.theme import INK, LINE_HEIGHT, MUTED, PALETTE, altair, colour_by, colours, themed

if TYPE_CHECKING:
    from altair import ConcatChart, LayerChart

__all__ = ["DOT", "difficulty_chart", "zero_gradient_chart"]

DOT = "dot"
"""The parameter that holds a clicked circle of `difficulty_chart`: the rates `original` and `neighbor`."""

_TRAILING_NUMBER = re.compile(r"(.*?)(\d+)")
_SIDE = 340  # pixels of the difficulty chart
_AREA, _LARGEST_AREA = 36.0, 700.0  # square pixels of a point for one neighbor, and for the most in one place
_FLAGS = {"too easy": PALETTE[1], "too hard": PALETTE[3]}


def zero_gradient_chart(frame: Frame, *, title: str | None = None, confidence: float = 0.95) -> "ConcatChart":
    """Return the share of questions whose group gets one reward, by checkpoint; dots for a single checkpoint.

    Args:
        frame: one row for each checkpoint and group, as `evaluator.signal.zero_gradient.ShareRow`:
            checkpoint (their order is that of the rows; names that end in rising numbers stand at these);
            group ("original, G", ...) with responses (its size); share; low, high (missing where undefined);
            questions. Rows with a variant, of one neighbor each, are left out where there is that column.

    Raises:
        InputError: columns or values that cannot be drawn, or a group twice at one checkpoint.
        PrerequisiteError: altair is not installed.
    """
    variant = ("variant",) if "variant" in frame.columns else ()
    rows = read_rows(
        frame,
        texts=("checkpoint", "group"),
        shares=("share", "low", "high"),
        numbers=("responses", "questions", *variant),
        optional=("low", "high", *variant),
    )
    rows = [row for row in rows if row.get("variant") is None]
    if not rows:
        raise InputError("the chart's table holds rows of single neighbors only.")
    checkpoints = in_order([row["checkpoint"] for row in rows])
    positions = checkpoint_positions(checkpoints)
    for row in rows:
        row.update(
            label=f"{row['group']} = {int(row['responses'])}",
            value=row["share"],
            value_high=row["share"],
            position=positions[row["checkpoint"]],
        )
    twice = [key for key, count in Counter((r["checkpoint"], r["label"]) for r in rows).items() if count > 1]
    if twice:
        raise InputError(f"{twice[0][0]}: the group {twice[0][1]!r} is there twice.")
    palette = colours(in_order([row["label"] for row in rows]))
    alt, size = altair(), panel_size(1)
    tooltip = [
        alt.Tooltip("checkpoint:N"),
        alt.Tooltip("label:N", title="group"),
        *(alt.Tooltip(f"{name}:Q", format=".1%") for name in ("share", "low", "high")),
        alt.Tooltip("questions:Q"),
    ]
    said = "share of questions"
    if len(checkpoints) == 1:
        drawn = dot_panels([rows], palette, size, x_title=said, tooltip=tooltip)
    else:
        drawn = line_panels(
            [rows],
            palette,
            size,
            at="position",
            x=lambda _: _checkpoints(positions),
            y_title=said,
            tooltip=tooltip,
        )
    counts = sorted({int(row["questions"]) for row in rows})
    questions = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    subtitle = f"{questions} questions" + (f" at {checkpoints[0]}" if len(checkpoints) == 1 else "")
    if any(map(has_interval, rows)):
        bars = "Bars" if len(checkpoints) == 1 else "Bands"
        subtitle += f". {bars}: {confidence * 100:g}% interval for new questions"
    heading = title or "Questions without gradient: all responses of the group get one reward"
    return themed(  # type: ignore[no-any-return]
        alt.concat(*drawn).properties(title=alt.TitleParams(heading, subtitle=subtitle))
    )


def checkpoint_positions(checkpoints: Sequence[str]) -> dict[str, float]:
    """Return where checkpoints stand: at their numbers where all are named alike and rise, else evenly.

    >>> checkpoint_positions(["step-50", "step-200"])
    {'step-50': 50.0, 'step-200': 200.0}
    >>> checkpoint_positions(["base", "step-200"])
    {'base': 0.0, 'step-200': 1.0}
    """
    found = [_TRAILING_NUMBER.fullmatch(name) for name in checkpoints]
    numbers = [float(match[2]) for match in found if match]
    alike = len({match[1] for match in found if match}) == 1
    if len(numbers) == len(checkpoints) and alike and numbers == sorted(set(numbers)):
        return dict(zip(checkpoints, numbers, strict=True))
    return {name: float(place) for place, name in enumerate(checkpoints)}


def _checkpoints(positions: dict[str, float]) -> Any:
    alt = altair()
    names = {f"{place:g}": name for name, place in positions.items()}
    quoted = ", ".join(f"{_quoted(place)}: {_quoted(name)}" for place, name in names.items())
    ends = [min(positions.values()), max(positions.values())]
    axis = alt.Axis(
        values=list(positions.values()),
        labelExpr=f"({{{quoted}}})[toString(datum.value)]",
        labelOverlap="greedy",
        labelFlush=False,
        labelLimit=110,
    )
    return alt.X("position:Q", title="checkpoint", scale=alt.Scale(domain=ends, nice=False), axis=axis)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", " ") + "'"


def difficulty_chart(frame: Frame, *, title: str | None = None, page: bool = False) -> "LayerChart":
    """Return each neighbor's success rate against its original's; equal places are one larger circle.

    A circle can be clicked (see `DOT`).

    Args:
        page: say above the square what stands right of it otherwise, so that a phone has room for it.
        frame: one row a neighbor, as `evaluator.signal.difficulty.NeighborRow`: group_id (of the
            question); correct, known (graded responses to the neighbor); original_correct, original_known;
            flag ("too easy", "too hard", or missing).

    Raises:
        InputError: columns or values that cannot be drawn, or a rate of no responses.
        PrerequisiteError: altair is not installed.
    """
    rows = read_rows(
        frame,
        texts=("group_id", "flag"),
        numbers=("correct", "known", "original_correct", "original_known"),
        optional=("flag",),
    )
    places: Counter[tuple[float, float, str]] = Counter()
    for row in rows:
        flag = row["flag"] or ""
        if flag and flag not in _FLAGS:
            raise InputError(f"{row['group_id']}: {flag!r} is no flag; they are {' and '.join(_FLAGS)}.")
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
                alt.Tooltip("original:Q", format=".1%"),
                alt.Tooltip("neighbor:Q", format=".1%"),
                alt.Tooltip("neighbors:Q"),
                alt.Tooltip("flag:N"),
            ],
        ).add_params(picked),
        *([] if page else _sides(rows, y)),
    ]
    heading = title or "Difficulty of neighbors beside their originals"
    return themed(  # type: ignore[no-any-return]
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
        raise InputError(f"{row['group_id']}: {prefix}correct is {correct:g} of {known:g}; that is no rate.")
    return float(correct / known)


def _difference(rows: Sequence[Row]) -> list[str]:
    mean = sum(_rate(row, "") - _rate(row, "original_") for row in rows) / len(rows)
    questions = len({row["group_id"] for row in rows})
    return [
        f"{len(rows):,} neighbors of {questions:,} questions; areas count neighbors at one place",
        f"Mean difference {100 * mean:+.1f} points".replace("-", "\N{MINUS SIGN}"),
    ]


def _page_title(rows: Sequence[Row]) -> dict[str, Any]:
    questions = len({row["group_id"] for row in rows})
    said = [
        f"{len(rows):,} neighbors of {questions:,} questions",
        *_difference(rows)[1:],
        "above the dashes: neighbor easier, below: harder",
    ]
    flagged = Counter(row["flag"] for row in rows if row["flag"])
    if flagged:
        said.append(", ".join(f"{count} flagged {flag}" for flag, count in flagged.items()))
    return {"subtitle": said, "fontSize": 13}


def _sides(rows: Sequence[Row], y: Any) -> list[Any]:
    """Say right of the chart what stands above and below the diagonal, and how many are flagged."""
    alt = altair()
    flagged = Counter(row["flag"] for row in rows if row["flag"])
    layers = []
    for neighbor, down, said, flag in (
        (1, 1, "neighbor easier", "too easy"),
        (0, -1, "neighbor harder", "too hard"),
    ):
        lines = [(said, MUTED)]
        if flagged[flag]:
            lines.append((f"{flagged[flag]} flagged {flag}", _FLAGS[flag]))
        for number, (text, colour) in enumerate(lines):
            spot = alt.Chart(data_of([{"neighbor": neighbor, "text": text}]))
            mark = spot.mark_text(
                align="left", dx=12, dy=LINE_HEIGHT * number * down, color=colour, fontWeight=600
            )
            layers.append(mark.encode(x=alt.value(_SIDE), y=y, text="text:N"))
    return layers
