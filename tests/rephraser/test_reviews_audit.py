from pathlib import Path

import pytest
from runs import Proposed, add_review, add_run, add_verdict, open_empty

from rephraser.reviews.audit import Audit, audit_rates, get_audit, open_audit
from rephraser.reviews.queue import audit_queue, open_queue, read_item
from rephraser.reviews.status import read_status
from rephraser.reviews.store import Decision, record_reviews
from service.database import Database
from service.errors import InputError, NotFoundError
from service.questions import make_question
from service.runs.store import Run

QUESTION = make_question("What is 2+3?", "5")


@pytest.fixture
def run(db: Database) -> Run:
    verdicts = ["accepted"] * 12 + ["rejected"] * 6 + ["undecided"] * 5
    proposed = [
        Proposed(f"Wording {number}: add 2 and 3.", ("unverified", verdict))
        for number, verdict in enumerate(verdicts)
    ]
    return add_run(db, "run", [(QUESTION.text, "5", [*proposed, Proposed("Not judged yet.", ())])])


def decide(db: Database, audit: Audit, reviewer: str = "ada", *, reject: tuple[str, ...] = ()) -> None:
    with db.write() as session:
        for member in audit.members:
            word = "rejected" if member.status in reject else "accepted"
            made = Decision(member.candidate_id, word, "seen", reviewer, audit.id)
            record_reviews(session, [made])


def test_an_audit_is_drawn_once(db: Database, run: Run) -> None:
    first, new = open_audit(db, run, size=10, seed=7)
    again, newer = open_audit(db, run, size=10, seed=7)

    assert (new, newer) == (True, False)
    assert again == first
    assert [first.run_name, first.size, first.seed] == ["run", 10, 7]
    statuses = [(member.status, member.stratum_size) for member in first.members]
    assert {pair: statuses.count(pair) for pair in set(statuses)} == {
        ("accepted", 12): 4,
        ("rejected", 6): 4,
        ("undecided", 5): 2,
    }
    with db.read() as session:
        assert get_audit(session, first.id) == first
    other, _ = open_audit(db, run, size=10, seed=8)
    assert other.id != first.id
    assert {m.candidate_id for m in other.members} != {m.candidate_id for m in first.members}


def test_the_same_run_seed_and_size_draw_the_same_in_another_database(
    db: Database, run: Run, tmp_path: Path
) -> None:
    here, _ = open_audit(db, run, size=10, seed=7)
    proposed = [
        Proposed(f"Wording {number}: add 2 and 3.", (verdict,))
        for number, verdict in enumerate(["accepted"] * 12 + ["rejected"] * 6 + ["undecided"] * 5)
    ]
    with open_empty(tmp_path / "other.db") as elsewhere:
        same = add_run(elsewhere, "run", [(QUESTION.text, "5", proposed[::-1])])
        there, _ = open_audit(elsewhere, same, size=10, seed=7)
    assert there.members == here.members


def test_reviews_and_later_verdicts_do_not_move_what_was_drawn(db: Database, run: Run) -> None:
    audit, _ = open_audit(db, run, size=23, seed=0)
    accepted = [member.candidate_id for member in audit.members if member.status == "accepted"]
    assert len(accepted) == 12

    decide(db, audit, reject=("accepted",))
    add_verdict(db, run, QUESTION, "Wording 0: add 2 and 3.", "rejected")
    again, _ = open_audit(db, run, size=23, seed=0)
    with db.read() as session:
        rates = audit_rates(session, again)

    assert again == audit
    assert rates.complete
    assert (rates.false_accept.count, rates.false_accept.reviewed) == (12, 12)
    assert (rates.false_reject.count, rates.false_reject.reviewed) == (6, 6)


@pytest.mark.slow
def test_strata_follow_the_verdict_and_not_an_earlier_review(db: Database, run: Run) -> None:
    for number in range(12):
        add_review(db, QUESTION, f"Wording {number}: add 2 and 3.", "rejected")
    audit, _ = open_audit(db, run, size=23, seed=0)
    assert sum(member.status == "accepted" for member in audit.members) == 12
    with db.read() as session:
        assert audit_rates(session, audit).reviewed == 0


def test_an_audit_takes_all_there_is_and_nothing_unjudged(db: Database, run: Run) -> None:
    audit, _ = open_audit(db, run, size=500, seed=0)
    assert (audit.size, len(audit.members)) == (500, 23)


def test_a_run_without_verdicts_has_nothing_to_audit(db: Database) -> None:
    empty = add_run(db, "empty", [("Halve 8.", "4", [Proposed("What is half of 8?", ())])])
    with pytest.raises(InputError, match="nothing to audit"):
        open_audit(db, empty, size=10, seed=0)


def test_an_unknown_audit_names_those_there_are(db: Database, run: Run) -> None:
    with db.read() as session, pytest.raises(NotFoundError, match=r"none yet. Draw one"):
        get_audit(session, 1)
    audit, _ = open_audit(db, run, size=10, seed=0)
    with db.read() as session, pytest.raises(NotFoundError, match=rf"Available: {audit.id} \(of run\)"):
        get_audit(session, audit.id + 1)


def test_only_decisions_for_this_audit_count(db: Database, run: Run) -> None:
    one, _ = open_audit(db, run, size=23, seed=0)
    two, _ = open_audit(db, run, size=22, seed=0)
    decide(db, one)
    with db.write() as session:
        plain = Decision(one.members[0].candidate_id, "rejected", "no", "ada")
        record_reviews(session, [plain])
    with db.read() as session:
        assert audit_rates(session, one).false_accept.count == 0
        assert audit_rates(session, two).reviewed == 0


def test_each_reviewer_has_the_whole_audit_before_them(db: Database, run: Run) -> None:
    audit, _ = open_audit(db, run, size=10, seed=0)
    order = [member.candidate_id for member in audit.members]
    with db.write() as session:
        record_reviews(session, [Decision(order[3], "accepted", "", "ada", audit.id)])
    with db.read() as session:
        assert audit_queue(session, audit, "ada") == order[:3] + order[4:]
        assert audit_queue(session, audit, "bob") == order


def test_a_run_is_reviewed_by_status_in_order_without_what_was_decided(db: Database, run: Run) -> None:
    with db.read() as session:
        queue = open_queue(session, run.id, "ada", statuses=["undecided"])
        texts = [read_item(session, identity).candidate for identity in queue]
        shown = read_status(session, run.id, queue[0])
    assert texts == [f"Wording {number}: add 2 and 3." for number in range(18, 23)]
    assert (shown.status, shown.strategy, shown.model) == ("undecided", "perspectives", "test/proposer")
    with db.write() as session:
        record_reviews(session, [Decision(queue[1], "accepted", "", "ada")])
    with db.read() as session:
        assert open_queue(session, run.id, "ada", statuses=["undecided"]) == [queue[0], *queue[2:]]
        assert queue[1] not in open_queue(session, run.id, "ada", statuses=["accepted"])
        assert queue[1] in open_queue(session, run.id, "bob", statuses=["accepted"])
