"""What the review page needs: order, progress, agreement, rates as they grow."""

import pytest
from runs import Proposed, add_run

from rephraser.reviews.audit import audit_rates, list_audits, open_audit
from rephraser.reviews.queue import ReviewProgress, audit_progress, open_queue
from rephraser.reviews.store import Decision, record_reviews
from service.database import Database
from service.runs.store import Run


@pytest.fixture
def run(db: Database) -> Run:
    """Twelve questions with one candidate each: eight accepted, two rejected, two undecided."""
    statuses = ["accepted"] * 8 + ["rejected"] * 2 + ["undecided"] * 2
    asked = [(f"{n}?", "1", [Proposed(f"say {n}", (status,))]) for n, status in enumerate(statuses)]
    return add_run(db, "r", asked)


def decide(db: Database, reviewer: str, audit_id: int | None = None, **decisions: str) -> None:
    made = [
        Decision(id, "accepted" if word == "accepted" else "rejected", "read it", reviewer, audit_id)
        for id, word in decisions.items()
    ]
    with db.write() as session:
        assert record_reviews(session, made) == len(made)


def queue(db: Database, run: Run, reviewer: str = "ada", **how: object) -> list[str]:
    with db.read() as session:
        return open_queue(session, run.id, reviewer, **how)  # type: ignore[arg-type]


def test_the_blind_order_is_of_the_seed_and_stays_when_candidates_go(db: Database, run: Run) -> None:
    everything = ("accepted", "rejected", "undecided")
    first = queue(db, run, statuses=everything, seed=1)
    assert len(first) == 12
    assert first == queue(db, run, statuses=everything, seed=1)
    assert sorted(first) == sorted(queue(db, run, statuses=everything))
    assert first != queue(db, run, statuses=everything, seed=2)
    decide(db, "ada", **{first[3]: "accepted"})
    assert queue(db, run, statuses=everything, seed=1) == [id for id in first if id != first[3]]
    assert queue(db, run, "ben", statuses=everything, seed=1) == first


def test_the_newest_decision_counts_for_the_rate(db: Database, run: Run) -> None:
    audit, _ = open_audit(db, run, size=12, seed=1)
    accepted = [member.candidate_id for member in audit.members if member.status == "accepted"]
    for place, id in enumerate(accepted):
        decide(db, "ada", audit.id, **{id: "rejected" if place == 1 else "accepted"})
    decide(db, "ben", audit.id, **{accepted[0]: "rejected"})
    with db.read() as session:
        rate = audit_rates(session, audit)["false_accept"]
        assert list_audits(session, run.id)[0].id == audit.id
        assert audit_progress(session, audit, "ada") == ReviewProgress(12, 7, 1)
    assert (rate["count"], rate["reviewed"]) == (2, 8)
