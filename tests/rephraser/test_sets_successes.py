import json
from pathlib import Path

import pytest
from runs import Asked, Proposed, add_run, make_spec, open_empty
from sqlalchemy import text
from tampering import past_tagrpo

from rephraser import sets
from rephraser.sets.counts import count_successes
from rephraser.verdict.successes import Successes, from_columns, read_successes, solver_name, to_columns
from service.database import Database
from service.errors import InputError

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


def test_counts_are_read_from_the_evidence() -> None:
    counts = {
        "classes": ["4", "5"],
        "original": [3, 20],
        "candidate": [1, 9],
        "gold": 1,
        "original_unparsed": 9,
        "candidate_unparsed": 2,
    }
    solvers = [{"model": "a/b"}, {"model": "checkpoints/ck", "engine": {"weights": "w_1"}}]
    names = [solver_name(solver) for solver in solvers]
    assert read_successes(counts, names) == Successes("a/b + ck (w_1)", 20, 32, 9, 12)
    assert read_successes({**counts, "gold": None}, names) is None
    assert read_successes(None, names) is None


def test_more_right_than_drawn_is_refused() -> None:
    with pytest.raises(InputError, match="13 correct answers out of 12 to the neighbor"):
        Successes("s", 1, 32, 13, 12)
    row = to_columns(Successes("s", 1, 32, 3, 12))
    assert from_columns(row, "row 1") == Successes("s", 1, 32, 3, 12)
    assert from_columns({}, "row 1") is None
    with pytest.raises(InputError, match="row 1: \"solver\" 's' needs whole numbers"):
        from_columns({**row, "neighbor_right": 2.5}, "row 1")
    with pytest.raises(InputError, match="row 1: 40 correct answers out of 32"):
        from_columns({**row, "question_right": 40}, "row 1")


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
        assert sets.verify(session, "math@1").ok
        assert sets.verify(session, "math@2").ok
        found = sets.diff(session, "math@1", "math@2")
        assert (found.same, found.changed) == (True, ())
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
    assert "the members give successes = " in problem


@pytest.mark.parametrize("kind", ["hf", "jsonl", "parquet"])
def test_exports_carry_the_counts_there_and_back(db: Database, tmp_path: Path, kind: str) -> None:
    sets.publish(db, "math", run="run")
    target = tmp_path / ("out" if kind == "hf" else f"out.{kind}")
    if kind == "hf":
        sets.export_hf(db, "math", target)
    else:
        sets.export_file(db, "math", target, kind)

    with open_empty(tmp_path / "other.db") as other:
        sets.import_set(other, sets.read_set(target), "copy")
        assert neighbors(other, "copy") == neighbors(db, "math")
        with other.read() as session:
            assert sets.verify(session, "copy").ok
    if kind == "hf":
        card = (target / "README.md").read_text()
        assert "Success rates of test/solver on 3 neighbors: 52.8%, on their questions 50.0%." in card
        assert "1 easier, 1 level, 1 harder" in card


def test_edited_counts_are_refused(db: Database, tmp_path: Path) -> None:
    sets.publish(db, "math", run="run")
    target = tmp_path / "out.jsonl"
    sets.export_file(db, "math", target, "jsonl")
    target.write_text(target.read_text().replace('"neighbor_right": 12', '"neighbor_right": 11'))

    with open_empty(tmp_path / "other.db") as other:
        with pytest.raises(InputError, match="their success counts differ"):
            sets.import_set(other, sets.read_set(target), "copy")
        assert sets.import_set(other, sets.read_set(target, accept_changes=True), "copy").created


def test_a_set_without_counts_has_no_summary() -> None:
    assert count_successes([]) == {}
    assert make_spec().min_distance == 0.0


def test_the_card_names_a_checkpoint_by_its_weights_and_not_its_place() -> None:
    local = {"model": "somewhere/runs/solver", "engine": {"sampler": "local", "weights": "weights_1a2b"}}
    assert solver_name(local) == "solver (weights_1a2b)"
    assert solver_name({"model": "openai/gpt-4-turbo"}) == "openai/gpt-4-turbo"
    assert solver_name({"model": "hosted_vllm/Qwen/Q", "engine": {"sampler": "vllm"}}) == "hosted_vllm/Qwen/Q"
