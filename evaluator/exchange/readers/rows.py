"""Rows of any origin, by the names of their columns."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from evaluator.exchange.readers.response_file import Format, ResponseFile, RowFile, checked
from evaluator.exchange.responses import OutsideResponse, choose_columns, read_responses
from service.questions.columns import RowProblem
from service.questions.files import RawRow

Values: TypeAlias = Mapping[str, Any]


def fits(present: Collection[str]) -> bool:
    """Return True: columns that are missing are named when the rows are opened."""
    return True


def open_rows(
    file: RowFile,
    form: Format = "rows",
    change: Callable[[Values, Mapping[str, str]], Values] = lambda values, columns: values,
    further: Sequence[str] = (),
) -> ResponseFile:
    """Open rows.

    Args:
        change: makes of a row's values and the columns by part the values that are read.
        further: columns that it reads too.
    """
    columns = {**file.columns}
    if file.scorer is not None:
        columns.setdefault("score", file.scorer)
    chosen = choose_columns(columns, file.present, file.source.name)

    def responses(row: RawRow) -> Iterator[OutsideResponse]:
        if chosen["response"].split(".")[0] not in row.values and chosen["response"] not in row.values:
            there = ", ".join(row.values) or "none"
            raise RowProblem(f'it has no "{chosen["response"]}". Available: {there}')
        return read_responses(row.place, change(row.values, chosen), chosen)

    names = (name if name in file.present else name.split(".")[0] for name in chosen.values())
    wanted = list(dict.fromkeys([*names, *further]))
    return file.opened(form, lambda: checked(file.source, wanted, responses), chosen.get("score"))
