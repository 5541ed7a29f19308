import pytest
from runs import Asked, Proposed, add_run, neighbor_texts

from rephraser import sets
from service.database import Database
from service.errors import InputError

ASKED: list[Asked] = [
    (
        "What is 2+3?",
        "5",
        [
            Proposed("Again: add 2 to 3.", round=1),
            Proposed("Add 2 and 3."),
            Proposed("Add 2 and 4.", ("rejected",)),
            Proposed("Sum up 2 and 3.", strategy="format"),
            Proposed("2 and 3 make?", ("undecided",)),
        ],
    ),
    ("Halve 8.", "4", [Proposed("What is half of 8?", ("undecided", "accepted"), model="other/model")]),
    ("Is 7 prime?", "yes", [Proposed("Is 7 a prime number?", ("unverified",)), Proposed("Prime: 7?", ())]),
    ("Double 8.", "16", []),
]


def test_the_n_accepted_that_lie_furthest_apart(db: Database) -> None:
    add_run(db, "run", ASKED)

    published = sets.publish(db, "math", run="run", n=2)

    assert (published.created, published.header.ref) == (True, "math@1")
    assert neighbor_texts(db, "math") == {
        "What is 2+3?": ["Sum up 2 and 3.", "Again: add 2 to 3."],
        "Halve 8.": ["What is half of 8?"],
        "Is 7 prime?": [],
        "Double 8.": [],
    }


def test_other_content_makes_the_next_version_with_its_parent(db: Database) -> None:
    add_run(db, "run", ASKED)
    first = sets.publish(db, "math", run="run", n=2).header
    second = sets.publish(db, "math", run="run", n=1).header
    back = sets.publish(db, "math", run="run", n=2)
    other = sets.publish(db, "other", run="run", n=2).header

    assert (second.ref, second.parent_id) == ("math@2", first.id)
    assert second.content_hash != first.content_hash
    # Going back is a step forward: the newest version is what `math` means.
    assert (back.created, back.header.ref, back.same_as) == (True, "math@3", "math@1")
    assert (other.content_hash, other.parent_id) == (first.content_hash, None)
    assert other.id != first.id


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("no spaces", {}, "is not a valid name"),
        ("math", {"n": 0}, "at least 1"),
        ("math", {"include": ("good",)}, "cannot include good"),
        ("math", {"strategies": ("absent",)}, "no candidate of run 'run' qualifies"),
    ],
)
def test_bad_usage_is_refused_and_publishes_nothing(
    db: Database, name: str, options: dict[str, object], message: str
) -> None:
    add_run(db, "run", ASKED)

    with pytest.raises(InputError, match=message):
        sets.publish(db, name, run="run", **options)  # type: ignore[arg-type]

    with db.read() as session:
        assert sets.list_sets(session) == []
