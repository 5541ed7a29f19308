"""Where runs are and how fast they go."""

import pytest
from asking import make_run
from runs import add_ask
from sqlalchemy import select, update

from service.asks.tables import AskRow, TaskRow
from service.database import Database
from service.runs import progress
from service.runs.removing import holdings, remove_run
from service.runs.spending import read_account, set_cap
from service.runs.store import Run, finish_run
from service.runs.tables import PICO_PER_USD, CapRow


def start(db: Database, name: str, *tasks: tuple[str, str | None]) -> Run:
    """Make a run with tasks of these states and errors."""
    run = make_run(db, name, tasks=len(tasks))
    with db.write() as session:
        for position, (state, error) in enumerate(tasks):
            task = update(TaskRow).where(TaskRow.run_id == run.id, TaskRow.position == position)
            session.execute(task.values(state=state, error=error))
    return run


@pytest.mark.parametrize(
    ("tasks", "state"),
    [
        ([("failed", "too long")] * 2, "failed"),
        ([("open", "429")], "failed"),
        ([("done", None), ("failed", "too long")], "done"),
        ([], "done"),
    ],
)
def test_the_state_of_a_run(db, tasks, state):
    run = start(db, "r", *tasks)
    with db.write() as session:
        (found,) = progress.page_runs(session)
        assert found.state == state
        finish_run(session, run.id, finished=True)
        (found,) = progress.page_runs(session)
        assert found.state == ("finished" if state == "done" else state)
        assert progress.page_runs(session, kind="eval") == []
        assert progress.count_runs(session) == {"propose": 1}


def test_removing_a_run_keeps_shared_answers_and_what_others_have_spent(db):
    first, second = start(db, "a", ("done", None)), start(db, "b")
    with db.write() as session:
        set_cap(session, [first.id, second.id], 10.0)
        shared = add_ask(session, first.id, "", usd=0.5, scope="")
        add_ask(session, first.id, "", usd=0.5)
        add_ask(session, second.id, "", usd=0.25)
    with db.write() as session:
        assert holdings(session, first).usd == 1.0
        remove_run(session, first)
    with db.read() as session:
        left = session.execute(select(AskRow.id, AskRow.run_id, AskRow.key.is_not(None)).order_by(AskRow.id))
        assert next(tuple(row) for row in left) == (shared, None, True)
        account = read_account(session, second.id)
        committed = session.scalar(select(CapRow.committed_pico))
        assert session.query(TaskRow).count() == 0
    # The cap of both stays as far as it was used.
    assert (account, committed / PICO_PER_USD) == ((10.0, 0.25), 1.25)


def test_pace_is_of_the_last_minutes_or_from_the_first_answer_on(db):
    run, now = start(db, "r", *[("done", None)] * 2, *[("open", None)] * 3), 10_000.0
    with db.read() as session:
        assert progress.pace(session, progress.page_runs(session)[0], now) is None
        assert progress.last_ended(session, run.id) is None
    ended = (1_000, 250, 240, 120, 10)  # seconds ago; the first is too long ago
    for tokens, ago in enumerate(ended, start=1_000):
        state = "answered" if ago != 120 else "failed"
        with db.write() as session:
            ask_id = add_ask(session, run.id, "", usd=0.5, tokens=(10, tokens), state=state)
            session.execute(update(AskRow).where(AskRow.id == ask_id).values(ended_at=now - ago))
    with db.read() as session:
        found = progress.pace(session, progress.page_runs(session)[0], now)
    assert found.requests_per_minute == pytest.approx(3 / 250 * 60)
    assert found.tokens_per_second == pytest.approx((1_001 + 1_002 + 1_003 + 1_004) / 250)
    assert found.usd_per_minute == pytest.approx(4 * 0.5 / 250 * 60)
    assert found.minutes_left == pytest.approx(3 * 5 / 2 / (3 / 250 * 60))  # 3 tasks of 2.5 requests
