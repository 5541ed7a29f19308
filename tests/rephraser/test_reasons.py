"""What a proposer is told about earlier candidates that failed, and that it stays the same."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hand_filled import BAD_NUMBER, CHANGED, GOOD, OTHER, QUESTION, World, make_spec, proposals
from sqlalchemy import select

from evaluator.grading import Grader
from rephraser.reviews.status import CandidateStatus, current_statuses
from rephraser.run.ask import EARLIER_SHOWN, REASON_LENGTH, latest_reasons, proposing_requests, read_reasons
from rephraser.run.spec import RunSpec
from rephraser.tables import ProposalRow, ReviewRow, VerdictRow
from rephraser.views.evidence import proposing_exchange
from service.database import utc_now
from service.questions import Question
from service.runs.cells import Cell


def asked(world: World, cell: Cell) -> str:
    (request,) = proposing_requests(world.db, world.run.id, world.spec, [cell])
    return request.messages[1].content


def failed_first_round(path: Path, text: str, question: Question, spec: RunSpec) -> World:
    """Return a run of one question whose first candidate is `text`."""
    world = World(path, spec, (question,))
    world.plan()
    (cell,) = world.claim()
    world.fill(cell, proposals((text,)))
    world.read()
    return world


def review(world: World, decision: str, reason: str) -> None:
    with world.db.write() as session:
        candidate = session.scalars(select(ProposalRow.candidate_id)).first()
        session.add(
            ReviewRow(
                candidate_id=candidate,
                reviewer="r",
                decision=decision,
                reason=reason,
                audit_id=None,
                created_at=utc_now(),
            )
        )


def test_findings_of_the_structure_are_told(tmp_path: Path) -> None:
    world = failed_first_round(tmp_path, QUESTION.text + " " + BAD_NUMBER, QUESTION, make_spec(n=1))
    with world.db.read() as session:
        (verdict,) = session.scalars(select(VerdictRow)).all()
    details = [one["detail"] for one in verdict.evidence["findings"] if one["severity"] == "fatal"]
    assert (verdict.status, bool(details)) == ("rejected", True)
    assert world.plan() == 1
    (again,) = world.claim()
    (line,) = [line for line in asked(world, again).splitlines() if line.startswith("Wrong: ")]
    assert details[0] in line
    assert ". Check: the number 8 is not in the original" in line


def test_other_answers_are_told_without_the_answers(tmp_path: Path) -> None:
    world = failed_first_round(tmp_path, CHANGED, OTHER, make_spec(n=1))
    world.plan()
    world.solve({"together, a pen": "7", "together?": "17"})
    with Grader(workers=1) as grader:
        while world.judge(grader):
            if world.plan():
                world.solve({"together, a pen": "7", "together?": "17"})
    assert world.statuses()[-1] == (CHANGED, "rejected", True)
    (again,) = world.claim()
    assert again.round == 1
    (line,) = [line for line in asked(world, again).splitlines() if line.startswith("Wrong: ")]
    assert "other answers than the problem" in line
    assert not [number for number in ("17", "7") if number in line.split()]


@pytest.mark.parametrize(("decision", "told"), [("rejected", True), ("accepted", False)])
def test_a_review_is_told_without_its_words(tmp_path: Path, decision: str, told: bool) -> None:
    world = failed_first_round(tmp_path, GOOD[0], QUESTION, make_spec(n=2, content_attempts=1))
    review(world, decision, "it is 12 anyway")
    assert world.plan() == 1
    (again,) = world.claim()
    prompt = asked(world, again)
    assert ("Wrong: a reader found that it is not the same problem" in prompt) == told
    assert "anyway" not in prompt


def test_what_is_told_is_fixed_when_the_cell_is_made(tmp_path: Path) -> None:
    world = failed_first_round(tmp_path, GOOD[0], QUESTION, make_spec(n=1))
    review(world, "rejected", "no")
    world.plan()
    (again,) = world.claim()
    before = asked(world, again)
    review(world, "accepted", "yes after all")
    assert asked(world, again) == before
    world.fill(again, QUESTION.text)  # an echo: asked again, and told the same
    world.read()
    (retry,) = world.claim()
    assert (retry.round, retry.attempt) == (1, 1)
    assert asked(world, retry) == before
    shown = proposing_exchange(world.db, world.run, again.id).prompt[1][1]
    assert shown == before


def test_runs_of_before_go_on_as_they_began(tmp_path: Path) -> None:
    stored = json.loads(json.dumps(make_spec(n=1).to_json()))
    stored["request_version"] = "1"
    spec = RunSpec.from_json(stored)
    assert spec.to_json() == stored
    world = failed_first_round(tmp_path, QUESTION.text + " " + BAD_NUMBER, QUESTION, spec)
    assert world.plan() == 1
    (again,) = world.claim()
    assert set(again.payload) == {"count", "seed"}
    assert "Wrong" not in asked(world, again)
    assert "these earlier rewrites:\n" in asked(world, again)


def test_only_the_latest_are_told_and_each_in_one_short_line(tmp_path: Path) -> None:
    world = failed_first_round(tmp_path, QUESTION.text + " " + BAD_NUMBER, QUESTION, make_spec(n=1))
    with world.db.write() as session:
        (status,) = current_statuses(session, world.run.id)
        long = {"name": "number_missing", "severity": "fatal", "detail": "so\nlong " * 100}
        session.add(
            VerdictRow(
                candidate_id=status.candidate_id,
                run_id=world.run.id,
                status="rejected",
                reason="so long",
                final=True,
                evidence={"findings": [long]},
                created_at=utc_now(),
            )
        )
        session.flush()
        reasons = read_reasons(session, world.run.id, [status])
    (line,) = reasons.values()
    assert len(line) <= REASON_LENGTH
    assert "\n" not in line
    many: list[CandidateStatus] = [replace(status, ordinal=place) for place in range(EARLIER_SHOWN + 3)]
    told = latest_reasons(many, reasons)
    assert [int(place) for place in told] == list(range(3, EARLIER_SHOWN + 3))


def test_a_repeated_sibling_is_named_without_its_number(tmp_path: Path) -> None:
    world = World(tmp_path, make_spec(n=2, content_attempts=1))
    world.plan()
    (cell,) = world.claim()
    repeated = GOOD[0].replace("x + 7", "x \\, + 7")
    world.fill(cell, f"<rephrasing>{GOOD[0]}</rephrasing><rephrasing>{repeated}</rephrasing>")
    world.read()
    with world.db.read() as session:
        statuses = current_statuses(session, world.run.id)
        (reason,) = read_reasons(session, world.run.id, statuses).values()
    assert reason == "it repeats another rewrite"


def test_a_leaked_answer_is_not_told_once_more(tmp_path: Path) -> None:
    leaked = OTHER.text.replace("?", "? They cost $17$ dollars together.")
    world = failed_first_round(tmp_path, leaked, OTHER, make_spec(n=1))
    with world.db.read() as session:
        statuses = current_statuses(session, world.run.id)
        (reason,) = read_reasons(session, world.run.id, statuses).values()
    assert "it states the answer" in reason
    assert "contains the answer" not in reason
