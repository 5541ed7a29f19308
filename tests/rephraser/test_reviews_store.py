"""Reviews: stored once, never changed, withdrawn by their reviewers; they override verdicts in every run."""

import pytest
from counted import assert_counts_hold
from runs import Proposed, add_review, add_run
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from rephraser.reviews.status import CandidateStatus, current_statuses
from rephraser.reviews.store import Decision, Withdrawal, record_reviews, reviews_of, withdraw_review
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


def record(db: Database, *decisions: Decision) -> int:
    with db.write() as session:
        return record_reviews(session, decisions)


def decide(db: Database, reviewer: str, id: str, said: tuple[str, str]) -> None:
    word = "accepted" if said == ACCEPT else "rejected"
    record(db, Decision(id, word, said[1], reviewer))


def withdraw(db: Database, reviewer: str, id: str) -> bool:
    with db.write() as session:
        return withdraw_review(session, Withdrawal(id, reviewer)) is not None


def status(db: Database, run: Run, id: str) -> CandidateStatus:
    """Return the status of a candidate; the counts in the tables hold."""
    with db.read() as session:
        (found,) = [one for one in current_statuses(session, run.id) if one.candidate_id == id]
    assert_counts_hold(db, "standings")
    return found


def test_the_decision_that_stands_is_not_stored_twice_but_one_in_between_is_answered(
    db: Database, run: Run
) -> None:
    yes, no = Decision(GOOD, "accepted", "same", "ada"), Decision(GOOD, "rejected", "other", "bob")
    assert record(db, yes) == 1
    assert record(db, yes) == 0
    assert record(db, no) == 1
    assert record(db, yes) == 1
    assert record(db, yes, no, no) == 1
    with db.read() as session:
        assert [review.reviewer for review in reviews_of(session, GOOD)] == ["ada", "bob", "ada", "bob"]


def test_reviews_cannot_be_changed_or_deleted(db: Database, run: Run) -> None:
    record(db, Decision(GOOD, "accepted", "", "ada"))
    for statement in ("UPDATE reviews SET decision = 'rejected'", "DELETE FROM reviews"):
        with pytest.raises(IntegrityError, match="append-only"), db.write() as session:
            session.execute(text(statement))
    assert status(db, run, GOOD).status == "accepted"


def test_verdicts_of_other_runs_do_not_count_but_reviews_do(db: Database) -> None:
    first = add_run(db, "one", [(QUESTION.text, "5", [Proposed(TEXTS[0], ("rejected",))])])
    second = add_run(db, "two", [(QUESTION.text, "5", [Proposed(TEXTS[0], ("undecided",))])])
    assert [status(db, run, GOOD).status for run in (first, second)] == ["rejected", "undecided"]
    add_review(db, QUESTION, TEXTS[0], "rejected", "first look")
    add_review(db, QUESTION, TEXTS[0], "accepted", "second look")
    for run in (first, second):
        found = status(db, run, GOOD)
        assert (found.status, found.reason) == ("accepted", "second look")
        assert (found.reviewed, found.final) == (True, True)


def test_after_a_withdrawal_what_was_decided_before_counts_again(db: Database, run: Run) -> None:
    decide(db, "ada", UNCLEAR, ACCEPT)
    decide(db, "bob", UNCLEAR, REFUSE)
    decide(db, "ada", UNCLEAR, ACCEPT)
    assert withdraw(db, "ada", UNCLEAR)
    assert status(db, run, UNCLEAR).status == "rejected"
    assert withdraw(db, "bob", UNCLEAR)
    assert status(db, run, UNCLEAR).status == "accepted"
    assert not withdraw(db, "eve", UNCLEAR)
    assert withdraw(db, "ada", UNCLEAR)
    found = status(db, run, UNCLEAR)
    assert (found.status, found.reviewed) == ("undecided", False)
