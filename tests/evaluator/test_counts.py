"""Counts that triggers keep: exact whatever is done, and by several writers."""

from counted import assert_counts_hold
from eval_runs import add_eval_run, regrade
from runs import Proposed, add_review, add_run, add_verdict
from sqlalchemy import text

from service.database import Database
from service.questions import make_question


def test_samples_and_grades_are_counted(db: Database) -> None:
    counts = [(8, 3, 1), (5, 0, 0)]
    run = add_eval_run(
        db, "a", counts, truncated=2, tokens=lambda position, ordinal: None if ordinal == 1 else ordinal
    )
    regrade(db, run, [(8, 1, 0), (5, 5, 0)], "another")
    assert_counts_hold(db, "sample_counts", "grade_counts")


def test_standings_follow_verdicts_and_reviews(db: Database) -> None:
    proposed = [Proposed("a?"), Proposed("b?", ()), Proposed("c?", ("unverified", "rejected"), model="m2")]
    run = add_run(db, "first", [("1+1=?", "2", proposed), ("1+2=?", "3", [Proposed("d?", ("undecided",))])])
    add_run(db, "second", [("1+1=?", "2", [Proposed("a?", ("rejected",))])])
    question = make_question("1+1=?", "2", "Level 3", "Algebra")
    add_review(db, question, "c?", "accepted")
    add_review(db, question, "a?", "rejected")
    add_verdict(db, run, question, "b?", "accepted")
    add_verdict(db, run, question, "a?", "undecided")
    assert_counts_hold(db, "standings")
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
