"""A model is asked whether each premise is kept. Its reply is stored, and a dropped premise blocks."""

from pathlib import Path

import pytest
from scripted import GOOD, QUESTION, World, make_spec, proposals

from rephraser.checks.premises import Premises, parse_premises
from rephraser.run.spec import PREMISES, PremiseSpec
from service.runs.spending import read_ledger

ASKED = PremiseSpec("judge")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "<kept>two pens</kept>\n<dropped>both are red</dropped>",
            Premises(("two pens",), (), ("both are red",)),
        ),
        ("<KEPT>a</KEPT> <changed>\n b  c </changed>", Premises(("a",), ("b c",))),
        ("<think>is it <dropped>x</dropped>?</think><kept>x</kept>", Premises(("x",))),
        ("is it <dropped>x</dropped>?</think><kept>x</kept>", Premises(("x",))),
        ("Between <kept> and </kept>: <kept>$x<3$</kept>", Premises(("$x<3$",))),
        ("- kept: two pens\n2. **Dropped** - both are red", Premises(("two pens",), (), ("both are red",))),
        ("<kept>a</kept><kept>a</kept>", Premises(("a",))),
        ("All of it is there.", Premises()),
        ("", Premises()),
        ("<think>never ends <dropped>x</dropped>", Premises()),
        ("<kept>a</kept>\n<dropped>b", Premises()),  # what is missing of it is not known
    ],
)
def test_lists_of_premises_are_read(text: str, found: Premises) -> None:
    assert parse_premises(text) == found


@pytest.mark.parametrize(
    ("answer", "status", "names"),
    [
        ("<kept>x + 7 = 19</kept>", "accepted", []),
        ("<changed>x + 7 = 19</changed>", "accepted", ["premise_changed"]),
        ("<kept>x</kept><dropped>x + 7 = 19</dropped>", "undecided", ["premise_dropped"]),
    ],
)
def test_a_dropped_premise_blocks(tmp_path: Path, answer: str, status: str, names: list[str]) -> None:
    world = World(
        tmp_path, make_spec(n=1, rounds=1, premises=ASKED), proposed=[proposals(GOOD[0])], premises=[answer]
    )
    world.work()
    (request,) = world.asked(PREMISES)
    assert QUESTION.text in request.messages[1].content
    assert GOOD[0] in request.messages[1].content
    assert world.statuses()[-1] == (GOOD[0], status, True)
    evidence = world.evidence()
    assert [each["name"] for each in evidence["findings"]] == names
    assert evidence["premises"]["model"] == "judge"
    dropped = [one for one in evidence["findings"] if one["name"] == "premise_dropped"]
    assert [one["detail"] for one in dropped] == (["x + 7 = 19"] if status == "undecided" else [])
    with world.db.read() as session:
        assert [line.requests for line in read_ledger(session, world.run.id) if line.kind == PREMISES] == [1]


def test_unreadable_premises_are_asked_for_again_and_then_block_nothing(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        make_spec(n=1, rounds=1, premises=ASKED),
        proposed=[proposals(GOOD[0])],
        premises=["All of it is there."] * 2,
    )
    world.work()
    first, again = world.asked(PREMISES)
    assert first.seed != again.seed
    assert world.final() == {GOOD[0]: "accepted"}
    assert world.evidence()["premises"]["outcome"] == "unreadable"
