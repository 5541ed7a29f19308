"""Validation of the tables that charts are drawn from."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, TypeAlias

from service.errors import InputError

Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = Sequence[Mapping[str, Any]]


def read_rows(
    data: Rows,
    *,
    texts: Sequence[str] = (),
    shares: Sequence[str] = (),
    numbers: Sequence[str] = (),
    optional: Sequence[str] = (),
) -> list[Row]:
    """Return a table's rows with the named columns, validated; other columns are dropped.

    Args:
        texts: columns that become text.
        shares: numbers from 0 to 1.
        numbers: finite numbers.
        optional: those of the columns above in which a value may be missing (None in the rows).

    Raises:
        InputError: no rows, a missing column, or a value that is missing, not a number or out of range; the
            message names row and column.
    """
    if not data:
        raise InputError("the chart's table has no rows, so there is nothing to draw.")
    columns = [*texts, *shares, *numbers]
    if absent := [name for name in columns if not any(name in record for record in data)]:
        raise InputError(
            f"the chart's table has no column {', '.join(absent)}. It needs {', '.join(columns)}."
        )
    rows = []
    for place, record in enumerate(data):
        row: Row = {}
        for name in columns:
            value = record.get(name)
            missing = value is None or value != value  # NaN
            if missing and name in optional:
                row[name] = None
            elif missing:
                raise InputError(f"the chart's table, row {place}: {name} is missing.")
            else:
                row[name] = str(value) if name in texts else _number(value, name, place, share=name in shares)
        rows.append(row)
    return rows


def _number(value: Any, name: str, place: int, *, share: bool) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not isfinite(number):
        raise InputError(f"the chart's table, row {place}: {name} is {value!r}, which is not a number.")
    if share and not -1e-9 <= number <= 1 + 1e-9:
        raise InputError(f"the chart's table, row {place}: {name} is {number}, outside 0 to 1.")
    return min(1.0, max(0.0, number)) if share else number


def in_order(values: Sequence[Any]) -> list[Any]:
    """Return the distinct values in the order of their first occurrence."""
    return list(dict.fromkeys(values))
