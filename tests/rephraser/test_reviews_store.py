"""Reviews: stored once, never changed; they override verdicts in every run. Mended texts."""

from typing import Any

import pytest
import scripted
from runs import Proposed, add_review, add_run
from scripted import BAD_NUMBER, World, make_spec, proposals
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from rephraser.candidates import MENDER, candidate_id, mend_candidate, read_candidates
from rephraser.reviews.store import Decision, record_reviews, reviews_of
from service.database import Database
from service.questions.question import make_question
from service.runs.store import Run

QUESTION, TEXT = make_question("What is 2+3?", "5"), "Add 2 and 3."
GOOD = candidate_id(QUESTION.id, TEXT)


@pytest.fixture
def run(db):
    return add_run(db, "run", [(QUESTION.text, "5", [Proposed(TEXT, ("accepted",))])])


def record(db: Database, *decisions: Decision) -> int:
    with db.write() as session:
        return record_reviews(session, decisions)


def status(db: Database, run: Run) -> Any:
    with db.read() as session:
        (current,) = read_candidates(session, run.id)
    return current


def test_the_decision_that_stands_is_not_stored_twice_but_one_in_between_is_answered(db, run):
    yes, no = Decision(GOOD, "accepted", "same", "ada"), Decision(GOOD, "rejected", "other", "bob")
    assert record(db, yes) == 1
    assert record(db, yes) == 0
    assert record(db, no) == 1
    assert record(db, yes) == 1
    assert record(db, yes, no, no) == 1
    with db.read() as session:
        assert [review["reviewer"] for review in reviews_of(session, GOOD)] == ["ada", "bob", "ada", "bob"]


def test_reviews_cannot_be_changed_or_deleted(db, run):
    record(db, Decision(GOOD, "accepted", "", "ada"))
    for statement in ("UPDATE reviews SET decision = 'rejected'", "DELETE FROM reviews"):
        with pytest.raises(IntegrityError, match="append-only"), db.write() as session:
            session.execute(text(statement))
    assert status(db, run).status == "accepted"


def test_verdicts_of_other_runs_do_not_count_but_reviews_do(db):
    first = add_run(db, "one", [(QUESTION.text, "5", [Proposed(TEXT, ("rejected",))])])
    second = add_run(db, "two", [(QUESTION.text, "5", [Proposed(TEXT, ("undecided",))])])
    assert [status(db, run).status for run in (first, second)] == ["rejected", "undecided"]
    add_review(db, QUESTION, TEXT, "rejected", "first look")
    add_review(db, QUESTION, TEXT, "accepted", "second look")
    for run in (first, second):
        found = status(db, run)
        assert (found.status, found.reason) == ("accepted", "second look")
        assert (found.reviewed, found.final) == (True, True)


OLD = candidate_id(scripted.QUESTION.id, BAD_NUMBER)
MENDED = "If $x + 7 = 19$, which value has $x$?"


def statuses(world: World) -> dict[str, Any]:
    with world.db.read() as session:
        return {status.candidate_id: status for status in read_candidates(session, world.run.id)}


def test_a_mended_text_is_checked_at_once_and_judged_when_the_run_is_resumed(tmp_path):
    spec, replies = make_spec(n=2, rounds=1, min_distance=0.0), [proposals(scripted.GOOD[0], BAD_NUMBER)]
    world = World(tmp_path, spec, proposed=replies, answers={"x + 8": "11", "": "12"})
    world.work()
    assert statuses(world)[OLD].status == "rejected"
    before = statuses(world)[OLD]
    with world.db.write() as session:
        mended, *_ = mend_candidate(session, OLD, MENDED, reviewer="ada")
    pending = statuses(world)[mended.candidate_id]
    assert (pending.status, pending.final, pending.proposer) == ("unverified", False, MENDER)
    assert (pending.mended_from, pending.mended_by) == (OLD, "ada")
    assert (pending.strategy, pending.model, pending.round) == (before.strategy, before.model, before.round)
    outcome = world.work()
    assert (outcome.done, outcome.open, outcome.sent) == (1, 0, 3)  # twelve answers
    judged = statuses(world)
    assert judged[mended.candidate_id].status == "accepted"
    assert judged[OLD] == before
