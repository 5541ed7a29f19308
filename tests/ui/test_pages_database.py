"""Reading the database from pages: stamps, kept results, and a writer that can add reviews only."""

import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import func, select, text

from rephraser.tables import QuestionSetRow
from service.database import Database
from service.database.place import parse_place
from service.errors import DatabaseError
from ui.pages.state import database, settings
from ui.pages.state.database import cached, reading, review_writer, stamp


@pytest.fixture
def served(tmp_path):
    """An empty database that the pages of this process show."""
    path = tmp_path / "t.db"
    Database.open(path).close()
    settings.use(settings.PageSettings(path))
    return path


@cached
def count_sets(session):
    return session.scalar(select(func.count()).select_from(QuestionSetRow))


@pytest.mark.sqlite  # of a file
def test_the_stamp_changes_with_a_file_put_in_the_place_of_the_old_one(served, tmp_path):
    first = stamp()
    other = tmp_path / "other.db"
    with Database.open(other) as opened, opened.write() as session:
        session.add(QuestionSetRow(name="b", spec={}, created_at="2026-01-01T00:00:00Z"))
    other.replace(served)
    assert stamp() != first
    with reading() as session:
        assert session.scalar(select(QuestionSetRow.name)) == "b"


@pytest.mark.sqlite  # of a file
def test_reading_sees_what_a_run_commits_meanwhile_and_never_waits_for_it(served):
    with sqlite3.connect(served, isolation_level=None) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("INSERT INTO question_sets (name, spec, created_at) VALUES ('a', '{}', 't')")
        assert count_sets() == 0
        writer.execute("COMMIT")
    assert count_sets() == 1


def test_a_result_is_made_once_though_several_tabs_ask_and_the_oldest_is_forgotten(served, monkeypatch):
    monkeypatch.setattr(database, "_MOST_KEPT", 2)
    made, both_asked = [], threading.Barrier(2)

    def make():
        made.append(1)
        time.sleep(0.1)
        return [1]

    def ask(_):
        both_asked.wait(10)
        return database.keep("slow", make)

    with ThreadPoolExecutor(2) as tabs:
        first, second = tabs.map(ask, range(2))
    assert first == second == [1]
    assert first is not second
    assert made == [1]
    for other in ("a", "b"):
        database.keep(other, make)
    database.keep("slow", make)
    assert len(made) == 4


def test_pages_cannot_write_and_reviews_need_the_option(served):
    with pytest.raises(Exception, match=r"readonly|read-only|cannot be written"), reading() as session:
        session.execute(text("DELETE FROM question_sets"))
    with pytest.raises(DatabaseError, match="tagrpo ui --review"), review_writer():
        pass


def adds_reviews_only(*statements):
    for statement in statements:
        with pytest.raises(DatabaseError, match="the UI may only add reviews"), review_writer() as session:
            session.execute(text(statement))
    with review_writer() as session:
        assert session.scalar(text("SELECT count(*) FROM reviews")) == 0


def test_the_writer_of_reviews_can_write_nothing_else_on_a_server(cluster):
    url = cluster.empty()
    settings.use(settings.PageSettings(parse_place(url), review=True))
    adds_reviews_only("DELETE FROM question_sets", "UPDATE runs SET name = 'x'", "DROP TABLE reviews")
    settings.use(None)
    database.forget()
    cluster.drop(url)


@pytest.mark.sqlite  # of a file
def test_the_writer_of_reviews_can_write_nothing_else(served):
    settings.use(settings.PageSettings(served, review=True))
    adds_reviews_only(
        "DELETE FROM question_sets",
        "INSERT INTO question_sets (name, spec, created_at) VALUES ('a', '{}', 't')",
        "UPDATE runs SET name = 'x'",
        "DROP TABLE reviews",
        "CREATE TABLE more (x)",
        "PRAGMA user_version = 3",
        "ATTACH DATABASE '/tmp/none.db' AS other",
    )
