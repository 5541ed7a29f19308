"""A database of a PostgreSQL server: its schema, its rights, and what becomes of work when it goes away."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from eval_sampling import draw, every, places, running_server, start, sums
from openai_faults import Seen
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from rephraser.questions.store import store_questions
from rephraser.tables import QuestionRow
from service.asks.tables import AskRow
from service.database import Database, locate_database, postgresql
from service.database.place import without_password
from service.errors import BudgetError, DatabaseError
from service.questions.question import make_question
from service.runs.progress import read_account
from service.runs.tables import PICO_PER_USD, CapRow

OPEN = "import sys; from service.database import Database; Database.open(sys.argv[1]).close()"


@pytest.fixture
def url(cluster):
    made = cluster.empty()
    yield made
    cluster.drop(made)


def store(db: Database, *texts: str) -> None:
    with db.write() as session:
        store_questions(session, [make_question(each, "1") for each in texts])


def count(db: Database) -> int:
    with db.read() as session:
        return session.scalar(select(func.count()).select_from(QuestionRow)) or 0


@pytest.mark.slow
def test_of_several_starters_one_makes_the_schema(cluster):
    made = cluster.empty(schema=False)
    starters = [subprocess.Popen([sys.executable, "-c", OPEN, made]) for _ in range(3)]
    assert [starter.wait(60) for starter in starters] == [0, 0, 0]
    with Database.open(made) as db:
        assert db.integrity_report() == []
    cluster.drop(made)


def test_a_place_that_cannot_be_used_is_named_with_the_way_out(cluster, url, monkeypatch):
    def refused(place: str, words: str, **how: bool) -> None:
        with pytest.raises(DatabaseError, match=words) as refusal:
            Database.open(place, **how)
        assert "secret" not in str(refusal.value)
        assert "\n" not in str(refusal.value)

    refused(
        url.replace("tagrpo@", "tagrpo:secret@") + "_not", r'"t\w+_not" does not exist\. Create it: `createdb'
    )
    refused(url.replace("tagrpo@", "nobody_here:secret@"), "Create it: `createuser nobody_here`")
    refused(url.replace(str(cluster.port), "1"), "the server cannot be reached")
    refused("mysql://root@host/name", r"Give a file, or postgresql\+psycopg://USER@HOST/NAME")
    refused("postgresql://tagrpo:secret@host", "names no database")
    bare = cluster.empty(schema=False)
    refused(bare, "the database is empty", create=False)
    refused(bare, "the database is empty", read_only=True)
    for statement, words in (
        ("CREATE TABLE photos (id int)", "that is not from tagrpo"),
        ("CREATE TABLE alembic_version (version_num text)", "another version of tagrpo"),
    ):
        with psycopg.connect(bare.replace("+psycopg", "")) as connection:
            connection.execute(statement)
            if "alembic" in statement:
                connection.execute("INSERT INTO alembic_version VALUES ('9.0')")
        refused(bare, words)
    cluster.drop(bare)
    monkeypatch.setattr(postgresql, "find_spec", lambda name: None)
    refused(url, "Install the extra `postgresql`")


def test_a_place_shows_no_password_and_keeps_it_for_those_it_is_given_on_to(monkeypatch):
    monkeypatch.setenv("TAGRPO_DB", "postgres://ann:secret@host/name?password=secret&sslmode=require")
    place = locate_database(None)
    assert str(place) == "postgresql+psycopg://ann:***@host/name?sslmode=require"
    assert "secret" not in repr(place)
    assert place.render_as_string(hide_password=False).count("secret") == 1
    assert str(without_password(place)) == "postgresql+psycopg://ann@host/name?sslmode=require"


def test_a_reader_only_reads_and_nobody_changes_rows_that_matter(cluster, url):
    with Database.open(url) as db:
        store(db, "a")
    cluster.run("DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN")
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    reader = url.replace("tagrpo@", "reader@")
    with Database.open(reader, read_only=True) as db:
        assert count(db) == 1
        with pytest.raises(DatabaseError, match="cannot be written"):
            store(db, "b")
    with (
        Database.open(reader, create=False) as db,
        pytest.raises(DatabaseError, match="reader lacks the permission"),
    ):
        store(db, "b")
    with Database.open(url) as db:
        for statement in (
            "UPDATE questions SET answer = '2'",
            "DELETE FROM questions",
            "TRUNCATE questions CASCADE",
        ):
            with pytest.raises(Exception, match="append-only"), db.write() as session:
                session.execute(text(statement))
        assert count(db) == 1


def test_a_reader_sees_one_state_and_writers_one_another(url):
    with Database.open(url) as db, db.read() as session:
        before = session.scalar(select(func.count()).select_from(QuestionRow))
        threads = [
            threading.Thread(target=lambda k=k: [store(db, f"{k}-{i}", "shared") for i in range(10)])
            for k in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert session.scalar(select(func.count()).select_from(QuestionRow)) == before == 0
        assert count(db) == 41


@pytest.mark.slow
def test_a_server_that_restarts_is_waited_for(cluster, url):
    with Database.open(url) as db:
        store(db, "before")
        cluster.stop(how="immediate")
        started = threading.Timer(0.5, cluster.start)
        started.start()
        store(db, "after")
        started.join()
        assert count(db) == 2


@pytest.mark.parametrize("reached", [True, False])
def test_a_connection_cut_in_the_commit_is_asked_after(url, monkeypatch, reached):
    """The server has committed and its word is lost, or it has not: then nothing was written."""
    monkeypatch.setitem(postgresql._SETTINGS, "lock_timeout", "500ms")
    with Database.open(url) as db, psycopg.connect(url.replace("+psycopg", "")) as another_writer:
        dialect = db.engine.dialect
        commit = dialect.do_commit

        def cut(connection: Any) -> None:
            if reached:
                commit(connection)
                another_writer.execute(postgresql._TAKE_LOCK)
            connection.driver_connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

        monkeypatch.setattr(dialect, "do_commit", cut)
        if reached:
            store(db, "a")
        else:
            with pytest.raises(DatabaseError, match="The last step was not written"):
                store(db, "a")
        monkeypatch.setattr(dialect, "do_commit", commit)
        assert count(db) == reached


def test_an_error_is_kept_when_the_connection_is_lost_too(url):
    def spend(session: Session) -> None:
        session.connection().connection.driver_connection.close()
        raise BudgetError("the cap is reached")

    with Database.open(url) as db, pytest.raises(BudgetError):
        db.repeat(spend, write=True)


@pytest.mark.slow
@pytest.mark.parametrize(("dies", "others"), [("server", 0), ("server", 3), ("backend", 3)])
def test_a_number_that_a_server_reuses_is_not_the_lost_transaction(cluster, url, monkeypatch, others, dies):
    """What is lost was not on disk yet; others may write before the one who lost it asks."""
    plain = url.replace("+psycopg", "")
    with Database.open(url) as db:
        store(db, "before")
        dialect = db.engine.dialect
        commit = dialect.do_commit

        def crash(connection: Any) -> None:
            monkeypatch.setattr(dialect, "do_commit", commit)
            if dies == "server":
                cluster.stop(how="immediate")
                cluster.start()
            else:  # as by the kernel where memory is short: all of the server's processes start anew
                with suppress(psycopg.OperationalError), psycopg.connect(plain) as bystander:
                    os.kill(connection.driver_connection.info.backend_pid, signal.SIGKILL)
                    while True:
                        bystander.execute("SELECT 1")
                with db.read():  # waits for it
                    pass
            for number in range(others):
                with Database.open(url) as other:
                    store(other, f"other {number}")
            commit(connection)

        monkeypatch.setattr(dialect, "do_commit", crash)
        with pytest.raises(DatabaseError, match="The last step was not written"):
            store(db, "mine")
        assert count(db) == 1 + others


@pytest.mark.slow
def test_a_restart_in_the_middle_of_a_run_loses_nothing_and_pays_nothing_twice(cluster, url):
    def restart_once(seen: Seen) -> None:
        if seen.ordinal == 17:
            cluster.stop(how="immediate")
            cluster.start()

    with Database.open(url) as db, running_server(faults=restart_once) as server:
        run = start(db, "run", sums(10), samples_per_request=1, max_tokens=20)
        outcome = draw(db, run, server, 4, price=(1000.0, 1000.0), max_usd=20.0, at_once=8)
        assert (outcome.open, outcome.stopped) == (0, None)
        assert (server.stats["paid"], server.stats["paid_again"]) == (40, 0)
        assert places(db, run) == every(10, 4)
        with db.read() as session:
            _, spent = read_account(session, run.id)
            committed = session.scalar(select(CapRow.committed_pico))
            assert set(session.scalars(select(AskRow.state))) == {"answered"}
        assert committed / PICO_PER_USD == spent == pytest.approx(server.stats["tokens"] / 1000)
