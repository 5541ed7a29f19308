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
from service.runs.store import Run, finish_run, list_runs
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
        (found,) = progress.progress_of(session, list_runs(session))
        assert found.state == state
        finish_run(session, run.id, finished=True)
        (found,) = progress.progress_of(session, list_runs(session))
        assert found.state == ("finished" if state == "done" else state)


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
