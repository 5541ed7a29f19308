"""Audits: what is drawn, the order of review, sheets, and error rates as they grow."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import Proposed, add_run, add_verdict

from rephraser.candidates import candidate_id
from rephraser.reviews import audit as audits
from rephraser.reviews import store
from rephraser.reviews.sheet import read_sheet, write_sheet
from rephraser.tables import ReviewRow
from service.database import Database
from service.errors import InputError, TagrpoError
from service.questions.question import make_question

QUESTION = make_question("What is 2+3?", "5")


@pytest.fixture
def run(db):
    verdicts = ["accepted"] * 12 + ["rejected"] * 6 + ["undecided"] * 5
    proposed = [
        Proposed(f"Wording {number}: add 2 and 3.", ("unverified", verdict))
        for number, verdict in enumerate(verdicts)
    ]
    return add_run(db, "run", [(QUESTION.text, "5", [*proposed, Proposed("Not judged yet.", ())])])


def decide(db: Database, audit: audits.Audit, reviewer: str = "ada", *, reject: tuple[str, ...] = ()) -> None:
    with db.write() as session:
        for member in audit.members:
            word = "rejected" if member.status in reject else "accepted"
            made = store.Decision(member.candidate_id, word, "seen", reviewer, audit.id)
            store.record_reviews(session, [made])


def test_an_audit_is_drawn_once(db, run):
    first, new = audits.open_audit(db, run, size=10, seed=7)
    again, newer = audits.open_audit(db, run, size=10, seed=7)
    assert (new, newer) == (True, False)
    assert again == first
    assert [first.run_name, first.size, first.seed] == ["run", 10, 7]
    statuses = [(member.status, member.stratum_size) for member in first.members]
    drawn = {pair: statuses.count(pair) for pair in set(statuses)}
    assert drawn == {("accepted", 12): 4, ("rejected", 6): 4, ("undecided", 5): 2}
    with db.read() as session:
        assert audits.get_audit(session, first.id) == first
    other, _ = audits.open_audit(db, run, size=10, seed=8)
    assert other.id != first.id
    assert {m.candidate_id for m in other.members} != {m.candidate_id for m in first.members}
    empty = add_run(db, "empty", [("Halve 8.", "4", [Proposed("What is half of 8?", ())])])
    with pytest.raises(InputError, match="nothing to audit"):
        audits.open_audit(db, empty, size=10, seed=0)


def test_reviews_and_later_verdicts_do_not_move_what_was_drawn(db, run):
    audit, _ = audits.open_audit(db, run, size=23, seed=0)
    accepted = [member.candidate_id for member in audit.members if member.status == "accepted"]
    assert len(accepted) == 12
    decide(db, audit, reject=("accepted",))
    add_verdict(db, run, QUESTION, "Wording 0: add 2 and 3.", "rejected")
    again, _ = audits.open_audit(db, run, size=23, seed=0)
    with db.read() as session:
        rates = audits.audit_rates(session, again)
    assert again == audit
    assert rates["complete"]
    assert (rates["false_accept"]["count"], rates["false_accept"]["reviewed"]) == (12, 12)
    assert (rates["false_reject"]["count"], rates["false_reject"]["reviewed"]) == (6, 6)


def test_only_decisions_for_this_audit_count(db, run):
    one, _ = audits.open_audit(db, run, size=23, seed=0)
    two, _ = audits.open_audit(db, run, size=22, seed=0)
    decide(db, one)
    with db.write() as session:
        plain = store.Decision(one.members[0].candidate_id, "rejected", "no", "ada")
        store.record_reviews(session, [plain])
    with db.read() as session:
        assert audits.audit_rates(session, one)["false_accept"]["count"] == 0
        assert audits.audit_rates(session, two)["reviewed"] == 0


QUESTIONS = 9


@pytest.fixture
def grouped(db):
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


def groups(db: Database, audit: audits.Audit) -> list[tuple[str, int]]:
    """The question of the members in their order, with how many of them stand together."""
    found: list[tuple[str, int]] = []
    with db.read() as session:
        for member in audit.members:
            question = store.read_items(session, [member.candidate_id])[0].question
            if found and found[-1][0] == question:
                found[-1] = (question, found[-1][1] + 1)
            else:
                found.append((question, 1))
    return found


def test_questions_are_drawn_with_all_their_accepted_neighbors_together(db, grouped):
    audit, new = audits.open_audit(db, grouped, kind="groups", size=4, seed=7)
    assert new
    drawn = groups(db, audit)
    assert len(drawn) == 4
    assert [int(question.split()[2]) for question, _ in drawn] == [count for _, count in drawn]
    assert {(member.status, member.stratum_size) for member in audit.members} == {("accepted", QUESTIONS - 1)}
    assert audits.open_audit(db, grouped, kind="groups", size=4, seed=7) == (audit, False)
    other, _ = audits.open_audit(db, grouped, kind="groups", size=4, seed=8)
    assert groups(db, other) != drawn
    candidates, _ = audits.open_audit(db, grouped, size=4, seed=7)
    assert (candidates.kind, candidates.id) == ("candidates", other.id + 1)
    with db.read() as session:
        assert audits.audit_rates(session, candidates)["groups"] is None
        assert audits.audit_queue(session, audit, "ada") == [member.candidate_id for member in audit.members]


def test_open_groups_bound_the_share():
    """Ten groups of two: 0, 1 sound; 2 broken; 3 broken, not whole; 4 accepted in part; 5 to 9 not."""
    members = [audits.AuditMember(f"{group}-{n}", "accepted", 40) for group in range(10) for n in range(2)]
    questions = {member.candidate_id: member.candidate_id[0] for member in members}
    made: dict[str, store.DecisionWord] = {f"{group}-{n}": "accepted" for group in range(3) for n in range(2)}
    made |= {"2-1": "rejected", "3-0": "rejected", "4-1": "accepted"}
    reviews = [
        ReviewRow(id=n, candidate_id=one, reviewer="ada", decision=word)
        for n, (one, word) in enumerate(made.items())
    ]
    found = audits.group_rate(members, questions, reviews)
    assert (found["complete"], found["broken"]["count"], found["open"]) == (3, 1, 6)
    assert found["broken_groups"] == ["2", "3"]
    # Clopper and Pearson: 2 of 10 from .0252; 8 of 10, which mirrors it, to .9748.
    assert (found["low"], found["high"]) == pytest.approx((0.0252, 0.9748), abs=1e-4)
    nothing = audits.group_rate(members, questions, [])
    assert (nothing["open"], nothing["broken_groups"]) == (10, [])
    assert (nothing["low"], nothing["high"]) == (0.0, 1.0)


def test_the_blind_order_is_of_the_seed_and_stays_when_candidates_go(db, run):
    def queue(reviewer: str = "ada", seed: int | None = 1) -> list[str]:
        everything = ("accepted", "rejected", "undecided")
        with db.read() as session:
            return store.open_queue(session, run.id, reviewer, statuses=everything, seed=seed)

    first = queue()
    assert len(first) == 23
    assert first == queue()
    assert sorted(first) == sorted(queue(seed=None))
    assert first != queue(seed=2)
    with db.write() as session:
        store.record_reviews(session, [store.Decision(first[3], "accepted", "", "ada")])
    assert queue() == [id for id in first if id != first[3]]
    assert queue("ben") == first


def test_the_newest_decision_counts_for_the_rate(db, run):
    audit, _ = audits.open_audit(db, run, size=23, seed=1)
    accepted = [member.candidate_id for member in audit.members if member.status == "accepted"]
    made = [store.Decision(id, "accepted", "", "ada", audit.id) for id in accepted]
    made[1] = store.Decision(accepted[1], "rejected", "other", "ada", audit.id)
    made.append(store.Decision(accepted[0], "rejected", "other", "ben", audit.id))
    with db.write() as session:
        assert store.record_reviews(session, made) == len(made)
    with db.read() as session:
        rate = audits.audit_rates(session, audit)["false_accept"]
        assert audits.list_audits(session, run.id)[0].id == audit.id
        assert audits.audit_progress(session, audit, "ada") == store.ReviewProgress(23, 11, 1)
    assert (rate["count"], rate["reviewed"]) == (2, 12)


WORDS: dict[str, store.DecisionWord] = {"a": "accepted", "r": "rejected"}


def members(status: str, count: int, size: int) -> list[audits.AuditMember]:
    return [audits.AuditMember(f"{status}{index}", status, size) for index in range(count)]


def decisions(status: str, letters: str) -> list[ReviewRow]:
    """One decision a letter, on members 0, 1, ... of a stratum; "." leaves one out."""
    words = [(n, WORDS[letter]) for n, letter in enumerate(letters) if letter != "."]
    return [ReviewRow(id=n, candidate_id=f"{status}{n}", reviewer="ada", decision=word) for n, word in words]


def test_rates_by_hand():
    drawn = members("accepted", 10, 900) + members("rejected", 5, 90) + members("undecided", 2, 10)
    letters = {"accepted": "raaaaaaaaa", "rejected": "rrrra", "undecided": "ar"}
    reviews = [row for status, word in letters.items() for row in decisions(status, word)]
    rates = audits.error_rates(drawn, reviews)
    assert (rates["drawn"], rates["reviewed"], rates["open"], rates["complete"]) == (17, 17, 0, True)
    accept, reject = rates["false_accept"], rates["false_reject"]
    assert (accept["count"], accept["reviewed"], accept["share"]) == (1, 10, 0.1)
    assert (accept["low"], accept["high"]) == pytest.approx((0.002529, 0.445016), abs=1e-6)
    assert (reject["count"], reject["reviewed"], reject["share"]) == (1, 5, 0.2)
    assert (reject["low"], reject["high"]) == pytest.approx((0.005051, 0.716418), abs=1e-6)
    strata = [(s["status"], s["size"], s["drawn"], s["rejected"]["count"]) for s in rates["strata"]]
    assert strata == [("accepted", 900, 10, 1), ("rejected", 90, 5, 4), ("undecided", 10, 2, 1)]
    # Only accepted ones may be published, so this is the false-accept rate.
    assert rates["broken"]["statuses"] == {"accepted": 900}
    for name in ("share", "low", "high"):
        assert rates["broken"][name] == rates["false_accept"][name]


def test_the_broken_share_weighs_strata_by_their_sizes():
    drawn = members("accepted", 4, 300) + members("unverified", 4, 100) + members("rejected", 4, 50)
    rates = audits.error_rates(drawn, decisions("accepted", "aaaa") + decisions("unverified", "rraa"))
    assert rates["broken"]["statuses"] == {"accepted": 300, "unverified": 100}
    assert rates["broken"]["share"] == pytest.approx(0.25 * 0.5)
    # Exact 97.5% intervals: 0 of 4 reaches 1 - .0125^(1/4) = .665630; 2 of 4 goes from .047121 to .952879.
    assert rates["broken"]["low"] == pytest.approx(0.25 * 0.047121, abs=1e-5)
    assert rates["broken"]["high"] == pytest.approx(0.75 * 0.665630 + 0.25 * 0.952879, abs=1e-5)


@pytest.mark.parametrize(
    ("pairs", "kappa"),
    [
        # 2 by 2 table 20, 5, 10, 15: observed .7, by chance .5 * .6 + .5 * .4 = .5.
        ("aa" * 20 + "ar" * 5 + "ra" * 10 + "rr" * 15, 0.4),
        ("aa" * 3 + "rr" * 2, 1.0),
        ("ar" * 2 + "ra" * 2, -1.0),
        ("aa" * 9 + "ar", 0.0),
        ("aa" * 5, None),
    ],
)
def test_kappa(pairs, kappa):
    found = audits.cohens_kappa([(pairs[i], pairs[i + 1]) for i in range(0, len(pairs), 2)])
    assert found == (None if kappa is None else pytest.approx(kappa))


SIZES = st.fixed_dictionaries({name: st.integers(0, 40) for name in audits.STRATA})


@given(SIZES, st.integers(1, 60), st.integers(0, 5))
def test_a_draw_follows_its_allocation_whatever_the_order(sizes, size, seed):
    strata = {name: [f"c_{name}_{index}" for index in range(count)] for name, count in sizes.items()}
    turned = {name: ids[::-1] for name, ids in reversed(strata.items())}
    drawn = audits.draw(strata, size=size, seed=seed)
    assert drawn == audits.draw(turned, size=size, seed=seed)
    assert len({member.candidate_id for member in drawn}) == len(drawn)
    statuses = [member.status for member in drawn]
    assert {name: statuses.count(name) for name in audits.STRATA} == audits.allocate(sizes, size)
    assert all(member.candidate_id in strata[member.status] for member in drawn)
    assert all(member.stratum_size == sizes[member.status] for member in drawn)


TEXTS = ("Add 2 and 3.", "Add 2\u2028and 4.")
GOOD, BAD = (candidate_id(QUESTION.id, text) for text in TEXTS)


@pytest.fixture
def audit(db):
    proposed = [Proposed(TEXTS[0]), Proposed(TEXTS[1], ("rejected",), strategy="format")]
    run = add_run(db, "run", [(QUESTION.text, "5", proposed)])
    return audits.open_audit(db, run, size=4, seed=0)[0]


def test_the_sheet_is_blind_and_comes_back_filled(db, audit, tmp_path):
    path = tmp_path / "sheet.jsonl"
    with db.read() as session:
        assert write_sheet(session, audit, path) == 2
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    assert [row["candidate"] for row in rows] == [member.candidate_id for member in audit.members]
    assert sorted(row["candidate_text"] for row in rows) == sorted(TEXTS)
    keys = {"audit", "candidate", "question", "answer", "candidate_text", "decision", "reason"}
    assert all(set(row) == keys for row in rows)
    assert "perspectives" not in path.read_text()
    with db.read() as session, pytest.raises(InputError, match="none of its 2 rows has"):
        read_sheet(session, path, reviewer="ada", audit_id=None)
    for row in rows:
        row["decision"], row["reason"] = ("Accept", "") if row["candidate"] == GOOD else ("reject", "4")
    path.write_text("\ufeff" + "".join(json.dumps(row, ensure_ascii=False) + "\r\n" for row in rows))
    with db.read() as session:
        decisions, blank = read_sheet(session, path, reviewer="ada", audit_id=audit.id)
    assert blank == 0
    assert set(decisions) == {
        store.Decision(GOOD, "accepted", "", "ada", audit.id),
        store.Decision(BAD, "rejected", "4", "ada", audit.id),
    }


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("{", "not valid JSON"),
        ("[1]", "not a JSON object"),
        ({"candidate": GOOD, "decision": "maybe"}, "'maybe': Input should be '', 'accept'"),
        ({"candidate": GOOD, "decision": True}, '"decision" is True: '),
        ({"decision": "accept"}, '"candidate"'),
        ({"candidate": "c_zz", "decision": "accept"}, "no candidate has an id"),
        ({"candidate": "c_", "decision": "accept"}, "several candidates"),
        ({"candidate": GOOD, "decision": "reject", "reason": " "}, "needs a reason"),
        ({"candidate": GOOD, "decision": "accept", "audit": "1"}, '"audit" is '),
        ({"candidate": GOOD, "decision": "accept", "audit": 9}, "belongs to audit 9, not to --audit 1"),
        ({"candidate": BAD, "decision": "reject", "reason": "no"}, "contradicts line 1"),
    ],
)
def test_a_bad_row_is_named(db, audit, tmp_path, row, said):
    path, first = tmp_path / "d.jsonl", json.dumps({"candidate": BAD, "decision": "accept"})
    path.write_text(f"{first}\n{row if isinstance(row, str) else json.dumps(row)}\n", encoding="utf-8")
    with pytest.raises(TagrpoError) as error, db.read() as session:
        read_sheet(session, path, reviewer="ada", audit_id=1)
    assert f"{path}:2: " in str(error.value)
    assert said in str(error.value)
