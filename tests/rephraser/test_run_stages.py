"""The stages of a run on their own: the plan, reading, judging. No server, no model."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hand_filled import BAD_NUMBER, CHANGED, GOOD, OTHER, QUESTION, World, make_spec, proposals
from sqlalchemy import select

from evaluator.grading import Clustering, Grader
from rephraser.checks import Finding
from rephraser.proposing.strategies import load_strategy
from rephraser.run.ask import proposing_requests
from rephraser.run.judge import judge_answers
from rephraser.run.plan import open_slots
from rephraser.run.read import collect_proposals, read_choices
from rephraser.run.spec import ANSWER, PROPOSE, SolverSpec
from rephraser.tables import CandidateRow, ProposalRow, VerdictRow
from rephraser.verdict import BayesRule, OverlapRule
from rephraser.views.runs import summarize
from service.runs.cells import is_complete
from service.runs.progress import count_states
from service.runs.store import open_run


def test_good_candidates_are_accepted_and_end_the_run(tmp_path: Path) -> None:
    world = World(tmp_path, make_spec())
    assert world.plan() == 1
    assert world.plan() == 0  # planning again changes nothing
    (cell,) = world.claim()
    world.fill(cell, proposals(GOOD))
    world.read()
    assert world.statuses() == [(text, "unverified", False) for text in GOOD]
    assert world.plan() == 8 + 2 * 3  # 32 answers to the question, 12 to each candidate, 4 a request
    world.solve({"x": "12"})
    with Grader(workers=1) as grader:
        assert judge_answers(world.db, world.run.id, world.spec, grader, report=lambda *_: None) == 2
        assert judge_answers(world.db, world.run.id, world.spec, grader, report=lambda *_: None) == 0
    assert world.statuses()[2:] == [(text, "accepted", True) for text in GOOD]
    assert world.plan() == 0
    with world.db.read() as session:
        summary = summarize(session, world.run)
    assert (summary.complete, summary.candidates, summary.open_requests) == (1, {"accepted": 2}, 0)


def test_a_slot_that_is_not_filled_is_proposed_again_and_told_what_to_avoid(tmp_path: Path) -> None:
    world = World(tmp_path, make_spec(solvers=()))
    world.plan()
    (cell,) = world.claim()
    world.fill(cell, proposals((GOOD[0], BAD_NUMBER)))
    world.read()
    assert [status for _, status, _ in world.statuses()] == ["unverified", "undecided"]
    assert world.plan() == 1
    (again,) = world.claim()
    assert (again.round, again.payload["count"]) == (1, 1)
    (request,) = proposing_requests(world.db, world.run.id, world.spec, [again])
    asked = request.messages[1].content
    assert GOOD[0] in asked
    assert f"{BAD_NUMBER}\n</earlier>\nWrong: " in asked
    assert f"{GOOD[0]}\n</earlier>\n\n" in asked  # nothing was wrong with it
    assert asked.endswith(f"<problem>\n{QUESTION.text}\n</problem>")
    world.fill(again, proposals((GOOD[1],)))
    world.read()
    with world.db.read() as session:
        assert open_slots(session, world.run.id, world.spec) == []


def test_what_is_too_like_is_refused_before_an_answer_is_paid(tmp_path: Path) -> None:
    near = "If $x + 7 = 19$, what is then the value of $x$?"
    again = GOOD[0].replace("What is", "What is then")
    world = World(tmp_path, make_spec(n=3, min_distance=0.15))
    world.plan()
    (cell,) = world.claim()
    world.fill(cell, proposals((near, GOOD[0], again)))
    world.read()
    assert world.statuses() == [
        (near, "rejected", True),
        (GOOD[0], "unverified", False),
        (again, "rejected", True),
    ]
    with world.db.read() as session:
        reasons = session.scalars(select(VerdictRow.reason).order_by(VerdictRow.id)).all()
        likeness = dict(session.execute(select(CandidateRow.text, CandidateRow.likeness)).all())
    assert "5% of its words differ from those of the original, but at least 15% must differ" in reasons[0]
    assert "those of the sibling number 1" in reasons[2]
    assert likeness == {near: 0.9524, GOOD[0]: 0.6, again: 0.5714}


def test_rounds_end(tmp_path: Path) -> None:
    world = World(tmp_path, make_spec(solvers=(), rounds=2, n=1))
    for changed in ("If $x + 8 = 19$, what is $x$?", "If $x + 9 = 19$, what is $x$?"):
        assert world.plan() == 1
        (cell,) = world.claim()
        world.fill(cell, proposals((changed,)))
        world.read()
    assert world.plan() == 0
    with world.db.read() as session:
        (unfinished,) = summarize(session, world.run).unfinished
    assert unfinished.reason == "2 undecided"


@pytest.mark.parametrize(
    ("text", "finish", "outcome"),
    [
        ("I'm sorry, but I can't help with that.", "stop", "refused"),
        (QUESTION.text, "stop", "echoed the question or the prompt"),
        ("", "stop", "empty answer"),
        ("", "content_filter", "refused"),
        ("What is the val", "length", "truncated"),
        (proposals((GOOD[0], GOOD[0])), "stop", "fewer candidates than asked"),
    ],
)
def test_unusable_answers_are_asked_again_with_another_seed(
    tmp_path: Path, text: str, finish: str, outcome: str
) -> None:
    world = World(tmp_path, make_spec(solvers=()))
    world.plan()
    (cell,) = world.claim()
    world.fill(cell, text, finish=finish)
    world.read()
    (again,) = world.claim()
    assert again.attempt == 1
    assert again.payload["seed"] != cell.payload["seed"]
    world.fill(again, text, finish=finish)
    world.read()
    with world.db.read() as session:
        assert summarize(session, world.run).unreadable == {outcome: 2}
    assert world.plan() == 1  # attempts are used up, the next round asks anew
    assert world.claim()[0].round == 1


def test_a_transaction_reads_few_questions_and_each_of_them_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rephraser.run.read._GROUPS_PER_READ", 1)
    names = ("perspectives", "paraphrase")
    spec = make_spec(strategies=tuple(load_strategy(name) for name in names), solvers=())
    world = World(tmp_path, spec, (QUESTION, OTHER))
    world.plan()
    *filled, last = sorted(world.claim(), key=lambda cell: cell.subject_id == OTHER.id)
    for cell in filled:
        world.fill(cell, proposals((f"{GOOD[0]} ({cell.ordinal})",)))
    reads = []
    for _ in range(2):
        with world.db.write() as session:
            reads.append(collect_proposals(session, world.run.id, spec))
    assert reads == [2, 0]  # the other question's second cell is empty still
    world.fill(last, proposals((f"{GOOD[1]} (1)",)))
    with world.db.write() as session:
        assert collect_proposals(session, world.run.id, spec) == 2


def test_the_order_of_answers_does_not_decide_which_duplicate_counts(tmp_path: Path) -> None:
    strategies = (load_strategy("perspectives"), load_strategy("paraphrase"))
    kept = []
    for name, order in (("forward", 1), ("backward", -1)):
        folder = tmp_path / name
        folder.mkdir()
        world = World(folder, make_spec(solvers=(), strategies=strategies))
        world.plan()
        first, second = world.claim()
        for cell in (first, second)[::order]:
            world.fill(cell, GOOD[0])
            world.read()
        with world.db.read() as session:
            kept.append(session.execute(select(ProposalRow.strategy, ProposalRow.ordinal)).all())
    assert kept[0] == kept[1] == [("perspectives", 0)]


def test_a_retry_that_repeats_another_strategy_s_candidate_is_found(tmp_path: Path) -> None:
    spec = make_spec(strategies=(load_strategy("perspectives"), load_strategy("paraphrase")), solvers=())
    world = World(tmp_path, spec)
    world.plan()
    first, second = world.claim()
    world.fill(first, QUESTION.text)
    world.fill(second, GOOD[0])
    world.read()
    (again,) = world.claim()
    (request,) = proposing_requests(world.db, world.run.id, spec, [again])
    assert GOOD[0] in request.messages[1].content
    world.fill(again, GOOD[0].removesuffix("?"))
    world.read()
    assert [status for _, status, _ in world.statuses()] == ["unverified", "rejected"]


def test_a_server_that_returns_fewer_answers_is_asked_for_the_rest(tmp_path: Path) -> None:
    world = World(tmp_path, make_spec(n=1))
    world.propose(GOOD[0])
    world.plan()
    cells = world.claim(world.spec.solvers[0].id)
    world.fill(cells[0], "$\\boxed{12}$", "$\\boxed{13}$")
    world.read()
    (rest,) = world.claim(world.spec.solvers[0].id)
    assert rest.payload["start"] == cells[0].payload["start"] + 2
    assert rest.payload["count"] == 2


def test_a_strategy_whose_request_failed_for_good_is_not_asked_again_and_the_others_are(
    tmp_path: Path,
) -> None:
    spec = make_spec(strategies=(load_strategy("perspectives"), load_strategy("paraphrase")), solvers=())
    world = World(tmp_path, spec)
    world.plan()
    first, second = world.claim()
    world.give_up(first)
    world.fill(second, proposals((QUESTION.text,)))
    world.read()
    (again,) = world.claim()
    assert (again.ordinal, again.attempt) == (second.ordinal, 1)
    world.fill(again, proposals((QUESTION.text,)))
    world.read()
    assert world.plan() == 1
    assert [(cell.round, cell.ordinal) for cell in world.claim()] == [(1, second.ordinal)]
    with world.db.read() as session:
        summary = summarize(session, world.run)
        assert is_complete(session, world.run.id) is False
    assert (summary.final_requests, summary.failed_requests) == (1, 0)
    assert summary.errors == {"context length: too long": 1}


def test_a_candidate_is_judged_by_the_answers_whose_requests_did_not_fail_for_good(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, make_spec(n=1))
    world.propose(GOOD[0])
    world.plan()
    cells = world.claim(world.spec.solvers[0].id)
    question, candidate = (
        [cell for cell in cells if (cell.subject_id == QUESTION.id) == original] for original in (True, False)
    )
    world.give_up(question[1])
    world.give_up(candidate[0])
    for cell in (question[0], *question[2:], *candidate[1:]):
        world.fill(cell, *["$\\boxed{12}$"] * 4)
    world.read()
    with Grader(workers=1) as grader:
        assert world.judge(grader) == 1  # 8 of 12 answers are too few for a first look
        assert world.plan() > 0
        for cell in world.claim(world.spec.solvers[0].id):
            world.fill(cell, *["$\\boxed{12}$"] * 4)
        world.read()
        assert world.judge(grader) == 1
    assert world.statuses()[-1] == (GOOD[0], "accepted", True)
    assert sum(world.evidence()["counts"]["original"]) == 28
    assert sum(world.evidence()["counts"]["candidate"]) == 12


def test_a_candidate_of_whose_answers_none_will_come_stays_undecided_for_good(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, make_spec(n=1))
    world.propose(GOOD[0])
    world.plan()
    for cell in world.claim(world.spec.solvers[0].id):
        world.give_up(cell)
    with Grader(workers=1) as grader:
        assert world.judge(grader) == 1
    assert world.statuses()[-1] == (GOOD[0], "unverified", True)
    assert world.plan() == 1  # for the next round


@pytest.mark.parametrize("planned_before", [True, False])
def test_what_is_missing_of_a_shared_answer_is_asked_for_by_either_run(
    tmp_path: Path, planned_before: bool
) -> None:
    world = World(tmp_path, make_spec(n=1))
    solver = world.spec.solvers[0].id
    with world.db.write() as session:
        spec, ids = replace(world.spec, seed=5).to_json(), [QUESTION.id]
        other, _ = open_run(session, name="other", kind="propose", spec=spec, question_ids=ids, versions={})
    first = world.run
    for world.run in (first, other):
        world.propose(GOOD[0])
        if planned_before or world.run == first:
            world.plan()
    world.run = first
    cells = world.claim(solver)
    world.fill(cells[0], "$\\boxed{12}$")
    world.read()
    world.run = other
    world.plan()
    assert [(cell.subject_id, cell.attempt) for cell in world.claim(solver)] == [(cells[0].subject_id, 1)]


def test_a_body_without_choices_is_not_asked_for_without_end(tmp_path: Path) -> None:
    world = World(tmp_path, make_spec(n=1, solvers=(SolverSpec("s", samples_per_request=2),)))
    world.propose(GOOD[0])
    world.plan()
    asked = []
    while cells := world.claim(world.spec.solvers[0].id):
        asked.append(len(cells))
        for cell in cells:
            world.fill(cell)
        world.read()
    assert asked == [16 + 6, 16 + 6]  # an empty answer each, then the other one of two


def test_another_run_reuses_a_solver_s_answers(tmp_path: Path) -> None:
    world = World(tmp_path, make_spec(n=1))
    world.propose(GOOD[0])
    world.plan()
    world.solve({"x": "12"})
    with world.db.write() as session:
        other, _ = open_run(
            session,
            name="other",
            kind="propose",
            spec=replace(world.spec, seed=5).to_json(),
            question_ids=[QUESTION.id],
            versions={},
        )
    world.run, world.spec = other, replace(world.spec, seed=5)
    world.propose(GOOD[0])
    world.plan()
    with world.db.read() as session:
        assert count_states(session, other.id)[ANSWER, "filled"] == 11
        assert count_states(session, other.id)[PROPOSE, "filled"] == 1
    assert world.claim(world.spec.solvers[0].id) == []


def test_a_changed_problem_is_rejected_by_its_answers(tmp_path: Path) -> None:
    world = World(tmp_path, make_spec(n=1, rounds=1), (OTHER,))
    world.propose(CHANGED)
    world.plan()
    world.solve({"They cost": "7", "together": "17"})
    with Grader(workers=1) as grader:
        judge_answers(world.db, world.run.id, world.spec, grader, report=lambda *_: None)
    (first, last) = world.statuses()
    assert first[1:] == ("unverified", False)
    assert last[1:] == ("rejected", True)
    with world.db.read() as session:
        evidence = session.scalars(select(VerdictRow.evidence).order_by(VerdictRow.id.desc())).first()
    assert evidence is not None
    assert "findings" in evidence
    assert evidence["counts"]["classes"] == ["17", "7"]
    assert evidence["counts"]["original"] == [32, 0]
    assert evidence["counts"]["candidate"] == [0, 12]


@pytest.mark.parametrize("body", ["", "not json", "[]", "{}", '{"choices": null}', "null", "3"])
def test_bodies_that_are_no_completion_have_no_choices(body: str) -> None:
    assert read_choices(body) == []


class SlowGrader(Grader):
    """Stands in for a grader that runs out of time: what is not spelled as another answer stays unknown."""

    def cluster_many(self, jobs: Any, progress: Any = None) -> list[Clustering]:
        found = []
        for job in jobs:
            places = [None if answer != job.gold else 0 for answer in job.answers]
            open_ = tuple(i for i, place in enumerate(places) if place is None)
            found.append(Clustering((job.gold,), tuple(places), 0, len(open_), open_))
        return found


@pytest.mark.parametrize("rule", [OverlapRule(), OverlapRule.plain(), BayesRule()])
def test_a_slow_grader_rejects_no_good_neighbor(tmp_path: Path, rule: OverlapRule | BayesRule) -> None:
    world = World(tmp_path, make_spec(n=1, rounds=1, rule=rule))
    world.propose(GOOD[0])
    with SlowGrader(workers=1) as grader:
        while world.plan():
            # The question's answers are spelled as the gold, the candidate's are equal but spelled otherwise.
            world.solve({GOOD[0]: "24/2", "x": "12"})
            world.judge(grader)
    assert world.statuses()[-1] == (GOOD[0], "undecided", True)
    counts = world.evidence()["counts"]
    assert (counts["candidate"], counts["candidate_unsettled"]) == ([0], rule.looks[-1])
    assert counts["candidate_unparsed"] == 0


def test_a_candidate_with_findings_is_looked_at_more_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = Finding("number_added", "7")
    monkeypatch.setattr("rephraser.run.check.check_candidate", lambda *_, **__: (finding,))
    world = World(tmp_path, make_spec(n=1, rounds=1, rule=OverlapRule(accept_overlap=11)))
    world.propose(GOOD[0])
    drawn = []
    with Grader(workers=1) as grader:
        while world.plan():
            world.solve({"x": "12"})
            world.judge(grader)
            drawn.append(sum(world.evidence()["counts"]["candidate"]))
    assert drawn == [12, 16]  # 13 shared answers are asked for
    assert world.statuses()[-1] == (GOOD[0], "accepted", True)
    assert world.evidence()["asks_for_more"] == ["numbers"]
    assert world.evidence()["rule"]["accept_overlap"] == 11
