"""A model is asked whether each premise is kept: what it says is read, stored, and weighed."""

import time
from pathlib import Path

import pytest
from hand_filled import GOOD, QUESTION, World, make_spec, proposals
from hypothesis import given
from hypothesis import strategies as st

from evaluator.grading import Grader
from rephraser.checks import groups_of
from rephraser.checks.premises import Premises, build_messages, parse_premises
from rephraser.run.ask import premise_requests
from rephraser.run.check import structure_of
from rephraser.run.read import read_premises
from rephraser.run.spec import PREMISES, PremiseSpec, RunSpec
from service.errors import InputError
from service.runs.progress import count_states
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


def test_empty_lines_take_no_long_time() -> None:
    started = time.process_time()
    parse_premises("kept: a" + "\n" * 8000 + "done")
    assert time.process_time() - started < 1


def test_a_list_that_was_cut_off_is_not_read() -> None:
    assert parse_premises("<kept>a</kept>", truncated=True).outcome == "unreadable"


def test_a_list_that_was_cut_off_in_a_loop_takes_no_time() -> None:
    started = time.process_time()
    assert parse_premises("<kept>a</dropped>" * 6000, truncated=True).outcome == "unreadable"
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize(
    ("premises", "outcome"),
    [
        (Premises(("a",), ("b",), ("c",)), "dropped"),
        (Premises(("a",), ("b",)), "changed"),
        (Premises(("a",)), "kept"),
        (Premises(), "unreadable"),
    ],
)
def test_the_worst_that_was_found_counts(premises: Premises, outcome: str) -> None:
    assert premises.outcome == outcome


@given(st.text())
def test_no_text_raises(text: str) -> None:
    assert parse_premises(text).outcome in ("kept", "changed", "dropped", "unreadable")


def test_both_texts_are_shown() -> None:
    system, user = build_messages("two pens", "a pair of pens")
    assert system["role"] == "system"
    assert "<original>\ntwo pens\n</original>" in user["content"]
    assert "<rewrite>\na pair of pens\n</rewrite>" in user["content"]


def test_groups_that_do_not_tell_honest_from_broken_weigh_nothing() -> None:
    names = ["formula_changed", "text_missing", "options_changed", "variables_renamed"]
    assert groups_of(names) == {"formulas", "length", "form"}
    assert not structure_of(names).flagged
    assert structure_of([*names, "number_missing", "keyword_changed"]).groups == {"numbers", "words"}


def test_a_dropped_premise_blocks_and_a_changed_one_weighs() -> None:
    assert structure_of(["premise_dropped"]).premises_dropped
    changed = structure_of(["premise_changed"])
    assert (changed.flagged, changed.premises_dropped) == (True, False)


def test_a_spec_with_premises_survives_and_one_without_is_as_before() -> None:
    spec = make_spec(premises=ASKED)
    assert RunSpec.from_json(spec.to_json()) == spec
    assert "premises" not in make_spec().to_json()
    with pytest.raises(InputError, match="name a solver"):
        make_spec(premises=ASKED, solvers=())


def asked_world(path: Path, **changes: object) -> World:
    """A run with one candidate that passed the structural checks, all its answers drawn, premises not."""
    world = World(path, make_spec(n=1, rounds=1, premises=ASKED, **changes))
    world.plan()
    world.fill(world.claim()[0], proposals((GOOD[0],)))
    world.read()
    assert world.plan() == 8 + 3 + 1  # answers to question and candidate, and the premises
    assert world.plan() == 0
    world.solve({"x": "12"})
    return world


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "status", "groups"),
    [
        ("<kept>x + 7 = 19</kept>", "accepted", []),
        ("<changed>x + 7 = 19</changed>", "accepted", ["premises"]),
        ("<kept>x</kept><dropped>x + 7 = 19</dropped>", "undecided", ["premises"]),
    ],
)
def test_a_verdict_waits_for_the_premises_and_weighs_them(
    tmp_path: Path, answer: str, status: str, groups: list[str]
) -> None:
    world = asked_world(tmp_path)
    with Grader(workers=1) as grader:
        assert world.judge(grader) == 0
        (cell,) = world.claim(ASKED.id)
        (request,) = premise_requests(world.db, ASKED, [cell])
        assert QUESTION.text in request.messages[1].content
        assert GOOD[0] in request.messages[1].content
        world.fill(cell, answer)
        world.read()
        while world.judge(grader):
            world.plan()
            world.solve({"x": "12"})
    assert world.statuses()[-1] == (GOOD[0], status, True)
    evidence = world.evidence()
    assert evidence["asks_for_more"] == groups
    assert evidence["premises"]["model"] == "judge"
    dropped = [one for one in evidence["findings"] if one["name"] == "premise_dropped"]
    assert [one["detail"] for one in dropped] == (["x + 7 = 19"] if status == "undecided" else [])
    with world.db.read() as session:
        assert [line.requests for line in read_ledger(session, world.run.id) if line.kind == PREMISES] == [1]


def test_an_answer_that_cannot_be_read_is_asked_for_again_and_then_says_nothing(tmp_path: Path) -> None:
    world = asked_world(tmp_path, content_attempts=2)
    seeds = []
    for _ in range(2):
        (cell,) = world.claim(ASKED.id)
        seeds.append(cell.payload["seed"])
        with world.db.read() as session:
            assert read_premises(session, world.spec, [cell.subject_id]) == {}
        world.fill(cell, "All of it is there.")
        world.read()
    assert len(set(seeds)) == 2
    assert world.claim(ASKED.id) == []
    with Grader(workers=1) as grader:
        assert world.judge(grader) == 1
    assert world.statuses()[-1][1] == "accepted"
    assert world.evidence()["premises"]["outcome"] == "unreadable"
    with world.db.read() as session:
        assert count_states(session, world.run.id)[PREMISES, "filled"] == 2
