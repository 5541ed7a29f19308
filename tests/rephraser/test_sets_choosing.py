"""Which neighbors a version gets: least distance, several runs, adaptive numbers."""

import pytest
from runs import Asked, Proposed, add_run, make_spec, neighbor_texts

from rephraser import sets
from rephraser.sets import Adaptive
from service.database import Database
from service.errors import InputError, NotFoundError

FAR, NEAR = "Two coins and three coins make how many?", "What is 2 + 3 ?"
ASKED: list[Asked] = [
    ("What is 2+3?", "5", [Proposed(NEAR, right=(16, 6)), Proposed(FAR, right=(16, 6))]),
    ("Halve 8.", "4", [Proposed("What is half of 8?", right=(0, 0))]),
    ("Double 8.", "16", [Proposed("Twice 8 is?", right=(31, 12)), Proposed("8 and 8 give?")]),
    ("Is 7 prime?", "yes", [Proposed("Prime: 7?")]),
]


@pytest.fixture(autouse=True)
def _run(db: Database) -> None:
    add_run(db, "run", ASKED)


def test_what_is_too_like_is_left_out_and_counted(db: Database) -> None:
    header = sets.publish(db, "math", run="run", min_distance=0.15).header

    assert neighbor_texts(db, "math")["What is 2+3?"] == [FAR]
    assert header.counts["too_like"] == 1
    assert header.spec["publish"]["min_distance"] == 0.15
    add_run(db, "near", [("What is 2+3?", "5", [Proposed(NEAR)])])
    with pytest.raises(InputError, match=r"lower --min-distance \(1 candidates were too similar\)"):
        sets.publish(db, "none", run="near", min_distance=0.15)
    with pytest.raises(InputError, match="a distance must be between 0 and 1, but is 15"):
        sets.publish(db, "none", run="near", min_distance=15)


def test_adaptive_with_nothing_to_give_says_so(db: Database) -> None:
    add_run(db, "mixed", ASKED[:1])
    with pytest.raises(
        InputError,
        match=r"remove --adaptive \(1 questions probably yield a gradient "
        r"alone\)",
    ):
        sets.publish(db, "math", run="mixed", adaptive=Adaptive())
    with pytest.raises(InputError, match="a probability between 0 and 1, not 8 and 1"):
        Adaptive(unmixed=1.0)
    with pytest.raises(NotFoundError, match="pilot"):
        sets.publish(db, "math", run="run", adaptive=Adaptive(pilot="pilot"))


def test_several_runs_make_one_set_without_repetition(db: Database) -> None:
    more: list[Asked] = [
        ("Triple 3.", "9", [Proposed("Three times 3?")]),
        ("What is 2+3?", "5", [Proposed(FAR, model="other"), Proposed("Find the sum of 2 and 3.")]),
        ("Halve 8.", "4", [Proposed("What is half of 8?", ("rejected",))]),
    ]
    other = add_run(db, "more", more, spec=make_spec(seed=1))

    header = sets.publish(db, "math", run=["run", "more"]).header

    found = neighbor_texts(db, "math")
    assert list(found) == [*(question for question, _, _ in ASKED), "Triple 3."]
    assert sorted(found["What is 2+3?"]) == sorted([FAR, NEAR, "Find the sum of 2 and 3."])
    assert found["Halve 8."] == ["What is half of 8?"]
    assert [run["name"] for run in header.runs] == ["run", "more"]
    assert header.runs[1]["spec"] == other.spec
    assert header.counts["duplicates"] == 1
    with db.read() as session:
        (entry,) = [e for e in sets.load_set(session, "math").entries if e.question.text == "What is 2+3?"]
        assert {one.text: one.model for one in entry.neighbors}[FAR] == "test/proposer"
        assert sets.verify(session, "math").ok
    with pytest.raises(InputError, match="give each run exactly once, not run, run"):
        sets.publish(db, "twice", run=["run", "run"])
