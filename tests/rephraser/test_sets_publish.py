"""Publishing: versions, which neighbors they get by distance, runs and success rates, adaptive numbers."""

import json

import pytest
from runs import Asked, Proposed, add_run, make_spec, neighbor_texts
from sqlalchemy import text
from tampering import past_tagrpo

from rephraser.sets.changes import diff
from rephraser.sets.publish import Adaptive, publish
from rephraser.sets.store import list_sets, load_set, verify
from rephraser.sets.types import Neighbor
from rephraser.verdict.successes import Successes
from service.database import Database
from service.errors import InputError, NotFoundError

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


def test_versions_hold_the_n_accepted_that_lie_furthest_apart_and_name_their_parents(db):
    add_run(db, "run", ASKED)
    published = publish(db, "math", run="run", n=2)
    first = published.header
    assert (published.created, first.ref) == (True, "math@1")
    assert neighbor_texts(db, "math") == {
        "What is 2+3?": ["Sum up 2 and 3.", "Again: add 2 to 3."],
        "Halve 8.": ["What is half of 8?"],
        "Is 7 prime?": [],
        "Double 8.": [],
    }
    second = publish(db, "math", run="run", n=1).header
    back = publish(db, "math", run="run", n=2)
    other = publish(db, "other", run="run", n=2).header
    assert (second.ref, second.parent_id) == ("math@2", first.id)
    assert second.content_hash != first.content_hash
    # Going back is a step forward: the newest version is what `math` means.
    assert (back.created, back.header.ref, back.same_as) == (True, "math@3", "math@1")
    assert (other.content_hash, other.parent_id) == (first.content_hash, None)
    assert other.id != first.id


def test_bad_usage_is_refused_and_publishes_nothing(db):
    add_run(db, "run", ASKED)
    for name, options, message in (
        ("no spaces", {}, "is not a valid name"),
        ("math", {"include": ("good",)}, "cannot include good"),
        ("math", {"strategies": ("absent",)}, "no candidate of run 'run' qualifies"),
    ):
        with pytest.raises(InputError, match=message):
            publish(db, name, run="run", **options)  # type: ignore[arg-type]
    with db.read() as session:
        assert list_sets(session) == []


FAR, NEAR = "Two coins and three coins make how many?", "What is 2 + 3 ?"
SOLVED: list[Asked] = [
    ("What is 2+3?", "5", [Proposed(NEAR, right=(16, 6)), Proposed(FAR, right=(16, 6))]),
    ("Halve 8.", "4", [Proposed("What is half of 8?", right=(0, 0))]),
    ("Double 8.", "16", [Proposed("Twice 8 is?", right=(31, 12)), Proposed("8 and 8 give?")]),
    ("Is 7 prime?", "yes", [Proposed("Prime: 7?")]),
]


def test_what_is_too_like_is_left_out_and_nothing_to_publish_says_why(db):
    add_run(db, "run", SOLVED)
    header = publish(db, "math", run="run", min_distance=0.15).header
    assert neighbor_texts(db, "math")["What is 2+3?"] == [FAR]
    assert header.counts["too_like"] == 1
    assert header.spec["publish"]["min_distance"] == 0.15
    add_run(db, "near", [("What is 2+3?", "5", [Proposed(NEAR)])])
    with pytest.raises(InputError, match=r"lower --min-distance \(1 candidates were too similar\)"):
        publish(db, "none", run="near", min_distance=0.15)
    add_run(db, "mixed", SOLVED[:1])
    with pytest.raises(InputError, match=r"--adaptive \(1 questions probably yield a gradient alone\)"):
        publish(db, "math", run="mixed", adaptive=Adaptive())
    with pytest.raises(NotFoundError, match="pilot"):
        publish(db, "math", run="run", adaptive=Adaptive(pilot="pilot"))


