"""A file of questions imported in one call."""

from pathlib import Path
from typing import Any

from evaluator.grading import Grader
from rephraser.questions.importing import read_source, store_import
from service.database import Database
from service.questions.columns import Columns, RowLimits
from service.telling import TellStage, tell_nobody


def import_questions(
    db: Database,
    source: Path,
    *,
    name: str | None = None,
    columns: Columns | None = None,
    limits: RowLimits | None = None,
    progress: TellStage = tell_nobody,
    **reading: Any,
) -> dict[str, Any]:
    """Read, check and store a file; return the record."""
    rows = read_source(str(source), columns=columns or Columns(), limits=limits or RowLimits(), **reading)
    with Grader() as grader:
        return store_import(db, rows, grader, name=name, progress=progress)[0]
