"""Common parts of charts."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import altair as alt

from ui.charts.theme import CONFIG, MUTED

C = TypeVar("C", alt.Chart, alt.LayerChart, alt.ConcatChart)
Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = Sequence[Row]


class _Values:
    """Rows that Altair does not inspect; otherwise it would copy every number dozens of times."""

    _schema: ClassVar[dict[str, str]] = {"type": "array"}

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def to_dict(self) -> list[dict[str, Any]]:
        return self._rows


def data_of(rows: Rows) -> Any:
    """Return rows of plain values as the data of an Altair chart."""
    return alt.Data(values=_Values([dict(row) for row in rows]))


def apply_theme(chart: C) -> C:
    """Return the finished chart in the theme; it can no longer be part of another chart."""
    return chart.configure(**CONFIG)


def frame_chart(
    chart: C,
    title: str,
    subtitle: str | Sequence[str] = "",
    *,
    height: int,
    width: int | str = "container",
    fit: Literal["fit", "fit-x"] = "fit",
    **look: Any,
) -> C:
    """Return the finished chart of a page, titled and themed; `fit` says which sizes include the axes."""
    # `chart.properties` would copy the whole chart and compare each property with Vega-Lite's schema.
    chart.title = alt.TitleParams(title, subtitle=subtitle, **{"fontSize": 13, "offset": 8, **look})
    chart.width, chart.height = width, height
    chart.autosize = alt.AutoSizeParams(type=fit, contains="padding")
    return apply_theme(chart)


def name_rows(field: str, names: Sequence[str], width: int, **look: Any) -> Any:
    """Return the vertical encoding of names, one row each in this order, `width` pixels at most."""
    axis = alt.Axis(labelLimit=width, labelColor=MUTED, grid=False, domain=False, **look)
    scale = alt.Scale(domain=list(names))
    return alt.Y(f"{field}:N", title=None, sort=list(names), scale=scale, axis=axis)


def legend_above(columns: int, symbol: str = "square", **look: Any) -> Any:
    """Return a legend without a title between the title and the plot."""
    return alt.Legend(orient="top", title=None, columns=columns, symbolType=symbol, **look)


def percents(*names: str) -> list[Any]:
    return [alt.Tooltip(f"{name}:Q", format=".1%") for name in names]


def colour_by(field: str, palette: Mapping[str, str], legend: Any = None) -> Any:
    """Return the encoding of a field's colours; without a legend if lines have labels at their ends."""
    return alt.Color(
        f"{field}:N", scale=alt.Scale(domain=list(palette), range=list(palette.values())), legend=legend
    )
