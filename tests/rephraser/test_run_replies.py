"""Replies that a model broke off or went astray in: they accept nothing, and stop nothing."""

import json
from pathlib import Path

from hand_filled import CHANGED, World, make_spec

from evaluator.grading import Grader
from rephraser.run.read import first_choice, read_choices


def test_a_solver_that_is_cut_off_in_a_loop_accepts_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, make_spec())
    world.propose(CHANGED)
    world.plan()
    for cell in world.claim(world.spec.solvers[0].id):
        looping = "So 12 are left. Wait, let me check that again. " * 3
        world.fill(cell, *[looping] * int(cell.payload["count"]), finish="length")
    world.read()
    with Grader(workers=1) as grader:
        world.judge(grader)
    assert world.statuses()[-1][1] == "undecided"


def test_a_reply_that_went_on_opening_brackets_stops_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, make_spec())
    world.plan()
    world.fill(world.claim()[0], "[" * 100_000)
    world.read()
    assert {status for _, status, _ in world.statuses()} <= {"rejected"}
    assert len(world.claim()) == 1  # another is asked for


def test_half_a_character_of_a_reply_is_replaced(tmp_path: Path) -> None:
    world = World(tmp_path, make_spec())
    world.plan()
    (cell,) = world.claim()
    world.fill(cell, '["How much is \\ud83d left of 30 after 18?"]')
    world.read()
    assert world.statuses()[0][0] == "How much is \ufffd left of 30 after 18?"
    assert read_choices('{"choices": [{"text": "12 \\udc00"}]}') == [("12 \ufffd", "unknown")]


def test_a_refusal_beside_an_empty_text_is_told_as_one() -> None:
    message = {"content": None, "refusal": "I cannot write about this."}
    body = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]})
    assert first_choice(body) == ("I cannot write about this.", False, True)
