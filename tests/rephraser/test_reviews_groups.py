"""Audits of groups: questions with all their accepted neighbors, and the share with a broken one."""

import pytest
from runs import Proposed, add_run

from rephraser.reviews.audit import Audit, audit_groups, open_audit
from rephraser.reviews.queue import audit_queue, read_item
from rephraser.reviews.rates import group_rate
from rephraser.reviews.sampling import AuditMember
from rephraser.reviews.store import DecisionWord, Review
from service.database import Database
from service.runs.store import Run

QUESTIONS = 9


@pytest.fixture
def run(db: Database) -> Run:
    """Question n has n accepted candidates, a rejected and an undecided one; question 0 none accepted."""
    return add_run(
        db,
        "run",
        [
            (
                f"What is {n} + 1?",
                str(n + 1),
                [
                    *(Proposed(f"Way {way} to add one to {n}.", ("accepted",)) for way in range(n)),
                    Proposed(f"Add two to {n}.", ("rejected",)),
                    Proposed(f"Add one or two to {n}.", ("undecided",)),
                ],
            )
            for n in range(QUESTIONS)
        ],
    )


def groups(db: Database, audit: Audit) -> list[tuple[str, int]]:
    """The question of the members in their order, with how many of them stand together."""
    found: list[tuple[str, int]] = []
    with db.read() as session:
        for member in audit.members:
            question = read_item(session, member.candidate_id).question
            if found and found[-1][0] == question:
                found[-1] = (question, found[-1][1] + 1)
            else:
                found.append((question, 1))
    return found


def test_questions_are_drawn_with_all_their_accepted_neighbors_together(db: Database, run: Run) -> None:
    audit, new = open_audit(db, run, kind="groups", size=4, seed=7)
    assert new
    drawn = groups(db, audit)
    assert len(drawn) == 4
    assert [int(question.split()[2]) for question, _ in drawn] == [count for _, count in drawn]
    assert {(member.status, member.stratum_size) for member in audit.members} == {("accepted", QUESTIONS - 1)}
    assert open_audit(db, run, kind="groups", size=4, seed=7) == (audit, False)
    other, _ = open_audit(db, run, kind="groups", size=4, seed=8)
    assert groups(db, other) != drawn
    candidates, _ = open_audit(db, run, size=4, seed=7)
    assert (candidates.kind, candidates.id) == ("candidates", other.id + 1)
    with db.read() as session:
        assert audit_groups(session, candidates) is None
        assert audit_queue(session, audit, "ada") == [member.candidate_id for member in audit.members]


def test_open_groups_bound_the_share() -> None:
    """Ten groups of two: 0, 1 sound; 2 broken; 3 broken, not whole; 4 accepted in part; 5 to 9 not."""
    members = [AuditMember(f"{group}-{n}", "accepted", 40) for group in range(10) for n in range(2)]
    questions = {member.candidate_id: member.candidate_id[0] for member in members}
    made: dict[str, DecisionWord] = {f"{group}-{n}": "accepted" for group in range(3) for n in range(2)}
    made |= {"2-1": "rejected", "3-0": "rejected", "4-1": "accepted"}
    reviews = [Review(n, one, "ada", word, "", 1, "") for n, (one, word) in enumerate(made.items())]

    found = group_rate(members, questions, reviews)

    assert (found.complete, found.broken.count, found.open) == (3, 1, 6)
    assert found.broken_groups == ("2", "3")
    # Clopper and Pearson: 2 of 10 from .0252; 8 of 10, which mirrors it, to .9748.
    assert (found.low, found.high) == pytest.approx((0.0252, 0.9748), abs=1e-4)
    nothing = group_rate(members, questions, [])
    assert (nothing.open, nothing.broken_groups, nothing.low, nothing.high) == (10, (), 0.0, 1.0)
