import json

import pytest
from runs import Asked, Proposed, add_run
from sqlalchemy import text
from tampering import past_tagrpo

from rephraser import sets
from rephraser.verdict.successes import Successes
from service.database import Database

HARD, EASY, SAME = "Add 2 and 3.", "2 plus 3 make?", "What do 3 and 2 sum up to?"
ASKED: list[Asked] = [
    (
        "What is 2+3?",
        "5",
        [Proposed(HARD, right=(16, 1)), Proposed(EASY, right=(16, 12)), Proposed(SAME, right=(16, 6))],
    ),
    ("Halve 8.", "4", [Proposed("What is half of 8?")]),
]


@pytest.fixture(autouse=True)
def _run(db: Database) -> None:
    add_run(db, "run", ASKED)


def neighbors(db: Database, reference: str) -> list[sets.Neighbor]:
    with db.read() as session:
        return [one for entry in sets.load_set(session, reference).entries for one in entry.neighbors]


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
def test_difficulty_is_beyond_one_standard_error(counts: tuple[int, ...], difficulty: str) -> None:
    assert Successes("solver", *counts).difficulty == difficulty


def test_neighbors_carry_the_counts_of_their_verdict(db: Database) -> None:
    header = sets.publish(db, "math", run="run").header

    by_text = {one.text: one.successes for one in neighbors(db, "math")}
    assert by_text[EASY] == Successes("test/solver", 16, 32, 12, 12)
    assert by_text["What is half of 8?"] is None
    known = header.counts["successes"]
    assert known["difficulty"] == {"easier": 1, "level": 1, "harder": 1}
    assert (known["neighbors"], known["solvers"]) == (3, ["test/solver"])
    assert (known["question_rate"], known["neighbor_rate"]) == (0.5, pytest.approx(19 / 36, abs=1e-4))


@pytest.mark.parametrize(
    ("prefer", "first"), [("easier", EASY), ("harder", HARD), ("level", SAME), ("any", SAME)]
)
def test_the_preferred_difficulty_comes_first(db: Database, prefer: str, first: str) -> None:
    sets.publish(db, "math", run="run", n=1, prefer=prefer)

    assert neighbors(db, "math")[0].text == first


def test_the_content_hash_leaves_counts_out_and_verify_does_not(db: Database) -> None:
    add_run(db, "bare", [(q, a, [Proposed(p.text) for p in ps]) for q, a, ps in ASKED])
    bare = sets.publish(db, "math", run="bare").header
    counted = sets.publish(db, "math", run="run")

    assert counted.created
    assert (counted.header.content_hash, counted.same_as) == (bare.content_hash, "math@1")
    assert "successes" not in bare.counts
    assert not sets.publish(db, "math", run="run").created
    with db.read() as session:
        assert not sets.verify(session, "math@1").problems
        assert not sets.verify(session, "math@2").problems
        found = sets.diff(session, "math@1", "math@2")
        assert (found["same"], found["neighbors_changed"]) == (True, [])
    forged = json.dumps(
        {"solver": "x", "question_right": 1, "question_drawn": 2, "neighbor_right": 2, "neighbor_drawn": 2}
    )
    with past_tagrpo(db) as connection:
        connection.execute(
            text("UPDATE neighbor_set_members SET successes = :s WHERE set_id = :i"),
            {"s": forged, "i": counted.header.id},
        )
    with db.read() as session:
        (problem,) = sets.verify(session, "math@2").problems
    assert "the members have successes = " in problem
