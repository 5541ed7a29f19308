"""Counts that triggers keep: exact whatever is done, and by several writers."""

from counted import assert_counts_hold
from eval_runs import add_eval_run, regrade
from runs import Proposed, add_review, add_run, add_verdict
from sqlalchemy import text

from service.database import Database
from service.questions import make_question
from service.questions.store import Member, store_set


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
