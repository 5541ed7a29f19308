"""Audits: what is drawn, the order of review, progress, and error rates as they grow."""

import pytest
from runs import Proposed, add_run, add_verdict

from rephraser.reviews.audit import (
    Audit,
    AuditMember,
    audit_progress,
    audit_queue,
    audit_rates,
    get_audit,
    group_rate,
    list_audits,
    open_audit,
)
from rephraser.reviews.store import (
    Decision,
    DecisionWord,
    ReviewProgress,
    open_queue,
    read_items,
    record_reviews,
)
from rephraser.tables import ReviewRow
from service.database import Database
from service.errors import InputError
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
    assert rates["complete"]
    assert (rates["false_accept"]["count"], rates["false_accept"]["reviewed"]) == (12, 12)
    assert (rates["false_reject"]["count"], rates["false_reject"]["reviewed"]) == (6, 6)


def test_a_run_without_verdicts_has_nothing_to_audit(db: Database) -> None:
    empty = add_run(db, "empty", [("Halve 8.", "4", [Proposed("What is half of 8?", ())])])
    with pytest.raises(InputError, match="nothing to audit"):
        open_audit(db, empty, size=10, seed=0)


def test_only_decisions_for_this_audit_count(db: Database, run: Run) -> None:
    one, _ = open_audit(db, run, size=23, seed=0)
    two, _ = open_audit(db, run, size=22, seed=0)
    decide(db, one)
    with db.write() as session:
        plain = Decision(one.members[0].candidate_id, "rejected", "no", "ada")
        record_reviews(session, [plain])
    with db.read() as session:
        assert audit_rates(session, one)["false_accept"]["count"] == 0
        assert audit_rates(session, two)["reviewed"] == 0


QUESTIONS = 9


@pytest.fixture
def grouped(db: Database) -> Run:
    """Question n has n accepted candidates, a rejected and an undecided one; question 0 none accepted."""
    return add_run(
        db,
        "grouped",
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
            question = read_items(session, [member.candidate_id])[0].question
            if found and found[-1][0] == question:
                found[-1] = (question, found[-1][1] + 1)
            else:
                found.append((question, 1))
    return found


def test_questions_are_drawn_with_all_their_accepted_neighbors_together(db: Database, grouped: Run) -> None:
    audit, new = open_audit(db, grouped, kind="groups", size=4, seed=7)
    assert new
    drawn = groups(db, audit)
    assert len(drawn) == 4
    assert [int(question.split()[2]) for question, _ in drawn] == [count for _, count in drawn]
    assert {(member.status, member.stratum_size) for member in audit.members} == {("accepted", QUESTIONS - 1)}
    assert open_audit(db, grouped, kind="groups", size=4, seed=7) == (audit, False)
    other, _ = open_audit(db, grouped, kind="groups", size=4, seed=8)
    assert groups(db, other) != drawn
    candidates, _ = open_audit(db, grouped, size=4, seed=7)
    assert (candidates.kind, candidates.id) == ("candidates", other.id + 1)
    with db.read() as session:
        assert audit_rates(session, candidates)["groups"] is None
        assert audit_queue(session, audit, "ada") == [member.candidate_id for member in audit.members]


def test_open_groups_bound_the_share() -> None:
    """Ten groups of two: 0, 1 sound; 2 broken; 3 broken, not whole; 4 accepted in part; 5 to 9 not."""
    members = [AuditMember(f"{group}-{n}", "accepted", 40) for group in range(10) for n in range(2)]
    questions = {member.candidate_id: member.candidate_id[0] for member in members}
    made: dict[str, DecisionWord] = {f"{group}-{n}": "accepted" for group in range(3) for n in range(2)}
    made |= {"2-1": "rejected", "3-0": "rejected", "4-1": "accepted"}
    reviews = [
        ReviewRow(id=n, candidate_id=one, reviewer="ada", decision=word)
        for n, (one, word) in enumerate(made.items())
    ]

    found = group_rate(members, questions, reviews)

    assert (found["complete"], found["broken"]["count"], found["open"]) == (3, 1, 6)
    assert found["broken_groups"] == ["2", "3"]
    # Clopper and Pearson: 2 of 10 from .0252; 8 of 10, which mirrors it, to .9748.
    assert (found["low"], found["high"]) == pytest.approx((0.0252, 0.9748), abs=1e-4)
    nothing = group_rate(members, questions, [])
    assert (nothing["open"], nothing["broken_groups"]) == (10, [])
    assert (nothing["low"], nothing["high"]) == (0.0, 1.0)


def test_the_blind_order_is_of_the_seed_and_stays_when_candidates_go(db: Database, run: Run) -> None:
    def queue(reviewer: str = "ada", seed: int | None = 1) -> list[str]:
        everything = ("accepted", "rejected", "undecided")
        with db.read() as session:
            return open_queue(session, run.id, reviewer, statuses=everything, seed=seed)

    first = queue()
    assert len(first) == 23
    assert first == queue()
    assert sorted(first) == sorted(queue(seed=None))
    assert first != queue(seed=2)
    with db.write() as session:
        record_reviews(session, [Decision(first[3], "accepted", "", "ada")])
    assert queue() == [id for id in first if id != first[3]]
    assert queue("ben") == first


def test_the_newest_decision_counts_for_the_rate(db: Database, run: Run) -> None:
    audit, _ = open_audit(db, run, size=23, seed=1)
    accepted = [member.candidate_id for member in audit.members if member.status == "accepted"]
    made = [Decision(id, "accepted", "", "ada", audit.id) for id in accepted]
    made[1] = Decision(accepted[1], "rejected", "other", "ada", audit.id)
    made.append(Decision(accepted[0], "rejected", "other", "ben", audit.id))
    with db.write() as session:
        assert record_reviews(session, made) == len(made)
    with db.read() as session:
        rate = audit_rates(session, audit)["false_accept"]
        assert list_audits(session, run.id)[0].id == audit.id
        assert audit_progress(session, audit, "ada") == ReviewProgress(23, 11, 1)
    assert (rate["count"], rate["reviewed"]) == (2, 12)
