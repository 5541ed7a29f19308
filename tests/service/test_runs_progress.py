"""Where runs are and how fast they go."""

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select, update

from service.asks.attempts import Attempt, Ended, begin, end
from service.asks.store import add_tasks
from service.asks.tables import AskRow, TaskRow
from service.database import Database
from service.runs import progress
from service.runs.progress import Minute, RunProgress
from service.runs.removing import holdings, remove_run
from service.runs.spending import read_account, set_cap
from service.runs.store import Run, finish_run, open_run


def start(db: Database, name: str, *tasks: tuple[str, str | None]) -> Run:
    """Make a run with tasks of these states and errors."""
    with db.write() as session:
        run, _ = open_run(session, name=name, kind="propose", spec={}, question_ids=(), versions={})
        add_tasks(session, run.id, [f"{name} {number}" for number in range(len(tasks))])
        for position, (state, error) in enumerate(tasks):
            task = update(TaskRow).where(TaskRow.run_id == run.id, TaskRow.position == position)
            session.execute(task.values(state=state, error=error))
    return run


def add_ask(db: Database, run: Run, state: str, usd: float | None, tokens: int, scope: str = "") -> int:
    """Store a request that ended; its worst case is a dollar if its price is known."""
    key = bytes(f"{run.id}{scope}{tokens}{state}".encode())
    with db.write() as session:
        worst = None if usd is None else 10**12
        (ask_id,) = begin(session, [Attempt(key, run.id, scope, "propose", "", 0, "m", 0, worst, b"")])
        assert isinstance(ask_id, int)
        cost = None if usd is None else round(usd * 1e12)
        end(session, [Ended(ask_id, state, cost, 10, tokens, reply=b"")])
    return ask_id


@pytest.mark.parametrize(
    ("tasks", "state"),
    [
        ([("failed", "too long")] * 2, "failed"),
        ([("open", "429")], "failed"),
        ([("done", None), ("failed", "too long")], "done"),
        ([], "done"),
    ],
)
def test_the_state_of_a_run(db: Database, tasks: list[tuple[str, str | None]], state: str) -> None:
    run = start(db, "r", *tasks)
    with db.write() as session:
        (found,) = progress.page_runs(session)
        assert found.state == state
        finish_run(session, run.id, finished=True)
        (found,) = progress.page_runs(session)
        assert found.state == ("finished" if state == "done" else state)
        assert progress.page_runs(session, kind="eval") == []
        assert progress.count_runs(session) == {"propose": 1}


def test_removing_a_run_keeps_shared_answers_and_what_others_have_spent(db: Database) -> None:
    first, second = start(db, "a", ("done", None)), start(db, "b")
    with db.write() as session:
        set_cap(session, [first.id, second.id], 10.0)
    shared = add_ask(db, first, "answered", 0.5, 1)
    add_ask(db, first, "answered", 0.5, 2, scope=first.id)
    add_ask(db, second, "answered", 0.25, 3)
    with db.write() as session:
        assert holdings(session, first).usd == 1.0
        remove_run(session, first)
    with db.read() as session:
        left = session.execute(select(AskRow.id, AskRow.run_id, AskRow.key.is_not(None)).order_by(AskRow.id))
        assert next(tuple(row) for row in left) == (shared, None, True)
        account = read_account(session, second.id)
        assert session.query(TaskRow).count() == 0
    # The cap of both stays as far as it was used.
    assert (account.max_usd, account.committed_usd, account.spent_usd) == (10.0, 1.25, 0.25)


NOW = datetime(2026, 1, 31, 12, 10, 30, tzinfo=UTC)


def of(run: Run, **counts: int) -> RunProgress:
    fields: dict[str, Any] = dict.fromkeys(("done", "open", "failed", "final"), 0) | counts
    requests = fields.pop("requests", fields["done"])
    return RunProgress(
        run,
        **fields,
        requests_by_kind={"a": requests},
        prompt_tokens=0,
        completion_tokens=0,
        usd=0.0,
        unpriced=0,
    )


def test_pace_is_of_the_whole_minutes_before_now(db: Database) -> None:
    run = start(db, "r")
    minutes = [
        Minute("2026-01-31T12:00", 1000, 0, 1000, 1.0),  # too long ago
        Minute("2026-01-31T12:06", 10, 1, 600, 0.5),
        Minute("2026-01-31T12:09", 20, 0, 600, 0.5),
        Minute("2026-01-31T12:10", 99, 0, 9999, 9.0),  # not over
    ]
    found = progress.pace(minutes, of(run, done=20, open=20, failed=10, requests=40), NOW)
    assert found is not None
    assert (found.requests_per_minute, found.tokens_per_second) == (6.0, 4.0)
    assert found.usd_per_minute == pytest.approx(0.2)
    assert found.minutes_left == 10.0  # 30 tasks of 2 requests
    assert progress.pace([], of(run), NOW) is None
