"""Where runs are and how fast they go."""

import pytest
from asking import make_run
from sqlalchemy import update

from service.asks.tables import TaskRow
from service.database import Database
from service.runs import progress
from service.runs.store import Run, finish_run, list_runs


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
