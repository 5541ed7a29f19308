"""One database in a file and on a PostgreSQL server: copied both ways, the same commands, page queries."""

import json
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from command_line import run_here
from pages import open_page
from pictures import picture
from sqlalchemy import Engine, event, text

from benchmarks.pages.database import make_database
from rephraser.questions.store import store_questions
from service.database import Database, Place
from service.database.place import parse_place
from service.questions.images import read_image, store_images
from service.questions.question import make_question

pytestmark = [pytest.mark.slow, pytest.mark.sqlite]  # from a file


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A small copy of the database that the pages are measured on, with an image."""
    path = tmp_path_factory.mktemp("pages") / "t.db"
    make_database(path, scale=0.01)
    image = read_image(picture("red"))
    with Database.open(path) as db, db.write() as session:
        store_images(session, [image])
        store_questions(session, [make_question("Find x.", "2", images=[image.id])])
    return path


@pytest.fixture(scope="module")
def url(cluster, file):
    """The same rows on a server, which knows how many there are."""
    made = cluster.empty(schema=False)
    record = run_here.json("db", "copy", file, made)
    assert (record["from"], record["to"]) == (str(file), made)
    assert record["rows"]["samples"] > 1000
    with Database.open(made, read_only=True) as copied:
        copied.vacuum()
    yield made
    cluster.drop(made)


def test_it_comes_back_as_it_went(cli, file, url):
    assert "same content" in cli.ok("db", "copy", url, "back.db").out

    def rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
        connection = sqlite3.connect(path)
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {
            name: sorted(connection.execute(f'SELECT * FROM "{name}"').fetchall(), key=repr)
            for (name,) in names
        }

    assert rows(Path("back.db")) == rows(file)
    cli.ok("db", "check", "--db", "back.db")
    assert cli("db", "copy", file, "back.db").err.count("already contains rows") == 1
    cli.refused("db", "copy", file, file)


def test_commands_say_the_same_of_both(cli, file, url):
    for command in (
        *("questions list math", "questions list --suspects", "rephrase list", "rephrase list --reviews"),
        *("runs list", "runs show math-neighbors", "sets list"),
        *("eval report grpo.aime ta_grpo.aime", "eval compare grpo.aime ta_grpo.aime"),
        *("train rollouts ta_grpo --limit 20", "train metrics ta_grpo", "doctor", "db check"),
    ):
        of_file, of_server = (cli(*command.split(), "--json", "--db", place) for place in (file, url))
        assert of_server.code == of_file.code, of_server.err
        if command in ("doctor", "db check"):
            assert url.rpartition("/")[2] in of_server.out
        else:
            # A sum of fractions hangs on its order, in the last digit.
            said = [json.loads(done.out, parse_float=_rounded) for done in (of_file, of_server)]
            assert said[0] == said[1], command


def _rounded(text: str) -> float:
    return float(f"{float(text):.12g}")


def test_the_server_goes_on_numbering_counting_and_refusing(url):
    with Database.open(url) as db, db.write() as session:
        session.execute(
            text("INSERT INTO questions (id, text, answer, created_at) VALUES ('q', 't', '1', '')")
        )
        session.execute(text("INSERT INTO caps (max_pico, committed_pico) VALUES (1, 0)"))
        session.rollback()
    with Database.open(url) as db, pytest.raises(Exception, match="append-only"), db.write() as session:
        session.execute(text("DELETE FROM questions"))


def test_what_only_a_file_has_is_said(cli, url):
    assert "copies SQLite files only. Use `pg_dump " in cli.refused("db", "backup", "copy.db", "--db", url)
    assert "bytes after" in cli.ok("db", "upgrade", "--vacuum", "--db", url).out
    shown = cli.ok("db", "upgrade", "--json", "--db", url.replace("tagrpo@", "tagrpo:secret@")).out
    assert "tagrpo:***@" in shown
    assert "secret" not in shown
    assert os.listdir() == []


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


LARGE = {
    *("questions", "candidates", "proposals", "verdicts", "standings", "candidate_findings"),
    *("asks", "ask_bodies", "tasks", "notes", "run_problems", "samples", "sample_texts", "grades"),
    *("neighbor_set_questions", "neighbor_set_members", "sample_counts", "grade_counts"),
}
"""Tables that grow with the data; those of runs, sets and people's reviews stay small."""
SUMMED = re.compile(
    r"COVERING INDEX (ix_asks_costs|ix_standings_counted|ix_questions_\w+|sqlite_autoindex_questions_1)"
)
"""Narrow indexes that pages sum: 200,000 asks take 0.08 s, 30,000 standings 0.01 s."""


def walked(db: Database, statements: Iterable[tuple[str, Any]]) -> set[str]:
    """Return the large tables that any of the statements walks as a whole, be it along an index.

    PostgreSQL walks over what is small, so it is told not to where there is another way.
    """
    on_sqlite = db.engine.dialect.name == "sqlite"
    explain = "EXPLAIN QUERY PLAN " if on_sqlite else "EXPLAIN "
    step = re.compile(r"SCAN (\w+?)(?:_\d+)?(?: |$)" if on_sqlite else r".*Seq Scan on (\w+)")
    found: set[str] = set()
    with db.read() as session:
        connection = session.connection()
        if not on_sqlite:
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        for statement, parameters in list(statements):
            if not statement.startswith(("SELECT", "WITH")):
                continue
            for row in connection.exec_driver_sql(explain + statement, parameters):
                line = str(row[3 if on_sqlite else 0])
                match = step.match(line)
                if match and match[1] in LARGE and not SUMMED.search(line):
                    found.add(match[1])
    return found


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


def walks(place: Place) -> dict[str, set[str]]:
    found = {}
    with Database.open(place, read_only=True) as database:
        for name, address in VIEWS:
            with statements() as sent:
                open_page(name, place, **address)
            assert sent
            found[f"{name} {address}"] = walked(database, sent)
    return found


def test_no_view_of_a_page_walks_a_table(file):
    assert {view: tables for view, tables in walks(file).items() if tables} == {}


def test_no_view_of_a_page_walks_a_table_of_a_server(url):
    assert {view: tables for view, tables in walks(parse_place(url)).items() if tables} == {}


def test_counting_rows_and_reading_all_texts_would_walk_tables(file):
    with Database.open(file, read_only=True) as database, statements() as sent:
        with database.read() as session:
            session.execute(text("SELECT value, count(*) FROM grades GROUP BY value")).all()
            session.execute(text("SELECT id FROM questions WHERE text LIKE '%tangent%'")).all()
        assert walked(database, sent) == {"grades", "questions"}
