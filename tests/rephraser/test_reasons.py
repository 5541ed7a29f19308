"""What a proposer is told about earlier candidates that failed, and that it stays the same."""

from pathlib import Path

from scripted import BAD_NUMBER, CHANGED, GOOD, OTHER, QUESTION, Said, World, make_spec, proposals
from sqlalchemy import select

from rephraser.reviews.store import Decision, record_reviews
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
