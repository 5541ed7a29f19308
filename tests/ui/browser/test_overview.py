"""The overview in a browser: a run that starts shows up by itself, and grows in place."""

from datetime import UTC, datetime

import pytest
from active_runs import add_active_run, finish_tasks
from eval_runs import add_eval_run
from page_view import served, tagrpo_ui

from service.database import Database


@pytest.fixture
def db(tmp_path):
    with Database.open(tmp_path / "t.db") as opened:
        add_eval_run(opened, "base.aime24", [(4, 1, 0)], benchmark="aime24")
        yield opened


def test_a_run_shows_up_by_itself_and_grows_in_place(db, tmp_path, view_of):
    with served(tagrpo_ui(tmp_path / "t.db")) as url:
        view = view_of(url).open("/")
        view.tab.get_by_text("No active runs").wait_for()
        view.tab.evaluate("window.stayed = true")
        run = add_active_run(db, "under-way", datetime.now(UTC), done=250, open_tasks=750)
        view.tab.get_by_text("250 of 1,000 questions").wait_for()
        finish_tasks(db, run, 250)
        view.tab.get_by_text("500 of 1,000 questions").wait_for()
        assert view.tab.evaluate("window.stayed") is True
        view.check()
