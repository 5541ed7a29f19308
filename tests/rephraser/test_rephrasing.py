"""A run from questions to verdicts, with models that answer by a script."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scripted import BAD_NUMBER, CHANGED, GOOD, OTHER, QUESTION, World, make_spec, proposals
from sqlalchemy import select, text

from benchmarks.studies.verdict_simulation import PLAIN
from evaluator.grading import Clustering, Grader
from rephraser.proposing.strategies import load_strategy
from rephraser.run.rejudge import judge_again
from rephraser.run.rephrase import FEWEST_JUDGED
from rephraser.run.spec import ANSWER, PROPOSE, PremiseSpec, SolverSpec
from rephraser.tables import CandidateRow, ProposalRow, VerdictRow
from rephraser.verdict import OverlapRule
from rephraser.views.runs import RunSummary, summarize
from service.asks.ask import ENOUGH, REQUESTS
from service.asks.request import CONTENT_FILTER, SERVER_ERROR, Choice, Fault
from service.errors import InputError
from service.questions import make_question
from service.runs.store import find_run


def summary(world: World) -> RunSummary:
    with world.db.read() as session:
        return summarize(session, find_run(session, world.run.id))


def test_good_candidates_are_accepted_and_end_the_run(tmp_path: Path) -> None:
    world = World(tmp_path, make_spec(), proposed=[proposals(*GOOD)])
    outcome = world.work()
    assert (outcome.done, outcome.open, outcome.failed, outcome.stopped) == (1, 0, 0, None)
    assert world.statuses() == [
        *((text, "unverified", False) for text in GOOD),
        *((text, "accepted", True) for text in GOOD),
    ]
    # 32 answers to the question and 12 to each candidate, four to a request.
    assert (len(world.asked(PROPOSE)), len(world.asked(ANSWER))) == (1, 8 + 2 * 3)
    found = summary(world)
    assert (found.complete, found.candidates, found.open_questions) == (1, {"accepted": 2}, 0)
    with world.db.read() as session:
        assert find_run(session, world.run.id).finished_at is not None
    assert world.work().sent == 0


def run_of_two(path: Path) -> World:
    """Return a run over two questions that needs two rounds, a retry, two looks and premises."""
    path.mkdir()
    late = [r"\boxed{12}"] * 2 + [r"\boxed{1}", r"\boxed{2}"]
    return World(
        path,
        make_spec(premises=PremiseSpec("judge")),
        (QUESTION, OTHER),
        proposed={
            QUESTION.id: ["I can't help with that.", proposals(GOOD[0], BAD_NUMBER)]
            + [proposals(GOOD[1])] * 2,
            OTHER.id: [proposals(CHANGED), proposals(CHANGED), proposals(CHANGED), proposals(CHANGED)],
        },
        answers={GOOD[0]: late, "x + 8": "11", "x": "12", "They cost": "7", "together": "17"},
        premises=["<kept>all of it</kept>"] * 9,
    )


def end_of(world: World) -> dict[str, Any]:
    """Return what a run produced, without ids and times."""
    queries = {
        "proposals": "SELECT question_id, candidate_id, strategy, ordinal FROM proposals ORDER BY 1, 4",
        "verdicts": "SELECT candidate_id, status, reason, final, evidence FROM verdicts ORDER BY 1, id",
        "asks": "SELECT hex(key), kind, about, place, outcome FROM asks WHERE key IS NOT NULL ORDER BY 1",
    }
    with world.db.read() as session:
        return {name: [tuple(row) for row in session.execute(text(q))] for name, q in queries.items()}


@pytest.mark.sqlite
def test_a_run_that_stops_at_any_request_ends_as_if_undisturbed(tmp_path: Path) -> None:
    calm = run_of_two(tmp_path / "calm")
    total = calm.work().sent
    assert "rejected" in calm.final().values()
    for step in (1, 4, 7):
        world = run_of_two(tmp_path / str(step))
        ends = [world.work(max_requests=step)]
        while ends[-1].stopped:
            ends.append(world.work(max_requests=step))
        assert {end.stopped for end in ends} == {REQUESTS, None}
        assert sum(end.sent for end in ends) == total
        assert end_of(world) == end_of(calm)


def test_an_open_slot_is_proposed_again_with_the_reasons(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        make_spec(solvers=()),
        proposed=[proposals(GOOD[0], BAD_NUMBER), proposals(GOOD[1])],
    )
    assert world.work().done == 1
    assert [status for _, status, _ in world.statuses()] == ["unverified", "undecided", "unverified"]
    first, again = world.prompts()
    assert "Write 2 rewrites" in first
    assert "Write one rewrite" in again
    assert f"{BAD_NUMBER}\n</earlier>\nWrong: " in again
    assert f"{GOOD[0]}\n</earlier>\n\n" in again  # nothing was wrong with it
    assert again.endswith(f"<problem>\n{QUESTION.text}\n</problem>")


def test_candidates_like_others_are_rejected_before_an_answer_is_paid(tmp_path: Path) -> None:
    near = "If $x + 7 = 19$, what is then the value of $x$?"
    again = GOOD[0].replace("What is", "What is then")
    world = World(
        tmp_path, make_spec(n=3, rounds=1, min_distance=0.15), proposed=[proposals(near, GOOD[0], again)]
    )
    world.work()
    assert world.final() == {near: "rejected", GOOD[0]: "accepted", again: "rejected"}
    assert len({request.about for request in world.asked(ANSWER)}) == 2  # the question and one candidate
    with world.db.read() as session:
        reasons = session.scalars(select(VerdictRow.reason).order_by(VerdictRow.id)).all()
        likeness = dict(session.execute(select(CandidateRow.text, CandidateRow.likeness)).all())
    assert "5% of its words differ from those of the original, but at least 15% must differ" in reasons[0]
    assert "those of the sibling number 1" in reasons[2]
    assert likeness == {near: 0.9524, GOOD[0]: 0.6, again: 0.5714}


def test_rounds_end(tmp_path: Path) -> None:
    changed = [f"If $x + {number} = 19$, what is $x$?" for number in (8, 9)]
    world = World(tmp_path, make_spec(solvers=(), n=1), proposed=[proposals(each) for each in changed])
    assert world.work().done == 1
    (unfinished,) = summary(world).unfinished
    assert unfinished.reason == "2 undecided"


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        ("I'm sorry, but I can't help with that.", "refused"),
        (QUESTION.text, "echoed the question or the prompt"),
        ("", "empty answer"),
        (Choice("", "content_filter"), "refused"),
        (Choice("What is the val", "length"), "truncated"),
        (proposals(GOOD[0], GOOD[0]), "fewer candidates than asked"),
        ("[" * 100_000, "no candidates found"),
    ],
)
def test_unusable_replies_are_asked_again_with_another_seed(
    tmp_path: Path, reply: str | Choice, outcome: str
) -> None:
    world = World(tmp_path, make_spec(solvers=(), rounds=1), proposed=[reply, reply])
    world.work()
    first, again = world.asked(PROPOSE)
    assert first.seed != again.seed
    (found,) = summary(world).unreadable
    assert found == outcome or outcome == "no candidates found"
    assert sum(summary(world).unreadable.values()) == 2


def test_half_a_character_of_a_reply_is_replaced(tmp_path: Path) -> None:
    reply = '["How much is \\ud83d left of 30 after 18?"]'
    world = World(tmp_path, make_spec(n=1, rounds=1, solvers=()), proposed=[reply])
    world.work()
    assert world.statuses()[0][0] == "How much is \ufffd left of 30 after 18?"


def test_of_equal_texts_the_first_strategy_s_is_kept(tmp_path: Path) -> None:
    strategies = (load_strategy("perspectives"), load_strategy("paraphrase"))
    spec = make_spec(solvers=(), strategies=strategies, rounds=1, content_attempts=1)
    world = World(tmp_path, spec, proposed=[proposals(GOOD[0]), proposals(GOOD[0])])
    world.work()
    with world.db.read() as session:
        kept = session.execute(select(ProposalRow.strategy, ProposalRow.ordinal)).all()
    assert [tuple(row) for row in kept] == [("perspectives", 0)]


def test_a_strategy_whose_request_failed_for_good_is_left_out(tmp_path: Path) -> None:
    strategies = (load_strategy("perspectives"), load_strategy("paraphrase"))
    refused = Fault(CONTENT_FILTER, "no")
    world = World(
        tmp_path,
        make_spec(solvers=(), strategies=strategies, content_attempts=1),
        proposed=[refused, proposals(BAD_NUMBER), proposals(GOOD[1])],
    )
    outcome = world.work()
    assert (outcome.done, outcome.failed, outcome.open) == (0, 1, 0)
    assert list(world.final().values()) == ["undecided", "unverified"]
    found = summary(world)
    assert (found.final_questions, found.errors) == (1, {"content filter: no": 1})
    # Asked again on request only.
    assert world.work().sent == 0
    world.proposed[QUESTION.id] = [proposals(GOOD[0])]
    assert world.work(retry_final=True).sent == 1
    assert world.final()[GOOD[0]] == "unverified"


def test_a_request_that_failed_for_now_leaves_the_question_open(tmp_path: Path) -> None:
    broken = Fault(SERVER_ERROR, "no luck")
    world = World(tmp_path, make_spec(n=1), proposed=[broken, broken, proposals(GOOD[0])])
    first = world.work()
    assert (first.done, first.open, first.failures) == (0, 1, {SERVER_ERROR: 1})
    found = summary(world)
    assert (found.open_questions + found.failed_questions, found.final_questions) == (1, 0)
    assert world.work().done == 1
    assert world.final() == {GOOD[0]: "accepted"}


def failing_blocks(*places: int) -> Callable[[Any], Any]:
    """Return a solver that refuses the blocks of answers that start at these places."""

    def say(request: Any) -> Any:
        return Fault(CONTENT_FILTER, "no") if request.draw in places else r"\boxed{12}"

    return say


def test_a_candidate_is_judged_by_the_answers_that_did_not_fail(tmp_path: Path) -> None:
    world = World(tmp_path, make_spec(n=1, rounds=1), proposed=[proposals(GOOD[0])])
    world.endpoints["s"].say = failing_blocks(4)
    world.work()
    # 8 of the first 12 are too few for a look; then 12 of 16.
    assert world.statuses()[1:] == [(GOOD[0], "undecided", False), (GOOD[0], "accepted", True)]
    counts = world.evidence()["counts"]
    assert (sum(counts["original"]), sum(counts["candidate"])) == (28, 12)


def test_a_candidate_without_any_answers_stays_unverified(tmp_path: Path) -> None:
    world = World(tmp_path, make_spec(n=1, rounds=1), proposed=[proposals(GOOD[0])])
    world.endpoints["s"].say = failing_blocks(*range(0, 32, 4))
    world.work()
    assert world.final() == {GOOD[0]: "unverified"}


def test_a_server_that_sends_fewer_answers_is_asked_for_the_rest(tmp_path: Path) -> None:
    world = World(tmp_path, make_spec(n=1, rounds=1), proposed=[proposals(GOOD[0])])
    world.endpoints["s"].say = lambda request: [r"\boxed{12}"] * max(1, request.n - 1)
    world.work()
    assert world.final() == {GOOD[0]: "accepted"}
    assert [request.n for request in world.asked(ANSWER)].count(1) == len(world.asked(ANSWER)) / 2


def test_another_run_shares_the_answers_of_a_solver(tmp_path: Path) -> None:
    world = World(tmp_path, make_spec(n=1), proposed=[proposals(GOOD[0])] * 2)
    first = world.work()
    world.open("other", replace(world.spec, seed=5))
    assert (first.sent, world.work().sent) == (12, 1)
    assert [status for _, status, _ in world.statuses()] == ["unverified", "accepted"] * 2


def test_a_changed_problem_is_rejected_by_its_answers(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        make_spec(n=1, rounds=1),
        (OTHER,),
        proposed=[proposals(CHANGED)],
        answers={"They cost": "7", "together": "17"},
    )
    world.work()
    assert world.final() == {CHANGED: "rejected"}
    counts = world.evidence()["counts"]
    assert (counts["classes"], counts["original"], counts["candidate"]) == (["17", "7"], [32, 0], [0, 12])


def test_a_solver_that_is_cut_off_in_a_loop_accepts_nothing(tmp_path: Path) -> None:
    looping = Choice("So 12 are left. Wait, let me check that again. " * 3, "length")
    world = World(tmp_path, make_spec(n=1, rounds=1), proposed=[proposals(CHANGED)], answers={"": looping})
    world.work()
    assert world.final() == {CHANGED: "undecided"}


class SlowGrader(Grader):
    """Runs out of time: what is not spelled as the gold stays unknown."""

    def cluster_many(self, jobs: Any, progress: Any = None) -> list[Clustering]:
        found = []
        for job in jobs:
            places = [None if answer != job.gold else 0 for answer in job.answers]
            unsettled = tuple(i for i, place in enumerate(places) if place is None)
            found.append(Clustering((job.gold,), tuple(places), 0, len(unsettled), unsettled))
        return found


@pytest.mark.parametrize("rule", [OverlapRule(), PLAIN])
def test_a_slow_grader_rejects_no_good_neighbor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: OverlapRule
) -> None:
    monkeypatch.setattr("rephraser.run.execution.Grader", SlowGrader)
    # The question's answers are spelled as the gold, the candidate's are equal but spelled otherwise.
    world = World(
        tmp_path,
        make_spec(n=1, rounds=1, rule=rule),
        proposed=[proposals(GOOD[0])],
        answers={GOOD[0]: "24/2", "x": "12"},
    )
    world.work()
    assert world.final() == {GOOD[0]: "undecided"}
    counts = world.evidence()["counts"]
    assert (counts["candidate"], counts["candidate_unsettled"]) == ([0], rule.looks[-1])
    assert counts["candidate_unparsed"] == 0


@pytest.mark.parametrize(("solved", "status"), [(True, "accepted"), (False, "undecided")])
def test_a_number_finding_blocks_only_without_a_solver(tmp_path: Path, solved: bool, status: str) -> None:
    candidate = "If the sum of $x$ and 7 is 19, what is $x$, give or take 300?"
    spec = make_spec(n=1, rounds=1) if solved else make_spec(n=1, rounds=1, solvers=())
    world = World(tmp_path, spec, proposed=[proposals(candidate)])
    world.work()
    assert world.final() == {candidate: status}
    (finding,) = world.evidence()["findings"]
    assert (finding["name"], finding["severity"]) == ("number_added", "evidence")


def test_a_question_whose_own_answers_cannot_be_read_is_asked_nothing_more(tmp_path: Path) -> None:
    mute = Choice("I keep thinking.", "length")
    world = World(
        tmp_path, make_spec(), proposed=[proposals(*GOOD)], answers={GOOD[0]: "12", GOOD[1]: "12", "": mute}
    )
    world.work()
    assert world.final() == dict.fromkeys(GOOD, "undecided")
    assert (len(world.asked(PROPOSE)), len(world.asked(ANSWER))) == (1, 8)  # no round more, no answers more
    with Grader(workers=1) as grader:
        again = judge_again(world.db, world.run, world.spec.rule, grader, report=lambda *_: None)
    assert (again.judged, again.changes) == (2, ())
    found = summary(world)
    assert (found.unreadable_questions, found.candidates) == (1, {"undecided": 2})
    assert found.unfinished[0].reason == "2 undecided, the question's own answers are unreadable"
    with world.db.read() as session:
        reasons = set(session.scalars(select(VerdictRow.reason).where(VerdictRow.status == "undecided")))
    assert reasons == {"32 of 32 answers to the original could not be parsed; at most 50% may fail."}


def test_a_candidate_whose_answers_cannot_be_read_is_looked_at_again(tmp_path: Path) -> None:
    mute = Choice("I keep thinking.", "length")
    world = World(
        tmp_path, make_spec(n=1, rounds=1), proposed=[proposals(GOOD[0])], answers={GOOD[0]: mute, "": "12"}
    )
    world.work()
    assert world.statuses()[1:] == [(GOOD[0], "undecided", False), (GOOD[0], "undecided", True)]
    assert summary(world).unreadable_questions == 0


def test_several_solvers_share_the_answers_of_a_verdict(tmp_path: Path) -> None:
    solvers = (SolverSpec("s"), SolverSpec("t"))
    world = World(tmp_path, make_spec(n=1, rounds=1, solvers=solvers), proposed=[proposals(GOOD[0])])
    world.work()
    assert world.final() == {GOOD[0]: "accepted"}
    assert world.evidence()["by_solver"] == {model: {"original": 16, "candidate": 6} for model in ("s", "t")}


def test_a_run_stops_below_an_acceptance_rate(tmp_path: Path) -> None:
    count = FEWEST_JUDGED + 10
    questions = [make_question(f"What is ${number}$ and $2$?", "5") for number in range(count)]
    world = World(
        tmp_path,
        make_spec(solvers=(), n=1, rounds=1, content_attempts=1),
        questions,
        proposed={each.id: [proposals(each.text)] * 2 + ["none"] for each in questions},
    )
    for each in questions:  # rejected: the numbers are left out
        world.proposed[each.id] = [proposals("Name the sum of two numbers. How big is it?")]
    outcome = world.work(stop_below=0.5)
    assert outcome.stopped == ENOUGH
    assert "which is below stop_below=0.5" in str(outcome.message)
    assert FEWEST_JUDGED <= outcome.done < count
    assert outcome.open == count - outcome.done
    assert world.work(stop_below=0.0).open == 0


def test_a_run_that_began_with_other_requests_is_not_resumed(tmp_path: Path) -> None:
    stored = json.loads(json.dumps(make_spec().to_json()))
    world = World(tmp_path, replace(make_spec(), request_version="0"))
    assert stored["request_version"] != "0"
    with pytest.raises(InputError, match="Start a run with another name"):
        world.work()
    assert not world.asked(PROPOSE)
