"""Questions of whose own answers too few can be read: nothing more is asked, all verdicts fall at once."""

from dataclasses import replace
from pathlib import Path

import pytest
from hand_filled import GOOD, QUESTION, World, make_spec, proposals
from sqlalchemy import select

from evaluator.grading import Grader
from rephraser.run.rejudge import judge_again
from rephraser.tables import CandidateRow, VerdictRow
from rephraser.views.runs import summarize
from service.runs.store import open_run


def fill_answers(world: World, *, unreadable: str, only: bool = False, most: int = 100) -> None:
    """Answer what solvers are asked; answers to the subject `unreadable` are cut off before they say a thing.

    `only` these are answered, and no more than `most` requests.
    """
    for cell in world.claim(world.spec.solvers[0].id)[:most]:
        mute = cell.subject_id == unreadable
        if only and not mute:
            continue
        text, finish = ("I keep thinking.", "length") if mute else (r"\boxed{12}", "stop")
        world.fill(cell, *[text] * 4, finish=finish)
    world.read()


@pytest.mark.parametrize("only", [True, False])
def test_a_question_whose_own_answers_cannot_be_read_is_asked_nothing_more(
    tmp_path: Path, only: bool
) -> None:
    world = World(tmp_path, make_spec())
    world.plan()
    world.fill(world.claim()[0], proposals(GOOD))
    world.read()
    assert world.plan() == 8 + 2 * 3
    fill_answers(world, unreadable=QUESTION.id, only=only)
    with Grader(workers=1) as grader:
        assert world.judge(grader) == 2
        assert world.statuses()[2:] == [(text, "undecided", True) for text in GOOD]
        assert world.plan() == 0  # no second look, no second round
        again = judge_again(world.db, world.run, world.spec.rule, grader, report=lambda *_: None)
    assert (again.judged, again.changes) == (2, ())
    with world.db.read() as session:
        summary = summarize(session, world.run)
        reasons = set(session.scalars(select(VerdictRow.reason).where(VerdictRow.status == "undecided")))
    assert (summary.unreadable_questions, summary.candidates) == (1, {"undecided": 2})
    assert summary.unfinished[0].reason == "2 undecided, its own answers are unreadable"
    assert reasons == {"32 of 32 answers to the original could not be parsed; at most 50% may fail."}
    # A run that comes later, with the same solver, does not even propose.
    with world.db.write() as session:
        spec = replace(world.spec, rounds=1).to_json()
        world.run, _ = open_run(
            session, name="later", kind="propose", spec=spec, question_ids=[QUESTION.id], versions={}
        )
    assert world.plan() == 0


def test_a_question_is_given_up_before_all_of_its_own_answers_are_there(tmp_path: Path) -> None:
    world = World(tmp_path, make_spec())
    world.plan()
    world.fill(world.claim()[0], proposals(GOOD))
    world.read()
    world.plan()
    fill_answers(world, unreadable=QUESTION.id, only=True, most=5)  # 20 of 32
    with Grader(workers=1) as grader:
        assert world.judge(grader) == 2
    assert world.statuses()[2:] == [(text, "undecided", True) for text in GOOD]


def test_a_candidate_whose_answers_cannot_be_read_is_looked_at_again(tmp_path: Path) -> None:
    world = World(tmp_path, make_spec(n=1))
    world.propose(GOOD[0])
    world.plan()
    with world.db.read() as session:
        (candidate,) = session.scalars(select(CandidateRow.id))
    fill_answers(world, unreadable=candidate)
    with Grader(workers=1) as grader:
        assert world.judge(grader) == 1
    assert world.statuses()[1:] == [(GOOD[0], "undecided", False)]
    assert world.plan() == 1  # 16 answers for 12
    with world.db.read() as session:
        assert summarize(session, world.run).unreadable_questions == 0
