"""The queries of the pages on a small copy of the database that they are measured on: none walks a table."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pages import open_page
from plans import walked
from postgres_cluster import Cluster
from sqlalchemy import Engine, event, text

from benchmarks.pages.database import make_database
from service.database import Database, Place
from service.database.copying import copy_database

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
