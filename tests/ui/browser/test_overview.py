"""The overview in a browser: a run that starts shows up by itself, and grows in place."""

from datetime import UTC, datetime

import pytest
from eval_runs import add_eval_run
from page_view import served, tagrpo_ui
from sqlalchemy import insert, update

from service.database import Database
from service.runs.tables import RunCellCountRow, RunMinuteRow, RunRow


@pytest.fixture
def db(tmp_path):
    with Database.open(tmp_path / "t.db") as opened:
        add_eval_run(opened, "base.aime24", [(4, 1, 0)], benchmark="aime24")
        yield opened


def start(db):
    now = datetime.now(UTC)
    with db.write() as session:
        session.execute(
            insert(RunRow).values(
                id="run_now",
                name="under-way",
                kind="propose",
                spec={},
                versions={},
                created_at=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
                finished_at=None,
            )
        )
        for state, cells in (("filled", 250), ("empty", 750)):
            session.execute(
                insert(RunCellCountRow).values(run_id="run_now", kind="propose", state=state, cells=cells)
            )
        session.execute(
            insert(RunMinuteRow).values(
                run_id="run_now",
                minute=now.strftime("%Y-%m-%dT%H:%M"),
                filled=250,
                failed=0,
                completion_tokens=5000,
                pico_usd=0,
            )
        )


def test_a_run_shows_up_by_itself_and_grows_in_place(db, tmp_path, view_of, pictures):
    with served(tagrpo_ui(tmp_path / "t.db")) as url:
        view = view_of(url).open("/")
        view.tab.get_by_text("No active runs").wait_for()
        view.tab.evaluate("window.stayed = true")
        start(db)
        view.tab.get_by_text("250 of 1,000 requests").wait_for()
        view.picture(pictures / "overview-running.png")
        with db.write() as session:
            session.execute(
                update(RunCellCountRow)
                .where(RunCellCountRow.run_id == "run_now", RunCellCountRow.state == "filled")
                .values(cells=500)
            )
        view.tab.get_by_text("500 of 1,250 requests").wait_for()
        assert view.tab.evaluate("window.stayed") is True
        view.check()
