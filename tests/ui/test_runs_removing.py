"""Removing and renaming runs of every kind: all that hangs on one goes, and nothing of others."""

from typing import Any

import pytest
import runs
from asking import make_run
from eval_runs import add_eval_run
from runs import Proposed, add_ask, completion, open_empty
from sqlalchemy import func, insert, select, update

from evaluator.evals.tables import RunProblemRow, SampleRow
from rephraser.tables import AuditRow, ProposalRow, ReviewRow
from service.asks.store import add_tasks, claim, enter, note
from service.asks.tables import AskRow, JobRow, TaskRow, WorkerRow
from service.database import Base, Database
from service.errors import InputError
from service.process import this_process
from service.runs.progress import read_account, set_cap
from service.runs.removing import count_rows, remove_run
from service.runs.store import Run, find_run, open_run, rename_run
from service.runs.tables import PICO_PER_USD, CapRow

LASTING = {"questions", "candidates", "problems", "graders", "workers"}


@pytest.fixture
def db(tmp_path):
    with open_empty(tmp_path / "t.db") as database:
        yield database


def add_run(db: Database, name: str, kind: str = "neighbors", **spec: Any) -> Run:
    with db.write() as session:
        run, _ = open_run(session, name=name, kind=kind, spec=spec, question_ids=[], versions={})
    return run


def add_neighbor_run(db: Database, name: str) -> tuple[Run, str]:
    """Add a run with a candidate and an answer of its own; the first one pays an answer that all share."""
    proposed = Proposed(f"Say it for {name}.", findings=("numbers",))
    run = runs.add_run(db, name, [("What is 1 + 1?", "2", [proposed])])
    with db.write() as session:
        candidate = session.scalar(select(ProposalRow.candidate_id).where(ProposalRow.run_id == run.id))
        add_ask(session, run.id, completion("2"), about="q", usd=0.5)
        if session.scalar(select(AskRow.id).where(AskRow.scope == "solver")) is None:
            add_ask(session, run.id, completion("2"), scope="solver", about="q", usd=0.5)
    return run, candidate


def claim_task(db: Database, run: Run) -> None:
    """Give a run a task that this process works on."""
    with db.write() as session:
        add_tasks(session, run.id, ["q"])
        claimed = claim(session, run.id, enter(session), 1, ())
    assert claimed == [(0, "q")]


def rows(db: Database) -> dict[str, int]:
    """Count the rows of all tables but those whose rows stay."""
    with db.read() as session:
        tables = [table for table in Base.metadata.sorted_tables if table.name not in LASTING]
        return {each.name: session.scalar(select(func.count()).select_from(each)) or 0 for each in tables}


def remove(db: Database, name: str) -> None:
    with db.write() as session:
        remove_run(session, find_run(session, name))


def test_an_eval_run_goes_with_all_its_samples_and_another_stays(db):
    add_eval_run(db, "kept", [(4, 2, 1)])
    before = rows(db)
    add_eval_run(db, "gone", [(4, 2, 1), (4, 0, 0)])
    with db.read() as session:
        hanging = count_rows(session, find_run(session, "gone").id)
    assert (hanging["samples"], hanging["grades"]) == (8, 8)
    remove(db, "gone")
    assert rows(db) == before
    with db.read() as session:
        assert db.integrity_report() == []
        kept = select(SampleRow.id).join(RunProblemRow, RunProblemRow.id == SampleRow.run_problem_id)
        assert len(session.scalars(kept).all()) == 4


def test_a_run_of_neighbors_leaves_answers_that_another_uses(db):
    gone, _ = add_neighbor_run(db, "gone")
    add_neighbor_run(db, "kept")
    with db.write() as session:
        note(session, gone.id, "order", [1, 2])
    with db.read() as session:
        assert count_rows(session, gone.id)["asks"] == 1  # the shared answer stays
    remove(db, "gone")
    left = rows(db)
    names = ("runs", "asks", "ask_bodies", "tasks", "notes", "proposals", "verdicts", "standings")
    assert [left[name] for name in names] == [1, 2, 2, 1, 0, 1, 1, 1]
    with db.read() as session:
        assert session.scalars(select(AskRow.run_id).where(AskRow.scope == "solver")).all() == [None]
    assert db.integrity_report() == []
    remove(db, "kept")
    assert {name: count for name, count in rows(db).items() if count} == {"asks": 1, "ask_bodies": 1}


