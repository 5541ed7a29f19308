"""Decisions that were taken back: what was decided before counts again, everywhere."""

import pytest
from counted import assert_counts_hold
from runs import Proposed, add_run
from sqlalchemy import text

from rephraser.reviews.status import current_statuses
from rephraser.reviews.store import Decision, Withdrawal, record_reviews, withdraw_review
from rephraser.tables import candidate_id
from service.database import Database
from service.questions import make_question
from service.runs.store import Run

TEXTS = ("Add 2 and 3.", "Add 2 and 4.", "2 and 3 make?")
QUESTION = make_question("What is 2+3?", "5")
GOOD, BAD, UNCLEAR = (candidate_id(QUESTION.id, text) for text in TEXTS)
ACCEPT, REFUSE = ("accepted", ""), ("rejected", "asks twice")


@pytest.fixture
def run(db: Database) -> Run:
    verdicts = ("accepted", "rejected", "undecided")
    proposed = [Proposed(text, (verdict,)) for text, verdict in zip(TEXTS, verdicts, strict=True)]
    return add_run(db, "run", [(QUESTION.text, "5", proposed)])


def decide(db: Database, reviewer: str, id: str, said: tuple[str, str], audit_id: int | None = None) -> None:
    word = "accepted" if said == ACCEPT else "rejected"
    with db.write() as session:
        record_reviews(session, [Decision(id, word, said[1], reviewer, audit_id)])


def withdraw(db: Database, reviewer: str, id: str, audit_id: int | None = None) -> bool:
    with db.write() as session:
        return withdraw_review(session, Withdrawal(id, reviewer, audit_id)) is not None


def status(db: Database, run: Run, id: str) -> tuple[str | None, bool]:
    """Return where a candidate stands, as the query says it; the table that triggers keep says the same."""
    with db.read() as session:
        (found,) = [one for one in current_statuses(session, run.id) if one.candidate_id == id]
        kept = session.execute(
            text("SELECT status FROM standings WHERE candidate_id = :id"), {"id": id}
        ).scalar_one()
    assert kept == (found.status or "pending")
    assert_counts_hold(db, "standings")
    return found.status, found.reviewed


def test_what_was_decided_before_counts_again(db: Database, run: Run) -> None:
    decide(db, "ada", UNCLEAR, ACCEPT)
    decide(db, "bob", UNCLEAR, REFUSE)
    decide(db, "ada", UNCLEAR, ACCEPT)
    assert withdraw(db, "ada", UNCLEAR)
    assert status(db, run, UNCLEAR) == ("rejected", True)
    assert withdraw(db, "bob", UNCLEAR)
    assert status(db, run, UNCLEAR) == ("accepted", True)
    assert not withdraw(db, "eve", UNCLEAR)
    assert withdraw(db, "ada", UNCLEAR)
    assert status(db, run, UNCLEAR) == ("undecided", False)
