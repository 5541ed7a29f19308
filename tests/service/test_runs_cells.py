"""Cells: leased once, given back after a death, filled once, reopened after a failure."""

import time

import pytest
from sqlalchemy import event, update

from service.database import Database
from service.errors import InputError, NotFoundError
from service.questions import make_question, store_questions
from service.runs import cells, leases, store
from service.runs.progress import count_states
from service.runs.spending import Account, read_account, read_ledger, reserve_cells, set_cap, spent_usd
from service.runs.tables import CellRow

QUESTIONS = [make_question(f"What is {i} + 1?", str(i + 1)) for i in range(4)]


def make_run(db: Database, name: str = "run", **spec: object) -> store.Run:
    with db.write() as session:
        store_questions(session, QUESTIONS)
        run, _ = store.open_run(
            session, name=name, kind="propose", spec=spec, question_ids=[q.id for q in QUESTIONS], versions={}
        )
    return run


def plan(run: store.Run, scope: str | None = None, count: int = 4) -> list[cells.CellPlan]:
    return [
        cells.CellPlan(scope or run.id, "answer", QUESTIONS[i].id, 0, 0, 0, {"seed": i}) for i in range(count)
    ]


RECEIPT = cells.Receipt("m", 10, 20, 0.5, 1, 0.1)


def test_a_run_is_found_again_and_other_settings_are_refused(db: Database) -> None:
    first = make_run(db, n=3)
    assert make_run(db, n=3) == first
    with pytest.raises(InputError, match=r"n \(3 there, 4 now\)"):
        make_run(db, n=4)
    with db.read() as session:
        assert store.find_run(session, first.id[:12]).name == "run"
        with pytest.raises(NotFoundError, match="only: run"):
            store.find_run(session, "walk")


@pytest.mark.parametrize("name", ["", "-a", "a b", "a/b", "x" * 101])
def test_names_that_would_hurt_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="cannot be a name"):
        store.check_name(name)


def test_cells_are_planned_once_and_leased_once(db: Database) -> None:
    run = make_run(db)
    with db.write() as session:
        cells.add_cells(session, run.id, plan(run))
        cells.add_cells(session, run.id, plan(run))
        assert count_states(session, run.id) == {("answer", "empty"): 4}
        first = cells.claim_cells(session, run.id, run.id, owner="a|1|1|t", limit=3)
        second = cells.claim_cells(session, run.id, run.id, owner="b|1|1|t", limit=3)
        assert [cell.payload["seed"] for cell in first + second] == [0, 1, 2, 3]
        assert cells.open_cells(session, run.id) == 4
        for cell in first[1:] + second:
            cells.fill_cell(session, cell.id, "{}", RECEIPT)
        leases.release_leases(session, "a|1|1|t")
        assert cells.open_cells(session, run.id) == 1  # given back by the other process, and nobody's yet
        assert not cells.is_complete(session, run.id)
        cells.fail_cell(session, first[0].id, "time-out", attempts=6, cost_usd=0.0)
        assert cells.open_cells(session, run.id) == 0
        assert not cells.is_complete(session, run.id)
        cells.fill_cell(session, first[0].id, "{}", RECEIPT)
        assert cells.is_complete(session, run.id)


def test_a_solver_s_cells_are_shared_and_paid_by_who_asks(db: Database) -> None:
    one, two = make_run(db, "one"), make_run(db, "two")
    with db.write() as session:
        cells.add_cells(session, one.id, plan(one, "solver_x", 2))
        cells.add_cells(session, two.id, plan(two, "solver_x", 4))
        (mine,) = cells.claim_cells(session, one.id, "solver_x", owner="a|1|1|t", limit=1)
        theirs = cells.claim_cells(session, two.id, "solver_x", owner="b|1|1|t", limit=9)
        assert mine.id not in {cell.id for cell in theirs}
        for cell in [mine, *theirs]:
            cells.fill_cell(session, cell.id, "{}", RECEIPT)
        assert spent_usd(session, one.id) == 0.5
        assert spent_usd(session, two.id) == 1.5
        assert count_states(session, one.id) == {("answer", "filled"): 2}


