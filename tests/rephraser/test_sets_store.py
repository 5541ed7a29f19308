"""Finding, tagging and comparing versions, and that a published version cannot change."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from candidates import publish_reviewed_apples
from runs import Asked, Proposed, add_run, open_empty
from sqlalchemy import delete, insert, text, update
from sqlalchemy.exc import IntegrityError
from tampering import past_tagrpo

from rephraser.sets import changes
from rephraser.sets.changes import Change, diff
from rephraser.sets.export import export_set
from rephraser.sets.publish import publish
from rephraser.sets.store import find_set, list_sets, load_set, tag, verify
from rephraser.tables import CandidateRow, NeighborSetMemberRow, NeighborSetQuestionRow, NeighborSetRow
from service.database import Database
from service.errors import NotFoundError
from service.questions.question import make_question

ASKED: list[Asked] = [
    ("What is 2+3?", "5", [Proposed("Add 2 and 3."), Proposed("Sum up 2 and 3.")]),
    ("Halve 8.", "4", [Proposed("What is half of 8?")]),
    ("Double 8.", "16", []),
]


@pytest.fixture(autouse=True)
def _run(db):
    add_run(db, "run", ASKED)


@pytest.fixture
def published(db):
    return [publish(db, "math", run="run", n=n).header for n in (1, 2)]


def ref_of(db: Database, reference: str) -> str:
    with db.read() as session:
        return find_set(session, reference).ref


def test_references(db, published):
    with db.write() as session:
        tag(session, "math@1", "paper")
    for reference in ("math@1", "math@v1", "math@paper", published[0].id):
        assert ref_of(db, reference) == "math@1"
    for reference in ("math", published[1].id[:12]):
        assert ref_of(db, reference) == "math@2"
    for reference, message in (
        ("other", "no neighbor set 'other'. Available: math."),
        ("math@3", "no version or tag '3'. Available: math@1, math@paper, math@2."),
        ("math@draft", "no version or tag 'draft'"),
        ("set_", "several sets have ids that start with 'set_'"),
        ("set_zz", "no neighbor set 'set_zz'"),
        ("", "no neighbor set ''"),
    ):
        with pytest.raises(NotFoundError, match=re.escape(message)):
            ref_of(db, reference)


CHANGES = (
    update(NeighborSetRow).values(content_hash="0"),
    delete(NeighborSetRow),
    update(NeighborSetQuestionRow).values(position=9),
    delete(NeighborSetQuestionRow),
    update(NeighborSetMemberRow).values(verdict="accepted"),
    delete(NeighborSetMemberRow),
    update(CandidateRow).values(text="other"),
)


def test_the_database_refuses_changes(db, published):
    for change in CHANGES:
        with pytest.raises(IntegrityError, match="append-only"), db.write() as session:
            session.execute(change)
    with db.read() as session:
        assert not verify(session, "math@2").problems


def test_the_database_refuses_more_members(db, published):
    with db.read() as session:
        entry = load_set(session, "math@1").entries[0]
    member = {**vars(entry.neighbors[0]), "question_id": entry.question.id, "position": 7}
    del member["text"]
    for table, row in (
        (NeighborSetMemberRow, member),
        (NeighborSetQuestionRow, {"question_id": entry.question.id, "position": 7}),
    ):
        with pytest.raises(IntegrityError, match="published and cannot change"), db.write() as session:
            session.execute(insert(table).values(set_id=published[0].id, **row))


TAMPERING = {
    "UPDATE neighbor_set_members SET posterior = 0.5 WHERE position = 2": "members have changed",
    "UPDATE neighbor_set_members SET verdict = 'rejected' WHERE position = 2": "neighbors_by_verdict",
    "DELETE FROM neighbor_set_members WHERE position = 2": "members have neighbors = 2, but the set records "
    "3",
    "DELETE FROM neighbor_set_questions WHERE position = 0": "3 neighbors are stored, but 1 belong to",
    "UPDATE candidates SET text = 'Add 2 and 4.' WHERE text = 'Add 2 and 3.'": "does not match its id",
    "UPDATE questions SET answer = '6' WHERE answer = '5'": "answer or images of question q_",
    "UPDATE questions SET level = 'Level 1' WHERE answer = '5'": "members have changed",
    "UPDATE neighbor_sets SET content_hash = 'f' WHERE version = 2": "the published one is f",
    "UPDATE neighbor_sets SET spec = '{}' WHERE version = 2": "one of them has changed",
    "UPDATE neighbor_sets SET counts = '{}' WHERE version = 2": "the members have questions = 3",
    "UPDATE neighbor_sets SET name = 'other' WHERE version = 2": "one of them has changed",
    "DELETE FROM neighbor_sets WHERE version = 1": "its parent set_",
}


@pytest.mark.slow
@pytest.mark.parametrize("statement", list(TAMPERING))
def test_verify_sees_what_was_done_behind_the_triggers(db, published, statement):
    with db.read() as session:
        assert verify(session, "math@2").problems == []
    with past_tagrpo(db) as connection:
        assert connection.execute(text(statement)).rowcount in {1, 2}  # of one version or of both
    with db.read() as session:
        report = verify(session, published[1].id)
    assert report.problems
    assert any(TAMPERING[statement] in problem for problem in report.problems), report.problems


def test_a_changed_set_is_not_exported(db, published, tmp_path):
    from service.errors import DatabaseError

    with past_tagrpo(db) as connection:
        connection.execute(text("UPDATE candidates SET text = 'Add 2 and 4.' WHERE text = 'Add 2 and 3.'"))
    with pytest.raises(DatabaseError, match="math@2: its members do not match its hash"):
        export_set(db, "math@2", tmp_path / "out.jsonl", "jsonl")
    assert list(tmp_path.glob("out*")) == []


ADD, SUM = Proposed("Add 2 and 3."), Proposed("Sum up 2 and 3.")
FIVE = make_question("What is 2+3?", "5").id


@pytest.fixture
def empty(tmp_path):
    return open_empty(tmp_path / "t.db")


@pytest.fixture
def versions(tmp_path):
    return publish_reviewed_apples(tmp_path / "t.db")


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), [(0, 2), (2, 1)])
def test_counts_and_pages_are_those_of_the_whole_comparison(versions, a, b):
    with versions.read() as session:
        ids = [header.id for header in list_sets(session)]
        whole = diff(session, ids[a], ids[b])
        found = changes.count_changes(session, ids[a], ids[b])
        for kind, number in found.items():
            assert len(whole[kind if kind in whole else f"neighbors_{kind}"]) == number
        for kind in ("added", "removed", "changed"):
            seen: list[Change] = []
            while page := changes.page_changes(
                session,
                ids[a],
                ids[b],
                kind,
                after=(seen[-1].question_id, seen[-1].position) if seen else None,
                limit=2,
            ):
                seen += page
            of_kind = whole[f"neighbors_{kind}"]
            ids_of_kind = [one.get("neighbor", one.get("after"))["candidate_id"] for one in of_kind]
            assert ids_of_kind == [one.neighbor.candidate_id for one in seen]


def diff_of(empty: Database, before: Sequence[Asked], after: Sequence[Asked]) -> dict[str, Any]:
    for name, asked in (("one", before), ("two", after)):
        add_run(empty, name, asked)
        publish(empty, "math", run=name, include=("accepted", "undecided"))
    with empty.read() as session:
        return diff(session, "math@1", "math@2")


def test_verdicts_and_other_fields(empty):
    found = diff_of(
        empty,
        [("What is 2+3?", "5", [Proposed(ADD.text, ("undecided",)), SUM])],
        [("What is 2+3?", "5", [ADD, Proposed(SUM.text, model="other/model")])],
    )
    assert [(change["question_id"], change["fields"]) for change in found["neighbors_changed"]] == [
        (FIVE, ["model"]),
        (FIVE, ["verdict"]),
    ]
    [change] = [each for each in found["neighbors_changed"] if "verdict" in each["fields"]]
    assert (change["before"]["verdict"], change["after"]["verdict"]) == ("undecided", "accepted")
    assert (found["reordered"], found["neighbors_added"], found["neighbors_removed"]) == ([], [], [])


def test_a_removed_neighbor_says_where_it_stands_now(empty):
    before: list[Asked] = [("What is 2+3?", "5", [ADD, SUM, Proposed("2 and 3 make?")])]
    unjudged, rejected = Proposed(SUM.text, ()), Proposed(ADD.text, ("rejected",))
    after: list[Asked] = [("What is 2+3?", "5", [rejected, unjudged, Proposed("3 plus 2?")])]
    found = diff_of(empty, before, after)
    removed = {(change["neighbor"]["text"], change["now"]) for change in found["neighbors_removed"]}
    assert removed == {(SUM.text, None), (ADD.text, "rejected"), ("2 and 3 make?", None)}
    assert [change["now"] for change in found["neighbors_added"]] == [None]
