"""What a database does for a query: which tables it walks from end to end."""

import re
from collections.abc import Iterable
from typing import Any

from service.database import Database

LARGE = frozenset(
    (
        *("questions", "candidates", "proposals", "verdicts", "standings", "candidate_findings"),
        *("asks", "ask_bodies", "tasks", "notes"),
        *("neighbor_set_questions", "neighbor_set_members", "run_problems", "samples", "sample_texts"),
        *("grades", "sample_counts", "grade_counts"),
    )
)
"""Tables that grow with the data; those of runs, sets and people's reviews stay small."""
SUMMED = re.compile(
    r"COVERING INDEX (ix_asks_costs|ix_standings_counted|ix_questions_\w+|sqlite_autoindex_questions_1)"
)
"""Narrow indexes that pages sum: 200,000 asks take 0.08 s, 30,000 standings 0.01 s."""


def walked(db: Database, statements: Iterable[tuple[str, Any]]) -> set[str]:
    """Return the large tables that any of the statements walks as a whole, be it along an index.

    PostgreSQL walks over what is small, so it is told not to where there is another way.
    """
    on_sqlite = db.connections.engine.dialect.name == "sqlite"
    explain, scanned = ("EXPLAIN QUERY PLAN ", _scanned) if on_sqlite else ("EXPLAIN ", _scanned_there)
    found: set[str] = set()
    with db.read() as session:
        connection = session.connection()
        if not on_sqlite:
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        for statement, parameters in list(statements):
            if not statement.startswith(("SELECT", "WITH")):
                continue
            plan = connection.exec_driver_sql(explain + statement, parameters)
            found |= {scan for row in plan if (scan := scanned(str(row[3 if on_sqlite else 0])))}
    return found


def _scanned_there(step: str) -> str | None:
    match = re.search(r"Seq Scan on (\w+)", step)
    return match[1] if match and match[1] in LARGE else None


def _scanned(step: str) -> str | None:
    match = re.match(r"SCAN (\w+?)(?:_\d+)?(?: |$)", step)
    return match[1] if match and match[1] in LARGE and not SUMMED.search(step) else None