def test_several_runs_make_one_set_without_repetition(db):
    add_run(db, "run", SOLVED)
    more: list[Asked] = [
        ("Triple 3.", "9", [Proposed("Three times 3?")]),
        ("What is 2+3?", "5", [Proposed(FAR, model="other"), Proposed("Find the sum of 2 and 3.")]),
        ("Halve 8.", "4", [Proposed("What is half of 8?", ("rejected",))]),
    ]
    other = add_run(db, "more", more, spec=make_spec(seed=1))
    header = publish(db, "math", run=["run", "more"]).header
    found = neighbor_texts(db, "math")
    assert list(found) == [*(question for question, _, _ in SOLVED), "Triple 3."]
    assert sorted(found["What is 2+3?"]) == sorted([FAR, NEAR, "Find the sum of 2 and 3."])
    assert found["Halve 8."] == ["What is half of 8?"]
    assert [run["name"] for run in header.runs] == ["run", "more"]
    assert header.runs[1]["spec"] == other.spec
    assert header.counts["duplicates"] == 1
    with db.read() as session:
        (entry,) = [e for e in load_set(session, "math").entries if e.question.text == "What is 2+3?"]
        assert {one.text: one.model for one in entry.neighbors}[FAR] == "test/proposer"
        assert not verify(session, "math").problems
    with pytest.raises(InputError, match="give each run exactly once, not run, run"):
        publish(db, "twice", run=["run", "run"])


HARD, EASY, SAME = "Add 2 and 3.", "2 plus 3 make?", "What do 3 and 2 sum up to?"
COUNTED: list[Asked] = [
    (
        "What is 2+3?",
        "5",
        [Proposed(HARD, right=(16, 1)), Proposed(EASY, right=(16, 12)), Proposed(SAME, right=(16, 6))],
    ),
    ("Halve 8.", "4", [Proposed("What is half of 8?")]),
]


def neighbors(db: Database, reference: str) -> list[Neighbor]:
    with db.read() as session:
        return [one for entry in load_set(session, reference).entries for one in entry.neighbors]


@pytest.mark.parametrize(
    ("counts", "difficulty"),
    [
        ((16, 32, 6, 12), "level"),
        ((16, 32, 12, 12), "easier"),
        ((16, 32, 1, 12), "harder"),
        ((0, 32, 0, 16), "level"),
        ((0, 32, 2, 12), "easier"),
        ((32, 32, 16, 16), "level"),
    ],
)
def test_difficulty_is_beyond_one_standard_error(counts, difficulty):
    assert Successes("solver", *counts).difficulty == difficulty


def test_neighbors_carry_counts_and_the_preferred_difficulty_comes_first(db):
    add_run(db, "run", COUNTED)
    header = publish(db, "math", run="run").header
    by_text = {one.text: one.successes for one in neighbors(db, "math")}
    assert by_text[EASY] == Successes("test/solver", 16, 32, 12, 12)
    assert by_text["What is half of 8?"] is None
    known = header.counts["successes"]
    assert known["difficulty"] == {"easier": 1, "level": 1, "harder": 1}
    assert (known["neighbors"], known["solvers"]) == (3, ["test/solver"])
    assert (known["question_rate"], known["neighbor_rate"]) == (0.5, pytest.approx(19 / 36, abs=1e-4))
    for prefer, first in (("easier", EASY), ("harder", HARD), ("level", SAME), ("any", SAME)):
        publish(db, prefer, run="run", n=1, prefer=prefer)
        assert neighbors(db, prefer)[0].text == first


def test_the_content_hash_leaves_counts_out_and_verify_does_not(db):
    add_run(db, "run", COUNTED)
    add_run(db, "bare", [(q, a, [Proposed(p.text) for p in ps]) for q, a, ps in COUNTED])
    bare = publish(db, "math", run="bare").header
    counted = publish(db, "math", run="run")
    assert counted.created
    assert (counted.header.content_hash, counted.same_as) == (bare.content_hash, "math@1")
    assert "successes" not in bare.counts
    assert not publish(db, "math", run="run").created
    with db.read() as session:
        assert not verify(session, "math@1").problems
        assert not verify(session, "math@2").problems
        found = diff(session, "math@1", "math@2")
        assert (found["same"], found["neighbors_changed"]) == (True, [])
    forged = json.dumps(
        {"solver": "x", "question_right": 1, "question_drawn": 2, "neighbor_right": 2, "neighbor_drawn": 2}
    )
    with past_tagrpo(db) as connection:
        update = text("UPDATE neighbor_set_members SET successes = :s WHERE set_id = :i")
        connection.execute(update, {"s": forged, "i": counted.header.id})
    with db.read() as session:
        (problem,) = verify(session, "math@2").problems
    assert "the members have successes = " in problem
