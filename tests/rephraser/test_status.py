from runs import Proposed, add_review, add_run

from rephraser.reviews.status import current_statuses, status_query
from service.database import Database
from service.questions import make_question

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


def test_order_and_one_question(db: Database) -> None:
    other = make_question("What is 2-3?", "-1")
    asked = [
        (SUM.text, "5", [Proposed("Later?", round=1), Proposed("Sooner?"), Proposed("Soon?")]),
        (other.text, "-1", [Proposed("Take 3 from 2.")]),
    ]
    run = add_run(db, "one", asked)

    with db.read() as session:
        everything = current_statuses(session, run.id)
        page = session.execute(status_query(run.id).subquery().select().limit(2)).all()

    of_sum = [s for s in everything if s.question_id == SUM.id]
    assert [(s.round, s.ordinal) for s in of_sum] == [(0, 1), (0, 2), (1, 1_000_000)]
    assert [s.question_id for s in everything] == sorted(s.question_id for s in everything)
    assert len(everything) == 4
    assert len(page) == 2
