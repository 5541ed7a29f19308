"""What charts are built from, and building their specifications quickly."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from ui.charts.theme import altair


def build_spec(make: Callable[..., Any], *arguments: Any, **options: Any) -> dict[str, Any]:
    """Return the Vega-Lite specification of the chart that `make` returns.

    Altair compares every part of a chart with the schema of Vega-Lite, which takes half of the 60 ms that a
    chart takes to build. The charts' tests do that; a page need not do it at every click. The switch is one
    of the whole process: where two threads build at a time it may stay off, which changes no specification.
    """
    from altair.utils.schemapi import debug_mode

    with debug_mode(False):
        spec: dict[str, Any] = make(*arguments, **options).to_dict(validate=False)
    return spec


class _Values:
    """Rows that Altair does not look into: it would copy every number of them dozens of times."""

    _schema: ClassVar[dict[str, str]] = {"type": "array"}

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def to_dict(self) -> list[dict[str, Any]]:
        return self._rows


def data_of(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return rows of plain values as the data of an Altair chart."""
    return altair().Data(values=_Values([dict(row) for row in rows]))
