import pytest
from runs import Proposed, add_review, add_run
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from rephraser.reviews.status import current_statuses
from rephraser.reviews.store import Decision, record_reviews, reviews_of
from rephraser.tables import candidate_id
from service.database import Database
from service.questions import make_question

TEXTS = ("Add 2 and 3.", "Add 2 and 4.", "2 and 3 make?")
QUESTION = make_question("What is 2+3?", "5")
GOOD, BAD, UNCLEAR = (candidate_id(QUESTION.id, text) for text in TEXTS)


@pytest.fixture(autouse=True)
def _run(db: Database) -> None:
    verdicts = ("accepted", "rejected", "undecided")
    proposed = [Proposed(text, (verdict,)) for text, verdict in zip(TEXTS, verdicts, strict=True)]
    add_run(db, "run", [(QUESTION.text, "5", proposed)])


def record(db: Database, *decisions: Decision) -> int:
    with db.write() as session:
        return record_reviews(session, decisions)


def statuses(db: Database) -> dict[str, tuple[str | None, str, bool]]:
    with db.read() as session:
        (run_id,) = session.execute(text("SELECT id FROM runs")).scalars()
        return {
            status.candidate_id: (status.status, status.reason, status.reviewed)
            for status in current_statuses(session, run_id)
        }


def test_the_decision_that_stands_is_not_stored_twice_but_one_in_between_is_answered(db: Database) -> None:
    yes, no = Decision(GOOD, "accepted", "same", "ada"), Decision(GOOD, "rejected", "other", "bob")
    assert record(db, yes) == 1
    assert record(db, yes) == 0
    assert record(db, no) == 1
    assert record(db, yes) == 1
    assert record(db, yes, no, no) == 1
    with db.read() as session:
        assert [review.reviewer for review in reviews_of(session, GOOD)] == ["ada", "bob", "ada", "bob"]


def test_reviews_cannot_be_changed_or_deleted(db: Database) -> None:
    record(db, Decision(GOOD, "accepted", "", "ada"))
    for statement in ("UPDATE reviews SET decision = 'rejected'", "DELETE FROM reviews"):
        with pytest.raises(IntegrityError, match="append-only"), db.write() as session:
            session.execute(text(statement))
    assert statuses(db)[GOOD][0] == "accepted"


SUM = make_question("What is 2+3?", "5")


def test_verdicts_of_other_runs_do_not_count_but_reviews_do(db: Database) -> None:
    first = add_run(db, "one", [(SUM.text, "5", [Proposed("Add 2 and 3.", ("rejected",))])])
    second = add_run(db, "two", [(SUM.text, "5", [Proposed("Add 2 and 3.", ("undecided",))])])
    with db.read() as session:
        before = [current_statuses(session, run.id)[0].status for run in (first, second)]

    add_review(db, SUM, "Add 2 and 3.", "rejected", "first look")
    add_review(db, SUM, "Add 2 and 3.", "accepted", "second look")
    with db.read() as session:
        after = [current_statuses(session, run.id)[0] for run in (first, second)]

    assert before == ["rejected", "undecided"]
    assert [(s.status, s.reason, s.reviewed, s.final) for s in after] == [
        ("accepted", "second look", True, True),
        ("accepted", "second look", True, True),
    ]
