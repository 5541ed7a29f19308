"""The pages as scripts: without a database, on one of an older version, and on a file that is none."""

import sqlite3
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from service.database import Database, schema
from ui.pages.server.serving import SCRIPT
from ui.pages.state import database, settings
from ui.pages.state.links import page_file
from ui.pages.text.markup import escaped


@pytest.fixture
def on(tmp_path):
    """Let the pages show a database file."""

    def use(path: Path, *, review: bool = False) -> Path:
        settings.use(settings.Settings(path, review))
        return path

    yield use
    settings.use(None)
    database.forget()


def opened(page: str) -> AppTest:
    app = AppTest.from_file(str(SCRIPT), default_timeout=30)
    app.run()
    if page != "overview":
        app.switch_page(page_file(page)).run()
    return app


def test_a_missing_database_says_how_to_make_one(on, tmp_path):
    path = on(tmp_path / "none.db")
    app = opened("overview")
    assert not app.exception
    assert f"tagrpo questions import FILE --name NAME --db {path}" in [code.value for code in app.code]
    assert not path.exists()


@pytest.mark.sqlite  # compares a file
@pytest.mark.parametrize(
    ("revision", "way_out"), [("0011", "choose another file with"), ("0.9", "tagrpo db upgrade")]
)
def test_an_older_database_says_the_way_out_and_stays_as_it_is(on, tmp_path, monkeypatch, revision, way_out):
    monkeypatch.setattr(schema, "REVISIONS", (schema.Revision("0.9"), *schema.REVISIONS))
    path = on(tmp_path / "old.db")
    Database.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    before = path.read_bytes()
    app = opened("questions")
    assert not app.exception
    assert escaped(way_out) in app.error[0].value
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_an_error_that_names_it(on, tmp_path):
    path = on(tmp_path / "text.db")
    path.write_text("hello " * 100)
    app = opened("overview")
    assert not app.exception
    assert escaped(str(path)) in app.error[0].value
