"""Versions compared, whole and a page at a time; their rates."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from runs import Asked, Proposed, add_review, add_run, open_empty

from rephraser import sets
from rephraser.sets import Change, changes
from service.database import Database
from service.questions import make_question

ADD, SUM, HALF = Proposed("Add 2 and 3."), Proposed("Sum up 2 and 3."), Proposed("What is half of 8?")
FIVE, FOUR, TWICE = (
    make_question(*asked).id for asked in (("What is 2+3?", "5"), ("Halve 8.", "4"), ("Double 8.", "16"))
)


@pytest.fixture
def empty(tmp_path: Path) -> Database:
    return open_empty(tmp_path / "t.db")


@pytest.fixture
def db(empty: Database) -> Database:
    """Versions 1 to 3: one neighbor a question, two of them, and two with a review in between."""
    asked = [
        (
            f"How many apples are {n} and one?",
            str(n + 1),
            [
                Proposed(f"Add one to {n} apples."),
                Proposed(f"{n} and one apples are how many?", strategy="format", model="other/model"),
            ],
        )
        for n in range(6)
    ]
    add_run(empty, "r", asked)
    sets.publish(empty, "ta", run="r", n=1)
    sets.publish(empty, "ta", run="r", n=2)
    question = make_question("How many apples are 2 and one?", "3", "Level 3", "Algebra")
    add_review(empty, question, "Add one to 2 apples.", "rejected")
    add_review(empty, question, "2 and one apples are how many?", "accepted")
    sets.publish(empty, "ta", run="r", n=2)
    return empty


def set_ids(db: Database) -> list[str]:
    with db.read() as session:
        return [header.id for header in sets.list_sets(session)]


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), [(0, 2), (2, 1)])
def test_counts_and_pages_are_those_of_the_whole_comparison(db: Database, a: int, b: int) -> None:
    ids = set_ids(db)
    with db.read() as session:
        whole = sets.diff(session, ids[a], ids[b])
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
            ids_of_kind = [
                one.get("neighbor", one.get("after"))["candidate_id"] for one in whole[f"neighbors_{kind}"]
            ]
            assert ids_of_kind == [one.neighbor.candidate_id for one in seen]


def diff_of(empty: Database, before: Sequence[Asked], after: Sequence[Asked]) -> dict[str, Any]:
    for name, asked in (("one", before), ("two", after)):
        add_run(empty, name, asked)
        sets.publish(empty, "math", run=name, include=("accepted", "undecided"))
    with empty.read() as session:
        return sets.diff(session, "math@1", "math@2")


def test_verdicts_and_other_fields(empty: Database) -> None:
    found = diff_of(
        empty,
        [("What is 2+3?", "5", [Proposed(ADD.text, ("undecided",)), SUM])],
        [("What is 2+3?", "5", [ADD, Proposed(SUM.text, model="other/model")])],
    )
    assert [(change["question_id"], change["fields"]) for change in found["neighbors_changed"]] == [
        (FIVE, ["model"]),
        (FIVE, ["verdict"]),
    ]
    [change] = [each for each in found["neighbors_changed"] if each["verdict_changed"]]
    assert (change["before"]["verdict"], change["after"]["verdict"]) == ("undecided", "accepted")
    assert (found["reordered"], found["neighbors_added"], found["neighbors_removed"]) == ([], [], [])


def test_a_removed_neighbor_says_where_it_stands_now(empty: Database) -> None:
    before: list[Asked] = [("What is 2+3?", "5", [ADD, SUM])]
    after: list[Asked] = [("What is 2+3?", "5", [Proposed(ADD.text, ("rejected",)), Proposed("3 plus 2?")])]
    found = diff_of(empty, before, after)
    assert {(change["neighbor"]["text"], change["now"]) for change in found["neighbors_removed"]} == {
        ("Sum up 2 and 3.", None),
        ("Add 2 and 3.", "rejected"),
    }
    assert [change["now"] for change in found["neighbors_added"]] == [None]
