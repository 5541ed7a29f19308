"""A mended text: a candidate of its own with its origin, checked and judged as any other."""

from pathlib import Path

import pytest
from scripted import BAD_NUMBER, GOOD, QUESTION, World, make_spec, proposals

from rephraser.reviews.mending import MENDER, mend_candidate
from rephraser.reviews.status import CandidateStatus, current_statuses
from rephraser.tables import candidate_id

OLD = candidate_id(QUESTION.id, BAD_NUMBER)
MENDED = "If $x + 7 = 19$, which value has $x$?"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A run that has ended, in which one of two candidates was rejected by its answers."""
    world = World(
        tmp_path,
        make_spec(n=2, rounds=1, min_distance=0.0),
        proposed=[proposals(GOOD[0], BAD_NUMBER)],
        answers={"x + 8": "11", "": "12"},
    )
    world.work()
    return world


def mend(world: World, text: str = MENDED, *, of: str = OLD, by: str = "ada") -> CandidateStatus:
    with world.db.write() as session:
        return mend_candidate(session, of, text, reviewer=by)[0]


def statuses(world: World) -> dict[str, CandidateStatus]:
    with world.db.read() as session:
        return {status.candidate_id: status for status in current_statuses(session, world.run.id)}


def test_a_mended_text_is_checked_at_once_and_judged_when_the_run_is_resumed(world: World) -> None:
    assert statuses(world)[OLD].status == "rejected"
    before = statuses(world)[OLD]
    mended = mend(world)
    pending = statuses(world)[mended.candidate_id]
    assert (pending.status, pending.final, pending.proposer) == ("unverified", False, MENDER)
    assert (pending.mended_from, pending.mended_by) == (OLD, "ada")
    assert (pending.strategy, pending.model, pending.round) == (before.strategy, before.model, before.round)
    outcome = world.work()
    assert (outcome.done, outcome.open, outcome.sent) == (1, 0, 3)  # twelve answers
    judged = statuses(world)
    assert judged[mended.candidate_id].status == "accepted"
    assert judged[OLD] == before