def test_removing_a_run_keeps_shared_answers_and_what_others_have_spent(db: Database) -> None:
    first, second = make_run(db, "a", tasks=1), make_run(db, "b")
    with db.write() as session:
        set_cap(session, [first.id, second.id], 10.0)
        shared = add_ask(session, first.id, "", usd=0.5, scope="")
        add_ask(session, first.id, "", usd=0.5)
        add_ask(session, second.id, "", usd=0.25)
    with db.write() as session:
        remove_run(session, first)
    with db.read() as session:
        left = session.execute(select(AskRow.id, AskRow.run_id, AskRow.key.is_not(None)).order_by(AskRow.id))
        assert next(tuple(row) for row in left) == (shared, None, True)
        account = read_account(session, second.id)
        committed = session.scalar(select(CapRow.committed_pico))
        assert session.query(TaskRow).count() == 0
    # The cap of both stays as far as it was used.
    assert (account, committed / PICO_PER_USD) == ((10.0, 0.25), 1.25)


def test_what_is_needed_or_at_work_stays_until_its_process_is_gone(db: Database) -> None:
    run, _ = add_neighbor_run(db, "r")
    add_run(db, "later", "judge", eval_run=run.id)
    with pytest.raises(InputError, match="later depends on it"):
        remove(db, "r")
    busy = add_run(db, "busy")
    claim_task(db, busy)
    with pytest.raises(InputError, match="a process is working on it"):
        remove(db, "busy")
    with db.write() as session:  # as if the process had been killed
        session.execute(update(WorkerRow).values(process=f"{this_process()} long ago"))
    remove(db, "busy")
    assert rows(db)["tasks"] == 1
    waiting = add_run(db, "waiting")
    job = {"tag": "job", "model": "m", "worker": 1, "remote_id": "j", "collected": False}
    with db.write() as session:
        session.execute(insert(JobRow).values(run_id=waiting.id, **job))
    with pytest.raises(InputError, match="one of its batch jobs is still running"):
        remove(db, "waiting")
    audited, candidate = add_neighbor_run(db, "audited")
    with db.write() as session:
        audit = {"run_id": audited.id, "kind": "groups", "seed": 0, "size": 1, "created_at": "now"}
        audit_id = session.scalar(insert(AuditRow).values(**audit).returning(AuditRow.id))
        row = {"candidate_id": candidate, "reviewer": "me", "decision": "rejected", "reason": ""}
        session.execute(insert(ReviewRow).values(**row, audit_id=audit_id, created_at="now"))
    with pytest.raises(InputError, match=r"its audits contain human decisions \(1\)"):
        remove(db, "audited")


def test_a_renamed_run_goes_on_under_its_new_name_and_the_old_one_is_free(db):
    run = add_run(db, "first", n=3)
    with db.write() as session:
        rename_run(session, run, "second")
    assert add_run(db, "second", n=3).id == run.id
    assert add_run(db, "first", n=3).id != run.id
    with pytest.raises(InputError, match="run 'second' exists with other settings: n"):
        add_run(db, "second", n=4)
    with pytest.raises(InputError, match="a run 'first' already exists"), db.write() as session:
        rename_run(session, run, "first")


def test_the_command_shows_what_hangs_on_a_run_before_it_removes_it(cli, db):
    add_eval_run(db, "gone", [(4, 2, 1)])
    at = ("--db", str(db.place))
    asked = cli.within("runs").refused("remove", "gone", *at)
    assert "Pass --yes to confirm" in asked
    assert "samples 4, " in asked
    assert cli.ok("runs", "rename", "gone", "old", *at).out.startswith("run     old\n")
    removed = cli.json("runs", "remove", "old", "--yes", *at)
    assert (removed["run"], removed["removed"]["samples"], removed["sets"]) == ("old", 4, [])
    cli.refused("runs", "remove", "old", "--yes", *at)
    add_eval_run(db, "base.new", [(4, 2, 1)])
    for words in (("remove", "base", "--yes"), ("rename", "base", "other")):
        assert "Did you mean 'base.new'?" in cli.refused("runs", *words, *at)
