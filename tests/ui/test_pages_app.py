"""The pages as scripts: without a database, on one of an older version, and on a file that is none."""

import sqlite3

import pytest
from pages import open_page
from runs import open_empty

from service.database import Database, schema
from ui.pages.text.markup import escaped


def test_a_missing_database_says_how_to_make_one(tmp_path):
    path = tmp_path / "none.db"
    app = open_page("overview", path)
    assert f"tagrpo questions import FILE --name NAME --db {path}" in [code.value for code in app.code]
    assert not path.exists()


@pytest.mark.sqlite  # names a file
@pytest.mark.parametrize(
    ("page", "command"),
    [
        *((page, "questions import FILE") for page in ("overview", "questions", "review", "sets")),
        *((page, "train rollouts FOLDER") for page in ("rollouts", "signal")),
        ("curves", "eval run"),
    ],
)
def test_a_page_of_an_empty_database_says_what_to_do(tmp_path, page, command):
    path = tmp_path / "nothing at all.db"
    open_empty(path).close()
    commands = [code.value for code in open_page(page, path).code]
    assert [one for one in commands if one.startswith(f"tagrpo {command} ") and one.endswith(f" '{path}'")]


@pytest.mark.sqlite  # compares a file
@pytest.mark.parametrize(
    ("revision", "way_out"), [("0011", "choose another file with"), ("0.9", "tagrpo db upgrade")]
)
def test_an_older_database_says_the_way_out_and_stays_as_it_is(tmp_path, monkeypatch, revision, way_out):
    monkeypatch.setattr(schema, "UPGRADABLE", ("0.9",))
    path = tmp_path / "old.db"
    Database.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    before = path.read_bytes()
    assert escaped(way_out) in open_page("questions", path).error[0].value
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_an_error_that_names_it(tmp_path):
    path = tmp_path / "text.db"
    path.write_text("hello " * 100)
    assert escaped(str(path)) in open_page("overview", path).error[0].value
