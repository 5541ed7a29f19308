"""The queries of the pages on a small copy of the database that they are measured on: none walks a table."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pages import open_page
from postgres_cluster import Cluster
from sqlalchemy import Engine, event, text

from benchmarks.pages.database import make_database
from service.database import Database, Place
from service.database.postgresql.copying import copy_database

pytestmark = [pytest.mark.slow, pytest.mark.sqlite]  # plans

VIEWS = [
    ("overview", {}),
    ("questions", {}),
    ("questions", {"subject": "Geometry", "level": "Level 3"}),
    ("questions", {"verdict": "rejected", "strategy": "format"}),
    ("questions", {"finding": "number_missing"}),
    ("questions", {"neighbors": "math-ta@1"}),
    ("review", {"reviewer": "ada"}),
    ("review", {"reviewer": "ada", "audit": "1", "view": "Results"}),
    ("sets", {}),
    ("sets", {"view": "changes"}),
    ("rollouts", {}),
    ("curves", {}),
    ("curves", {"view": "samples", "grade": "wrong"}),
    ("curves", {"view": "differences"}),
    ("signal", {"view": "difficulty"}),
]
"""A search for words is not among them: it reads all texts."""


LARGE = frozenset(
    (
        *("questions", "candidates", "proposals", "verdicts", "standings", "candidate_findings"),
        *("asks", "ask_bodies", "tasks", "notes", "question_set_members"),
        *("neighbor_set_questions", "neighbor_set_members", "run_problems", "samples", "sample_texts"),
        *("grades", "sample_counts", "grade_counts", "rollouts", "rollout_texts", "rollout_tokens"),
        "rollout_prompts",
        *("rollout_groups", "train_steps"),
    )
)
"""Tables that grow with the data; those of runs, sets, labels and people's reviews stay small."""


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
    return match[1] if match and match[1] in LARGE else None


@contextmanager
def statements() -> Iterator[list[tuple[str, object]]]:
    """Collect what is sent to any database."""
    sent: list[tuple[str, object]] = []

    def note(connection, cursor, statement, parameters, *_):
        sent.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(Engine, "before_cursor_execute", note)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    path = tmp_path_factory.mktemp("pages") / "t.db"
    make_database(path, scale=0.01)
    return path


@pytest.fixture(scope="module")
def on_a_server(place: Place, cluster: Cluster) -> Iterator[Place]:
    """The same rows on PostgreSQL, which knows how many there are."""
    url = cluster.empty()
    copy_database(place, url, report=lambda *_: None)
    with Database.open(url, read_only=True) as copied:
        copied.connections.run_alone("ANALYZE")
        yield copied.place
    cluster.drop(url)


def walks(place: Place) -> dict[str, set[str]]:
    found = {}
    with Database.open(place, read_only=True) as database:
        for name, address in VIEWS:
            with statements() as sent:
                open_page(name, place, **address)
            assert sent
            found[f"{name} {address}"] = walked(database, sent)
    return found


def test_no_view_of_a_page_walks_a_table(place: Place) -> None:
    assert {view: tables for view, tables in walks(place).items() if tables} == {}


def test_no_view_of_a_page_walks_a_table_of_a_server(on_a_server: Place) -> None:
    assert {view: tables for view, tables in walks(on_a_server).items() if tables} == {}


def test_counting_rows_and_reading_all_texts_would_walk_tables(place: Place) -> None:
    with Database.open(place, read_only=True) as database, statements() as sent:
        with database.read() as session:
            session.execute(text("SELECT value, count(*) FROM grades GROUP BY value")).all()
            session.execute(text("SELECT id FROM questions WHERE text LIKE '%tangent%'")).all()
        assert walked(database, sent) == {"grades", "questions"}
