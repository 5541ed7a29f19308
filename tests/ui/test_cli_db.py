"""`tagrpo db`: a sound database, a damaged one, copies, and space given back."""

import json
import os
import sqlite3
from pathlib import Path

import pytest
from json_rows import write_rows
from runs import open_empty
from sqlalchemy import text

from service.database import Database
from service.database.schema import HEAD_REVISION

pytestmark = pytest.mark.sqlite  # pages of a file


@pytest.fixture
def db(cli):
    path = Path("t.db")
    with open_empty(path) as database, database.write() as session:
        session.execute(text("CREATE TABLE ballast (content)"))
        session.execute(text("INSERT INTO ballast VALUES (zeroblob(2000000))"))
    return path


def test_a_sound_database_is_called_so(cli, db):
    sound = f"database  t.db\nrevision  {HEAD_REVISION}\nsets      0\nno problems found\n"
    assert cli.ok("db", "check", "--db", db).out == sound


def test_what_is_wrong_is_named(cli, db):
    with sqlite3.connect(db) as connection:
        connection.execute("INSERT INTO run_questions VALUES ('no run', 0, 'no question')")
    done = cli("db", "check", "--db", db, "--json")
    problems = json.loads(done.out)["problems"]
    assert (done.code, len(problems)) == (3, 2)
    assert all(problem.startswith("run_questions row") for problem in problems)
    assert "restore a backup" in done.err


def test_damaged_pages_are_named(cli, db):
    with sqlite3.connect(db) as connection:
        size = connection.execute("PRAGMA page_size").fetchone()[0]
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'runs'"
        root = connection.execute(query).fetchone()[0]
    pages = bytearray(db.read_bytes())
    pages[(root - 1) * size : root * size] = os.urandom(size)
    db.write_bytes(pages)
    assert "restore a backup" in cli.warned("db", "check", "--db", db).err
    assert "damaged" in cli.refused("db", "backup", "copy.db", "--db", db)
    assert not Path("copy.db").exists()


def test_a_copy_is_whole_while_somebody_writes_and_needs_nothing_beside_it(cli, db, tmp_path):
    folder = tmp_path / "copies"
    folder.mkdir()
    with Database.open(db) as writer, writer.write() as session:
        session.execute(text("DELETE FROM ballast"))  # not committed yet
        cli.ok("db", "backup", folder / "copy.db", "--db", db)
    assert os.listdir(folder) == ["copy.db"]
    with Database.open(folder / "copy.db", read_only=True) as copy, copy.read() as session:
        assert session.execute(text("SELECT count(*) FROM ballast")).scalar() == 1
    assert "already exists" in cli.refused("db", "backup", folder / "copy.db", "--db", db)
    refused = cli.refused("db", "backup", tmp_path / "no" / "copy.db", "--db", db)
    assert "does not exist. Create it first" in refused


def test_nothing_of_a_copy_is_left_where_the_database_is_damaged(cli, tmp_path):
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"question,answer\n" * 1000)
    before = sorted(tmp_path.rglob("*"))
    assert "not an SQLite database" in cli.refused("db", "backup", tmp_path / "copy.db", "--db", broken)
    assert sorted(tmp_path.rglob("*")) == before


def test_space_of_what_was_removed_is_given_back(cli, db):
    with Database.open(db) as database, database.write() as session:
        session.execute(text("DROP TABLE ballast"))
    done = cli("db", "upgrade", "--vacuum", "--db", db, "--json")
    sizes = json.loads(done.out)
    assert sizes["bytes_before"] - sizes["bytes_after"] > 1_900_000
    assert db.stat().st_size == sizes["bytes_after"]


def test_reading_writes_nothing_to_an_empty_file_and_an_upgrade_leaves_a_new_database_alone(cli, db):
    Path("empty.db").touch()
    assert "the database is empty" in cli.refused("runs", "list", "--db", "empty.db")
    assert Path("empty.db").stat().st_size == 0
    before = db.read_bytes()
    assert cli("db", "upgrade", "--db", db).out == f"database  t.db\nrevision  {HEAD_REVISION}\n"
    assert db.read_bytes() == before


def test_a_wrong_name_or_file_leaves_no_new_database(cli):
    row = {"question": "What is 1 + 1?", "answer": "2"}
    write_rows("sums.jsonl", row)
    write_rows("responses.jsonl", {**row, "response": "2"})
    for command in (
        "eval run nothing --model hosted_vllm/m",
        "eval run absent.jsonl --model hosted_vllm/m",
        "eval run aime24 --from absent.jsonl --model hosted_vllm/m",
        "eval run sums.jsonl --model hosted_vllm/m --name a/b",
        "eval run sums.jsonl --model hosted_vllm/m -c absent.toml",
        "eval run neighbors=nothing --model hosted_vllm/m",
        "eval import absent.jsonl --model m",
        "eval import responses.jsonl --model m --name a/b",
        "questions import absent.jsonl",
        "questions import sums.jsonl --name a/b",
        "sets import absent.jsonl --name x",
        "sets import sums.jsonl --name x",
        "eval run sums.jsonl --model hosted_vllm/m --base-url http://me:secret@localhost:1/v1",
    ):
        cli.refused(*command.split(), "--db", "new.db")
        assert not Path("new.db").exists(), command
