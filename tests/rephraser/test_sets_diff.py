from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from runs import Asked, Proposed, add_review, add_run, open_empty

from rephraser import sets
from rephraser.sets import Place, SetDiff
from service.database import Database
from service.questions import make_question

ADD, SUM, HALF = Proposed("Add 2 and 3."), Proposed("Sum up 2 and 3."), Proposed("What is half of 8?")
FIVE, FOUR, TWICE = (
    make_question(*asked).id for asked in (("What is 2+3?", "5"), ("Halve 8.", "4"), ("Double 8.", "16"))
)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with open_empty(tmp_path / "t.db") as database:
        yield database


def diff_of(db: Database, before: Sequence[Asked], after: Sequence[Asked]) -> SetDiff:
    for name, asked in (("one", before), ("two", after)):
        add_run(db, name, asked)
        sets.publish(db, "math", run=name, include=("accepted", "undecided"))
    with db.read() as session:
        return sets.diff(session, "math@1", "math@2")


def names(places: Sequence[Place]) -> list[tuple[str, str]]:
    return [(place.question_id, place.neighbor.text) for place in places]


def test_questions_and_neighbors_that_come_and_go(db: Database) -> None:
    found = diff_of(
        db,
        [("What is 2+3?", "5", [ADD]), ("Halve 8.", "4", [HALF])],
        [("Double 8.", "16", [Proposed("Twice 8?")]), ("What is 2+3?", "5", [SUM, ADD])],
    )

    assert not found.same
    assert (found.questions_added, found.questions_removed) == ((TWICE,), (FOUR,))
    assert names(found.added) == [(TWICE, "Twice 8?"), (FIVE, "Sum up 2 and 3.")]
    assert names(found.removed) == [(FOUR, "What is half of 8?")]
    assert (found.changed, found.reordered, found.questions_relabelled) == ((), (), ())


def test_verdicts_and_other_fields(db: Database) -> None:
    found = diff_of(
        db,
        [("What is 2+3?", "5", [Proposed(ADD.text, ("undecided",), 0.5), SUM])],
        [("What is 2+3?", "5", [ADD, Proposed(SUM.text, model="other/model")])],
    )

    assert [(change.question_id, change.fields) for change in found.changed] == [
        (FIVE, ("model",)),
        (FIVE, ("verdict", "posterior")),
    ]
    (change,) = found.verdicts_changed
    assert (change.before.verdict, change.after.verdict) == ("undecided", "accepted")
    assert (change.before.posterior, change.after.posterior) == (0.5, 0.998765)
    assert found.reordered == ()
    assert (found.added, found.removed) == ((), ())


def test_a_removed_neighbor_says_where_it_stands_now(db: Database) -> None:
    before: list[Asked] = [("What is 2+3?", "5", [ADD, SUM])]
    after: list[Asked] = [("What is 2+3?", "5", [Proposed(ADD.text, ("rejected",)), Proposed("3 plus 2?")])]

    found = diff_of(db, before, after)

    assert [(place.neighbor.text, place.now) for place in found.removed] == [
        ("Sum up 2 and 3.", None),
        ("Add 2 and 3.", "rejected"),
    ]
    assert [place.now for place in found.added] == [None]


def test_a_review_shows_as_a_change(db: Database) -> None:
    add_run(db, "one", [("What is 2+3?", "5", [ADD])])
    sets.publish(db, "math", run="one")
    add_review(db, make_question("What is 2+3?", "5"), ADD.text, "accepted")
    sets.publish(db, "math", run="one")

    with db.read() as session:
        found = sets.diff(session, "math@1", "math")

    assert [change.fields for change in found.changed] == [("reviewed",)]
    assert found.verdicts_changed == ()


def test_a_set_and_itself_under_another_name(db: Database) -> None:
    add_run(db, "one", [("What is 2+3?", "5", [ADD, SUM])])
    sets.publish(db, "a", run="one")
    sets.publish(db, "b", run="one")

    with db.read() as session:
        found = sets.diff(session, "a", "b")

    assert found.same
    assert (found.added, found.removed, found.changed, found.reordered) == ((), (), (), ())
