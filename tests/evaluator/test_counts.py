"""Counts that triggers keep: exact whatever is done, and by several writers."""

import random
import threading
from dataclasses import dataclass

import pytest
from counted import assert_counts_hold, kept_and_made
from eval_runs import add_eval_run, regrade
from runs import Proposed, add_review, add_run, add_verdict
from sqlalchemy import text

from service.database import Database
from service.questions import make_question
from service.questions.store import Member, store_set
from service.runs.cells import (
    CellPlan,
    Receipt,
    add_cells,
    claim_cells,
    fail_cell,
    fill_cell,
    reopen_failed_cells,
)
from service.runs.progress import progress_of
from service.runs.spending import read_ledger
from service.runs.store import Run, open_run

CELL_COUNTS = ("run_cell_counts", "run_spending", "run_minutes")


def open_cells_run(db: Database, name: str, cells: int = 40) -> Run:
    """Make a run with cells of its own and some that all such runs share."""
    with db.write() as session:
        run, _ = open_run(session, name=name, kind="propose", spec={"n": name}, question_ids=(), versions={})
        own = [CellPlan(run.id, "propose", f"q{n}", 0, 0, 0) for n in range(cells)]
        shared = [CellPlan("solver", "answer", f"q{n}", 0, 0, 0) for n in range(cells // 2)]
        add_cells(session, run.id, [*own, *shared])
    return run


@dataclass
class Spent:
    """What a run has spent, by its own books."""

    attempts: int = 0
    usd: float = 0.0


def work(db: Database, run: Run, seed: int, spent: Spent) -> None:
    """Fill, fail and reopen the run's cells in random order, in small transactions."""
    chance = random.Random(seed)
    for scope in (run.id, "solver"):
        for _ in range(12):
            with db.write() as session:
                for cell in claim_cells(session, run.id, scope, owner=f"w{seed}", limit=5):
                    price = chance.choice((None, 0.0, 0.1, 0.2, 1e-7))
                    spent.usd += price or 0
                    if chance.random() < 0.4:
                        final = chance.random() < 0.3
                        fail_cell(session, cell.id, "429", attempts=2, cost_usd=price, final=final)
                        spent.attempts += 2
                    else:
                        spent.attempts += 1
                        receipt = Receipt(chance.choice("ab"), 10, chance.randint(1, 99), price, 1, 0.5)
                        fill_cell(session, cell.id, "{}", receipt)
                if chance.random() < 0.4:
                    reopen_failed_cells(session, run.id)


def test_cells_are_counted_while_several_write(db: Database) -> None:
    runs = [open_cells_run(db, name) for name in ("one", "two", "three")]
    spent = [Spent() for _ in runs]
    threads = [
        threading.Thread(target=work, args=(db, run, seed, spent[seed])) for seed, run in enumerate(runs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    # Shared requests go from one run to another when they have failed, so each run's own books count.
    assert_counts_hold(db, "run_cell_counts", "run_minutes", but="run_spending")
    with db.read() as session:
        for found, books in zip(progress_of(session, runs), spent, strict=True):
            assert found.planned == 60
            lines = read_ledger(session, found.run.id)
            assert found.requests == books.attempts
            assert found.usd == pytest.approx(books.usd, abs=1e-9)
            assert found.requests == sum(line.requests for line in lines)
            assert found.usd == pytest.approx(sum(line.usd for line in lines), abs=1e-12)
            assert found.unpriced == sum(line.unpriced for line in lines)


def fill_and_fail(db: Database, run: Run) -> None:
    with db.write() as session:
        (cell,) = claim_cells(session, run.id, run.id, owner="w", limit=1)
        fill_cell(session, cell.id, "{}", Receipt("a", 1, 1, 0.5, 1, 0.5))
        raise RuntimeError("half way")


def test_a_transaction_that_fails_leaves_no_counts(db: Database) -> None:
    run = open_cells_run(db, "one")
    before = kept_and_made(db)
    with pytest.raises(RuntimeError, match="half way"):
        fill_and_fail(db, run)
    assert kept_and_made(db) == before


def test_samples_and_grades_are_counted(db: Database) -> None:
    counts = [(8, 3, 1), (5, 0, 0)]
    run = add_eval_run(
        db, "a", counts, truncated=2, tokens=lambda position, ordinal: None if ordinal == 1 else ordinal
    )
    regrade(db, run, [(8, 1, 0), (5, 5, 0)], "another")
    assert_counts_hold(db, "sample_counts", "grade_counts", *CELL_COUNTS)


def test_standings_follow_verdicts_and_reviews(db: Database) -> None:
    proposed = [Proposed("a?"), Proposed("b?", ()), Proposed("c?", ("unverified", "rejected"), model="m2")]
    run = add_run(db, "first", [("1+1=?", "2", proposed), ("1+2=?", "3", [Proposed("d?", ("undecided",))])])
    add_run(db, "second", [("1+1=?", "2", [Proposed("a?", ("rejected",))])])
    question = make_question("1+1=?", "2", "Level 3", "Algebra")
    add_review(db, question, "c?", "accepted")
    add_review(db, question, "a?", "rejected")
    add_verdict(db, run, question, "b?", "accepted")
    add_verdict(db, run, question, "a?", "undecided")
    assert_counts_hold(db, "standings", "standing_counts", "question_labels")
    with db.read() as session:
        rows = session.execute(
            text(
                "SELECT c.text, status FROM standings JOIN candidates c ON c.id = candidate_id ORDER BY 1, 2"
            )
        )
        assert [tuple(row) for row in rows] == [
            ("a?", "rejected"),  # reviewed, so in both runs, whatever verdicts come later
            ("a?", "rejected"),
            ("b?", "accepted"),
            ("c?", "accepted"),
            ("d?", "undecided"),
        ]


def test_sets_and_findings_are_counted(db: Database) -> None:
    members = [
        Member(n, make_question(f"{n}?", "1", None, "Algebra"), "why" if n == 1 else None) for n in range(4)
    ]
    with db.write() as session:
        store_set(session, "s", members, {"content_hash": ""})
    run = add_run(db, "r", [("0?", "1", [Proposed("zero?", ())])])
    evidence = (
        '{"findings": [{"name": "unit_lost", "severity": "warning", "detail": "it\'s"}, {"name": "x"}]}'
    )
    insert = text(
        "INSERT INTO verdicts (candidate_id, run_id, status, reason, final, evidence, created_at) "
        "SELECT candidate_id, run_id, 'undecided', '', true, :e, '' FROM proposals"
    )
    for _ in range(2):  # judged twice, found once
        with db.write() as session:
            session.execute(insert, {"e": evidence})
    assert_counts_hold(db, "question_set_counts", "candidate_findings", "standings")
    with db.read() as session:
        names = session.execute(text("SELECT name FROM candidate_findings WHERE run_id = :r"), {"r": run.id})
        assert sorted(names.scalars()) == ["unit_lost", "x"]
