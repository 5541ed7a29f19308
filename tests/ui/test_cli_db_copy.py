"""`tagrpo db copy`: the demo's database to a PostgreSQL server and back, and the same commands on both."""

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import CommandLine, run_here
from pictures import picture
from postgres_cluster import Cluster
from sqlalchemy import text

from service.database import Database
from service.questions import make_question, store_questions
from service.questions.images import read_image, store_images
from ui.shipped_demo.unpacking import shipped_demo

pytestmark = [pytest.mark.slow, pytest.mark.sqlite]  # from a file


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped demo, with a text that its index of letters finds quickly, and a question with an image."""
    path = tmp_path_factory.mktemp("demo") / "demo.db"
    shutil.copy(shipped_demo()[0], path)
    image = read_image(picture("red"))
    with Database.open(path) as db, db.write() as session:
        store_images(session, [image])
        store_questions(session, [make_question("Find x.", "2", images=[image.id])])
    return path


@pytest.fixture(scope="module")
def url(cluster: Cluster, demo: Path) -> Iterator[str]:
    """A database on the server that the demo was copied to."""
    made = cluster.empty(schema=False)
    record = run_here.json("db", "copy", demo, made)
    assert (record["from"], record["to"]) == (str(demo), made)
    assert record["rows"]["samples"] > 1000
    yield made
    cluster.drop(made)


def test_it_comes_back_as_it_went(cli: CommandLine, demo: Path, url: str) -> None:
    assert "same content" in cli.ok("db", "copy", url, "back.db").out

    def rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
        connection = sqlite3.connect(path)
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {
            name: sorted(connection.execute(f'SELECT * FROM "{name}"').fetchall(), key=repr)
            for (name,) in names
        }

    assert rows(Path("back.db")) == rows(demo)
    cli.ok("db", "check", "--db", "back.db")
    assert cli("db", "copy", demo, "back.db").err.count("already contains rows") == 1
    cli.refused("db", "copy", demo, demo)


@pytest.mark.parametrize(
    "command",
    [
        "questions list",
        "questions list --suspects",
        "rephrase list",
        "rephrase list --reviews",
        "runs list",
        "sets list",
        "eval report base.heldout ta_grpo-s1.heldout",
        "eval compare base.heldout ta_grpo-s1.heldout",
        "runs show candidates",
        "train rollouts ta_grpo-s1 --limit 20",
        "train metrics ta_grpo-s1",
        "doctor",
        "db check",
    ],
    ids=str,
)
def test_commands_say_the_same_of_both(cli: CommandLine, demo: Path, url: str, command: str) -> None:
    file, server = (cli(*command.split(), "--json", "--db", place) for place in (demo, url))
    assert server.code == file.code, server.err
    if command not in ("doctor", "db check"):
        # A sum of fractions hangs on its order, in the last digit.
        file_says, server_says = (json.loads(done.out, parse_float=_rounded) for done in (file, server))
        assert server_says == file_says
    else:
        assert url.rpartition("/")[2] in server.out


def _rounded(text: str) -> float:
    return float(f"{float(text):.12g}")


def test_the_server_goes_on_numbering_counting_and_refusing(url: str) -> None:
    with Database.open(url) as db, db.write() as session:
        session.execute(
            text("INSERT INTO questions (id, text, answer, created_at) VALUES ('q', 't', '1', '')")
        )
        session.execute(text("INSERT INTO caps (max_pico, committed_pico) VALUES (1, 0)"))
        session.rollback()
    with Database.open(url) as db, pytest.raises(Exception, match="append-only"), db.write() as session:
        session.execute(text("DELETE FROM questions"))


def test_what_only_a_file_has_is_said(cli: CommandLine, url: str) -> None:
    assert "copies SQLite files only. Use `pg_dump " in cli.refused("db", "backup", "copy.db", "--db", url)
    assert "bytes after" in cli.ok("db", "upgrade", "--vacuum", "--db", url).out
    cli.ok("db", "upgrade", "--db", url)
    assert os.listdir() == []
