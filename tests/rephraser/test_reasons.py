"""What a proposer is told about earlier candidates that failed, and that it stays the same."""

from pathlib import Path

import pytest
from scripted import BAD_NUMBER, CHANGED, GOOD, OTHER, QUESTION, Said, World, make_spec, proposals
from sqlalchemy import select

from rephraser.reviews.status import CandidateStatus
from rephraser.reviews.store import Decision, record_reviews
from rephraser.run.requests import EARLIER_SHOWN, REASON_LENGTH, failure_reason
from rephraser.tables import ProposalRow, VerdictRow, candidate_id
from rephraser.views.evidence import proposing_exchange
from service.asks.request import Request


def wrong_lines(prompt: str) -> list[str]:
    return [line for line in prompt.splitlines() if line.startswith("Wrong: ")]


def review(world: World, decision: str, reason: str) -> None:
    identity = candidate_id(QUESTION.id, GOOD[0])
    with world.db.write() as session:
        record_reviews(session, [Decision(identity, decision, reason, "ann")])


def test_findings_are_told(tmp_path: Path) -> None:
    twice = QUESTION.text + " " + BAD_NUMBER
    world = World(
        tmp_path, make_spec(n=1, content_attempts=1), proposed=[proposals(twice), proposals(GOOD[0])]
    )
    world.work()
    with world.db.read() as session:
        verdict = session.scalars(select(VerdictRow).order_by(VerdictRow.id)).first()
    assert verdict is not None
    details = [one["detail"] for one in verdict.evidence["findings"] if one["severity"] == "fatal"]
    assert (verdict.status, bool(details)) == ("rejected", True)
    (line,) = wrong_lines(world.prompts()[1])
    assert details[0] in line
    assert ". Check: the number 8 is not in the original" in line


def test_other_answers_are_told_without_the_answers(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        make_spec(n=1, content_attempts=1),
        (OTHER,),
        proposed=[proposals(CHANGED), proposals(CHANGED)],
        answers={"together, a pen": "7", "together?": "17"},
    )
    world.work()
    assert world.final() == {CHANGED: "rejected"}
    (line,) = wrong_lines(world.prompts()[1])
    assert "other answers than the problem" in line
    assert not [number for number in ("17", "7") if number in line.split()]


def reviewed_meanwhile(path: Path, decision: str, *replies: str) -> World:
    """Return a run whose first candidate a person reviews while the solver answers."""
    world = World(path, make_spec(n=2, content_attempts=2), proposed=[proposals(GOOD[0]), *replies])
    solve = world.endpoints["s"].say
    reviews = iter([decision])

    def solve_and_review(request: Request) -> Said:
        for first in reviews:
            review(world, first, "it is 12 anyway")
        return solve(request)

    world.endpoints["s"].say = solve_and_review
    return world


@pytest.mark.parametrize(("decision", "told"), [("rejected", True), ("accepted", False)])
def test_a_review_is_told_without_its_words(tmp_path: Path, decision: str, told: bool) -> None:
    world = reviewed_meanwhile(tmp_path, decision, GOOD[0], *[proposals(GOOD[1])] * 2)
    world.work()
    again = world.prompts()[2]
    assert ("Wrong: a reader found that it is not the same problem" in again) == told
    assert "anyway" not in again


def test_a_request_stays_the_same_after_a_later_review(tmp_path: Path) -> None:
    world = reviewed_meanwhile(tmp_path, "rejected", GOOD[0], QUESTION.text, proposals(*GOOD))
    world.work(max_requests=2 + 11 + 1)  # the last one is an echo
    review(world, "accepted", "yes after all")
    world.work()
    told, again = world.prompts()[2:]
    assert wrong_lines(told)
    assert told == again
    with world.db.read() as session:
        ask_id = session.scalars(select(ProposalRow.ask_id).order_by(ProposalRow.id.desc())).first()
        assert ask_id is not None
        assert proposing_exchange(session, ask_id).prompt[1][1] == again


def test_a_reason_is_one_short_line() -> None:
    long = {"name": "number_missing", "severity": "fatal", "detail": "so\nlong " * 100}
    status = make_status()
    line = failure_reason(status, {"findings": [long]})
    assert len(line) <= REASON_LENGTH
    assert "\n" not in line


def test_only_the_latest_candidates_are_told(tmp_path: Path) -> None:
    changed = [f"If $x + {number} = 19$, what is $x$?" for number in range(20, 31)]
    world = World(
        tmp_path,
        make_spec(n=EARLIER_SHOWN + 3, solvers=(), content_attempts=1),
        proposed=[proposals(*changed[: EARLIER_SHOWN + 3]), proposals(GOOD[0])],
    )
    world.work()
    told = [place for place, text in enumerate(changed) if text in world.prompts()[1]]
    assert told == list(range(3, EARLIER_SHOWN + 3))


@pytest.mark.parametrize(
    ("name", "told"),
    [("same_as_sibling", "it repeats another rewrite"), ("answer_leaked", "it states the answer")],
)
def test_details_that_say_too_much_are_left_out(name: str, told: str) -> None:
    finding = {"name": name, "severity": "fatal", "detail": "contains the answer 17 of number 2"}
    assert failure_reason(make_status(), {"findings": [finding]}) == told


def make_status() -> CandidateStatus:
    return CandidateStatus(
        *("q_1", "c_1", 0, 0, "llm", "perspectives", "h", "m", "rejected", "because"),
        reviewed=False,
        final=True,
    )
