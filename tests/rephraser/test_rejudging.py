"""Stored answers judged again by another rule: verdicts are added, nothing is asked, sets stay."""

from pathlib import Path

import pytest
from scripted import CHANGED, GOOD, OTHER, World, make_spec, proposals

from benchmarks.studies.verdict_simulation import PLAIN
from evaluator.grading import Grader
from rephraser.run.rejudge import Rejudged, judge_again
from rephraser.tables import VerdictRow
from rephraser.verdict import OverlapRule, rule_spec
from service.errors import InputError

STRICT = OverlapRule(accept_overlap=13)


def judged_world(path: Path) -> World:
    """A run with a candidate accepted at the first look; 12 answers of it are stored."""
    world = World(path, make_spec(n=1, rounds=1), proposed=[proposals(GOOD[0])])
    world.work()
    return world


def again(world: World, rule: OverlapRule, *, dry_run: bool = False) -> Rejudged:
    with Grader(workers=1) as grader:
        return judge_again(world.db, world.run, rule, grader, dry_run=dry_run, report=lambda *_: None)


def test_a_stricter_rule_takes_back_what_was_accepted_and_the_first_verdict_stays(tmp_path: Path) -> None:
    world = judged_world(tmp_path)
    found = again(world, STRICT)
    (change,) = found.changes
    assert (change.before, change.after) == ("accepted", "undecided")
    assert "acceptance needs 13" in change.reason
    assert (found.judged, found.stored, found.before, found.after) == (
        1,
        1,
        {"accepted": 1},
        {"undecided": 1},
    )
    assert [status for _, status, _ in world.statuses()] == ["unverified", "accepted", "undecided"]
    assert world.evidence()["rule"] == rule_spec(STRICT)
    back = again(world, world.spec.rule)
    assert [(one.before, one.after) for one in back.changes] == [("undecided", "accepted")]
    with world.db.read() as session:
        rules = [row.evidence.get("rule") for row in session.query(VerdictRow).order_by(VerdictRow.id)]
    assert rules == [None, rule_spec(world.spec.rule), rule_spec(STRICT), rule_spec(world.spec.rule)]


def test_a_dry_run_stores_nothing_and_the_same_rule_adds_nothing(tmp_path: Path) -> None:
    world = judged_world(tmp_path)
    before = world.statuses()
    dry = again(world, STRICT, dry_run=True)
    assert (len(dry.changes), dry.stored) == (1, 0)
    same = again(world, world.spec.rule)
    assert (same.judged, same.changes, same.stored) == (1, (), 0)
    assert world.statuses() == before
    assert world.work().sent == 0


def test_another_rule_looks_at_as_many_answers_as_are_stored(tmp_path: Path) -> None:
    world = judged_world(tmp_path)
    more = again(world, OverlapRule(looks=(16,)))
    assert (more.judged, more.too_few, more.after) == (0, 1, {"accepted": 1})
    later = again(world, OverlapRule(accept_overlap=13, looks=(12, 16)), dry_run=True)
    assert later.after == {"undecided": 1}  # the look at 16 has no answers


def test_candidates_without_compared_answers_and_undecided_ones_are_left_alone(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        make_spec(n=2, rounds=1, content_attempts=1),
        (OTHER,),
        proposed=[proposals(CHANGED, OTHER.text.upper())],
        answers={"They cost": "7", "together": "17"},
    )
    world.work(max_requests=1)
    found = again(world, STRICT)
    assert (found.judged, found.waiting) == (0, 1)
    world.work()
    plain = again(world, PLAIN)
    assert (plain.judged, plain.changes, plain.waiting) == (1, (), 0)


def test_a_run_without_a_solver_has_no_answers(tmp_path: Path) -> None:
    world = World(tmp_path, make_spec(solvers=()))
    with pytest.raises(InputError, match="no solver"):
        again(world, STRICT)