def test_what_a_run_spent_in_vain_stays_its_own_when_another_asks(db: Database) -> None:
    one, two = make_run(db, "one"), make_run(db, "two")
    with db.write() as session:
        for run in (one, two):
            cells.add_cells(session, run.id, plan(run, "solver_x", 2))
        failed, lost = cells.claim_cells(session, one.id, "solver_x", owner="elsewhere|1|1|t", limit=2)
        cells.fail_cell(session, failed.id, "time-out", attempts=2, cost_usd=0.25, doubtful_usd=0.25)
        reserve_cells(session, {lost.id: 0.125})
        session.execute(update(CellRow).values(lease_until=time.time() - 1))
        cells.reopen_failed_cells(session, two.id)
        for cell in cells.claim_cells(session, two.id, "solver_x", owner="b|1|1|t", limit=2):
            assert read_account(session, one.id) == Account(None, 0.375, 0.0)
            cells.fill_cell(session, cell.id, "{}", RECEIPT)
        assert read_account(session, one.id) == Account(None, 0.375, 0.0)
        assert read_account(session, two.id) == Account(None, 1.0, 0.0)
        (line,), (other,) = read_ledger(session, one.id), read_ledger(session, two.id)
        assert (line.requests, line.doubtful_usd) == (3, 0.375)
        assert (other.requests, other.usd, other.doubtful_usd) == (2, 1.0, 0.0)


@pytest.mark.sqlite  # plans
def test_looking_for_cells_does_not_walk_over_those_that_are_done(db: Database) -> None:
    run = make_run(db)
    with db.write() as session:
        cells.add_cells(session, run.id, plan(run))
        seen: list[str] = []
        event.listen(session.get_bind(), "before_cursor_execute", lambda *call: seen.append(call[2]))
        owned = cells.claim_cells(session, run.id, run.id, owner="a|1|1|t", limit=2)
        cells.set_outcomes(session, {cell.id: "ok" for cell in owned})
        for cell in owned:
            cells.fill_cell(session, cell.id, "{}", RECEIPT)
        assert cells.unparsed_cells(session, run.id, "answer", limit=9) == []
        looks = [query for query in seen if query.startswith("SELECT cells.id")]
        assert len(looks) == 2
        for query in looks:
            steps = session.connection().exec_driver_sql(
                f"EXPLAIN QUERY PLAN {query}", ("x",) * query.count("?")
            )
            assert "ix_cells_state_scope_id" in steps.all()[0][3]
        assert [c.state for c in cells.claim_cells(session, run.id, run.id, owner="a", limit=9)] == [
            "empty"
        ] * 2


def test_failed_cells_are_reported_and_asked_again(db: Database) -> None:
    run = make_run(db)
    with db.write() as session:
        cells.add_cells(session, run.id, plan(run, count=1))
        (cell,) = cells.claim_cells(session, run.id, run.id, owner="a|1|1|t", limit=1)
        cells.fail_cell(session, cell.id, "time-out: after 3 attempts", attempts=3, cost_usd=None)
        assert cells.claim_cells(session, run.id, run.id, owner="a|1|1|t", limit=1) == []
        assert cells.reopen_failed_cells(session, run.id) == 1
        assert len(cells.claim_cells(session, run.id, run.id, owner="a|1|1|t", limit=1)) == 1


def test_what_failed_requests_cost_stays_spent_when_they_are_asked_again(db: Database) -> None:
    run = make_run(db)
    with db.write() as session:
        cells.add_cells(session, run.id, plan(run, count=1))
        for spent in (0.25, 0.5):
            (cell,) = cells.claim_cells(session, run.id, run.id, owner="a|1|1|t", limit=1)
            cells.fail_cell(session, cell.id, "time-out", attempts=6, cost_usd=0.25)
            cells.reopen_failed_cells(session, run.id)
            assert spent_usd(session, run.id) == spent
        (cell,) = cells.claim_cells(session, run.id, run.id, owner="a|1|1|t", limit=1)
        cells.fill_cell(session, cell.id, "{}", RECEIPT)
        assert spent_usd(session, run.id) == 1.0
        (line,) = read_ledger(session, run.id)
        assert (line.requests, line.usd, line.unpriced) == (13, 1.0, 0)


