"""Comparing the counts that triggers keep with counts made anew from what is stored."""

from typing import Any

from sqlalchemy import text

from service.database import Database
from service.database.migrations.counting import COUNTED
from service.database.migrations.sourcing import COUNT
from service.database.migrations.withdrawing import STANDING_NOW

MADE = {**COUNTED, "standings": STANDING_NOW, "grade_sources": COUNT}

NO_ZEROS = {
    "question_set_counts": 1,
    "run_cell_counts": 3,
    "run_spending": 3,
    "run_minutes": 2,
    "standing_counts": 6,
}
"""Tables of which rows may stay with zeros only, and the columns of their keys."""


def kept_and_made(db: Database) -> dict[str, tuple[list[Any], list[Any]]]:
    """Return for each table of counts its rows, and the rows it would have if it were made now."""
    found = {}
    with db.read() as session:
        for table, query in MADE.items():
            kept, made = (
                [tuple(row) for row in session.execute(text(statement.replace(":", "\\:")))]
                for statement in (f"SELECT * FROM {table}", query)
            )
            if table in NO_ZEROS:
                kept = [row for row in kept if any(row[NO_ZEROS[table] :])]
            found[table] = sorted(kept, key=repr), sorted(made, key=repr)
    return found


def assert_counts_hold(db: Database, *filled: str) -> None:
    """Assert that every table of counts holds, and that these tables hold anything at all."""
    for table, (kept, made) in kept_and_made(db).items():
        assert kept == made, table
        assert kept or table not in filled, f"{table} is empty, so nothing was tested"
