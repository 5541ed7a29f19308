"""A file of responses, opened, and how the readers of rows treat rows that cannot be used."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from evaluator.exchange.responses import OutsideResponse
from service.errors import InputError
from service.questions.columns import RowProblem
from service.questions.files import BadRow, RawRow, Source

Format: TypeAlias = Literal["rows", "inspect", "lighteval", "lm-eval"]

_BAD_NAMED = 5


@dataclass(frozen=True)
class ResponseFile:
    """Files of one tool as one list of responses."""

    name: str
    form: Format
    sha256: str
    read: Callable[[], Iterator[OutsideResponse]]  # reads the file again, one row at a time
    model: str | None = None  # as the tool names it
    scorer: str | None = None
    poses: str | None = None  # the task
    # under which the tool says that it drew (temperature, max_tokens, ...)
    settings: Mapping[str, Any] = field(default_factory=dict)


def rows_file(
    source: Source,
    form: Format,
    wanted: Sequence[str],
    responses: Callable[[RawRow], Iterator[OutsideResponse]],
    scorer: str | None,
) -> ResponseFile:
    """Return a file of rows as responses, see `checked`."""
    sha256 = str(source.origin["sha256"])
    return ResponseFile(source.name, form, sha256, lambda: checked(source, wanted, responses), scorer=scorer)


def checked(
    source: Source,
    wanted: Sequence[str],
    responses: Callable[[RawRow], Iterator[OutsideResponse]],
) -> Iterator[OutsideResponse]:
    """Yield the responses of a source's rows; at the end fail with those rows that cannot be used."""
    bad: list[str] = []
    number = 0
    for row in source.read(wanted):
        number += 1
        try:
            if isinstance(row, BadRow):
                raise RowProblem(row.problem)
            read = list(responses(row))
        except RowProblem as problem:
            bad.append(f"{row.place}: {problem}")
        else:
            if not bad:
                yield from read
    if bad or not number:
        raise unusable(source.name, bad, f"{len(bad)} of {number} rows")


def unusable(name: str, bad: Sequence[str], which: str) -> InputError:
    """Return the error of a file with rows that cannot be used, or with none; `which` rows these are."""
    if not bad:
        return InputError(f"{name}: contains no rows.")
    more = f"\n  and {len(bad) - _BAD_NAMED} more" if len(bad) > _BAD_NAMED else ""
    listed = "\n  ".join(bad[:_BAD_NAMED])
    return InputError(
        f"{name}: {which} cannot be used:\n  {listed}{more}\nA file is imported completely or not at all; "
        "fix these rows."
    )
