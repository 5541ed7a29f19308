"""What a database does for a query: which tables it walks from end to end."""

import re
from collections.abc import Callable
from typing import Any

from sqlalchemy import event
from sqlalchemy.orm import Session

from service.database import Database

LARGE = frozenset(
    (
        *("questions", "candidates", "proposals", "verdicts", "standings", "candidate_findings"),
        *("cells", "run_cells", "cell_bodies", "answers", "question_set_members"),
        *("neighbor_set_questions", "neighbor_set_members", "run_problems", "samples", "sample_texts"),
        *("grades", "sample_counts", "grade_counts", "rollouts", "rollout_texts", "rollout_tokens"),
        "rollout_prompts",
        *("rollout_groups", "train_steps", "searched_texts"),
    )
)
"""Tables that grow with the data; those of runs, sets, labels and people's reviews stay small."""


def walked(db: Database, ask: Callable[[Session], Any]) -> set[str]:
    """Return the large tables that any statement of `ask` walks as a whole, be it along an index.

    PostgreSQL, which walks over what is small, is told not to where there is another way.
    """
    statements: list[tuple[str, Any]] = []

    def note(connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        statements.append((statement, parameters))

    event.listen(db.connections.engine, "before_cursor_execute", note)
    try:
        with db.read() as session:
            ask(session)
    finally:
        event.remove(db.connections.engine, "before_cursor_execute", note)
    assert statements, "nothing was asked"
    on_sqlite = db.connections.engine.dialect.name == "sqlite"
    found: set[str] = set()
    with db.read() as session:
        connection = session.connection()
        if not on_sqlite:
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        for statement, parameters in statements:
            if not statement.startswith(("SELECT", "WITH")):
                continue
            if on_sqlite:
                plan = connection.exec_driver_sql("EXPLAIN QUERY PLAN " + statement, parameters)
                found |= {scan for row in plan if (scan := _scanned(str(row[3])))}
            else:
                plan = connection.exec_driver_sql("EXPLAIN " + statement, parameters)
                found |= _scanned_there([str(row[0]) for row in plan])
    return found


def _scanned_there(plan: list[str]) -> set[str]:
    """Return the large tables of a plan of PostgreSQL that are read without a condition on an index."""
    found: set[str] = set()
    for place, step in enumerate(plan):
        match = re.search(r"(Seq Scan|Index Scan using \w+|Index Only Scan using \w+) on (\w+)", step)
        if match is None or match[2] not in LARGE:
            continue
        behind = plan[place + 1] if place + 1 < len(plan) else ""
        if match[1] == "Seq Scan" or "Index Cond" not in behind:
            found.add(match[2])
    return found


def _scanned(step: str) -> str | None:
    match = re.match(r"SCAN (\w+?)(?:_\d+)?(?: |$)", step)
    return match[1] if match and match[1] in LARGE else None