def test_what_a_dead_process_had_in_flight_is_spent_at_its_worst(db: Database) -> None:
    run = make_run(db)
    with db.write() as session:
        cells.add_cells(session, run.id, plan(run))
        sent, leased, answered = cells.claim_cells(session, run.id, run.id, owner="a|1|1|t", limit=3)
        reserve_cells(session, {sent.id: 0.25, answered.id: 0.25})
        assert read_account(session, run.id) == Account(None, 0.0, 0.5)
        cells.fill_cell(session, answered.id, "{}", cells.Receipt("m", 10, 20, 0.125, 1, 0.1))
        leases.release_leases(session, "a|1|1|t")
        assert read_account(session, run.id) == Account(None, 0.375, 0.0)
        assert sum(line.doubtful_usd for line in read_ledger(session, run.id)) == 0.25
        again = cells.claim_cells(session, run.id, run.id, owner="b|1|1|t", limit=2)
        assert [cell.id for cell in again] == [sent.id, leased.id]
        cells.fill_cell(session, sent.id, "{}", RECEIPT)
        (line,) = read_ledger(session, run.id)
        assert (line.usd, line.doubtful_usd, line.requests) == (0.875, 0.25, 3)


def test_what_was_in_flight_when_a_lease_ran_out_is_spent_too(db: Database) -> None:
    run = make_run(db)
    with db.write() as session:
        cells.add_cells(session, run.id, plan(run, count=1))
        (cell,) = cells.claim_cells(session, run.id, run.id, owner="elsewhere|1|1|t", limit=1)
        reserve_cells(session, {cell.id: 0.25})
        session.execute(update(CellRow).values(lease_until=time.time() - 1))
        cells.claim_cells(session, run.id, run.id, owner="b|1|1|t", limit=1)
        assert read_account(session, run.id) == Account(None, 0.25, 0.0)


def test_runs_share_a_cap_until_one_gets_its_own(db: Database) -> None:
    one, two = make_run(db, "one"), make_run(db, "two")
    with db.write() as session:
        cells.add_cells(session, one.id, plan(one))
        (cell,) = cells.claim_cells(session, one.id, one.id, owner="a|1|1|t", limit=1)
        cells.fill_cell(session, cell.id, "{}", RECEIPT)
        set_cap(session, [one.id, two.id], 2.0)
        assert read_account(session, two.id) == Account(2.0, 0.5, 0.0)
        set_cap(session, [one.id, two.id], 3.0)
        set_cap(session, [two.id], 1.0)
        assert read_account(session, one.id) == Account(3.0, 0.5, 0.0)
        assert read_account(session, two.id) == Account(1.0, 0.0, 0.0)
        with pytest.raises(InputError, match="--max-usd nan"):
            set_cap(session, [two.id], float("nan"))


def test_the_ledger_counts_what_is_known_and_says_what_is_not(db: Database) -> None:
    run = make_run(db)
    with db.write() as session:
        cells.add_cells(session, run.id, plan(run, count=2))
        priced, unpriced = cells.claim_cells(session, run.id, run.id, owner="a|1|1|t", limit=2)
        cells.fill_cell(session, priced.id, '{"a": 1}', RECEIPT)
        cells.fill_cell(session, unpriced.id, "{}", cells.Receipt("m", 1, 2, None, 2, 0.1))
        (line,) = read_ledger(session, run.id)
        assert (line.requests, line.prompt_tokens, line.completion_tokens) == (3, 11, 22)
        assert (line.usd, line.unpriced) == (0.5, 1)
        assert cells.read_bodies(session, [priced.id, unpriced.id]) == {
            priced.id: '{"a": 1}',
            unpriced.id: "{}",
        }
