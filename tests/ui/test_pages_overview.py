"""The overview: what is in the database, what runs now, all runs with the one chosen."""

import os
import time
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs

import pytest
from active_runs import add_active_run
from asking import make_run
from eval_runs import add_eval_run
from pages import numbers, open_page, said, tables
from rollout_shards import add_training, make_step
from runs import add_ask
from sqlalchemy import update

from service.asks.tables import AskRow, TaskRow
from trainer_adapter.record import RolloutWriter
from ui.pages.overview.contents import count_runs, page_runs
from ui.pages.overview.running import pace


def shown(**parameters):
    app = open_page("overview", **parameters)
    assert not app.error
    return app


def test_numbers_and_runs_are_shown(page_db):
    add_eval_run(page_db, "base.aime24", [(4, 1, 0), (4, 2, 0)], benchmark="aime24", usd=2.5)
    app = shown()
    assert numbers(app)["runs"] == "1"
    assert numbers(app)["spent"] == "2.50 USD"
    assert "No active runs" in said(app)
    table = tables(app)[-1]
    assert list(table["run"]) == ["base.aime24"]
    assert list(table["state"]) == ["finished"]
    assert [list(table[name]) for name in ("done", "open", "failed")] == [["2"], ["0"], ["0"]]


def test_money_without_a_price_is_said_to_be_a_lower_bound(page_db):
    add_eval_run(page_db, "base.aime24", [(4, 1, 0)], benchmark="aime24", usd=None)
    app = shown()
    assert "spent, at least" in numbers(app)
    assert list(tables(app)[-1]["cost, USD"]) == [""]


def links_of(app):
    """Return the links of a page that go to views, by what they say."""
    links = [link.proto for link in app.get("page_link")]
    return {link.label: (link.page, parse_qs(link.query_string)) for link in links}


def test_the_links_of_an_evaluation_lead_to_its_own_curve_and_responses(page_db):
    for seed, name in enumerate(("base.aime24", "base.amc12", "base.aime25")):
        add_eval_run(page_db, name, [(4, 1, 0)], benchmark=name.removeprefix("base."), seed=seed)
    add_eval_run(page_db, "base.amc12-again", [(4, 2, 0)], benchmark="amc12", seed=9)
    found = links_of(shown(run="base.amc12"))
    assert found["Its curve"][1] == {"run": ["base"]}
    assert found["Its responses"][1] == {"view": ["samples"], "of": ["base"], "point": ["amc12"]}
    assert links_of(shown(run="base.amc12-again"))["Its responses"][1]["of"] == ["base.amc12-again"]


def test_a_run_of_the_address_that_is_not_there_is_an_error_box(page_db):
    add_eval_run(page_db, "base.aime24", [(4, 1, 0)], benchmark="aime24")
    app = open_page("overview", run="<b>none</b>")
    assert "There is no run" in app.error[0].value
    assert "<b>" not in app.error[0].value


def test_active_runs_show_their_progress_and_stopped_ones_are_named(page_db):
    add_active_run(page_db, "now", datetime.now(UTC))
    add_active_run(page_db, "before", datetime.now(UTC) - timedelta(hours=3))
    words = said(shown())
    facts = words.split("**now**")[1].split("Stopped")[0]
    for fact in ("neighbors", "requests/min", "tokens/s", " left", "0.00 USD"):
        assert fact in facts
    assert "propose" not in facts
    assert "Stopped with open requests" in words
    assert "before (60 open)" in words
    assert "now (60 open)" not in words


def test_a_training_whose_steps_come_in_is_shown_with_its_pace(page_db, tmp_path):
    spec = {"settings": {"trainer.total_training_steps": 20}}
    with RolloutWriter(tmp_path / "ta", "ta", spec=spec) as writer:
        for step in (4, 5):
            writer.write(step, make_step(step))
    for step, before in ((4, 120), (5, 60)):
        at = time.time() - before
        os.utime(tmp_path / "ta" / f"step-{step:08d}.parquet", (at, at))
    add_training(page_db, tmp_path / "ta")
    app = shown()
    words = said(app)
    assert "16 responses per step" in words
    assert "1 min per step" in words
    assert "about 15 min left" in words
    assert "No active runs" not in words


def test_pace_is_of_the_last_minutes_or_from_the_first_answer_on(page_db):
    run, now = make_run(page_db, "r", tasks=5), 10_000.0
    with page_db.write() as session:
        done = update(TaskRow).where(TaskRow.run_id == run.id, TaskRow.position < 2)
        session.execute(done.values(state="done"))
        assert pace(session, page_runs(session)[0], now) is None
        assert (page_runs(session, kind="eval"), count_runs(session)) == ([], {"propose": 1})
    ended = (1_000, 250, 240, 120, 10)  # seconds ago; the first is too long ago
    for tokens, ago in enumerate(ended, start=1_000):
        state = "answered" if ago != 120 else "failed"
        with page_db.write() as session:
            ask_id = add_ask(session, run.id, "", usd=0.5, tokens=(10, tokens), state=state)
            session.execute(update(AskRow).where(AskRow.id == ask_id).values(ended_at=now - ago))
    with page_db.read() as session:
        going = pace(session, page_runs(session)[0], now)
    assert going.requests_per_minute == pytest.approx(3 / 250 * 60)
    assert going.tokens_per_second == pytest.approx((1_001 + 1_002 + 1_003 + 1_004) / 250)
    assert going.usd_per_minute == pytest.approx(4 * 0.5 / 250 * 60)
    assert going.minutes_left == pytest.approx(3 * 5 / 2 / (3 / 250 * 60))  # 3 tasks of 2.5 requests
