"""The command that a run was last worked on with, so that going on needs its name alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy.orm import Session

from service.runs.tables import RunCommandRow

Words = Mapping[str, Sequence[str]]
"""What was given, by parameter, as it is written on the command line."""


@dataclass(frozen=True)
class RunCommand:
    """`words` of the command in `folder`, as `max_usd`: ["--max-usd", "5"]."""

    folder: str
    words: Words


def keep_command(session: Session, run_id: str, folder: str, words: Words) -> None:
    """Keep the command of a run, in place of an earlier one."""
    kept: dict[str, Any] = {name: list(given) for name, given in words.items()}
    session.merge(RunCommandRow(run_id=run_id, folder=folder, words=kept))


def read_command(session: Session, run_id: str) -> RunCommand | None:
    """Return the command of a run; None where it was made by other means."""
    row = session.get(RunCommandRow, run_id)
    return None if row is None else RunCommand(row.folder, cast("Words", row.words))
