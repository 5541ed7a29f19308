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
        *("asks", "ask_bodies", "tasks", "notes", "question_set_members"),
        *("neighbor_set_questions", "neighbor_set_members", "run_problems", "samples", "sample_texts"),
        *("grades", "sample_counts", "grade_counts", "rollouts", "rollout_texts", "rollout_tokens"),
        "rollout_prompts",
        *("rollout_groups", "train_steps", "searched_texts"),
    )
)
"""Tables that grow with the data; those of runs, sets, labels and people's reviews stay small."""


def walked(db: Database, ask: Callable[[Session], Any], *, on_server: bool = False) -> set[str]:
    """Return the large tables that any statement of `ask` walks as a whole, be it along an index.

    On PostgreSQL nothing is said of tables unless `on_server`: it walks over what is small, and is then told
    not to where there is another way.
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
    if not on_sqlite and not on_server:
        return found
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
                found |= {scan for row in plan if (scan := _scanned_there(str(row[0])))}
    return found


def _scanned_there(step: str) -> str | None:
    match = re.search(r"Seq Scan on (\w+)", step)
    return match[1] if match and match[1] in LARGE else None


def _scanned(step: str) -> str | None:
    match = re.match(r"SCAN (\w+?)(?:_\d+)?(?: |$)", step)
    return match[1] if match and match[1] in LARGE else None
