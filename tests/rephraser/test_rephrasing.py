"""A run from questions to verdicts, with models that answer by a script; premises, rejudging."""

from pathlib import Path
from typing import Any

import pytest
from asking import Said
from scripted import BAD_NUMBER, CHANGED, GOOD, OTHER, QUESTION, World, make_spec, proposals
from sqlalchemy import select, text

from benchmarks.studies.verdict_simulation import PLAIN
from evaluator.grading import Clustering, Grader
from rephraser.candidates import candidate_id, store_verdict
from rephraser.checks.premises import Premises, parse_premises
from rephraser.proposing.strategies import load_strategy
from rephraser.reviews.store import Decision, record_reviews
from rephraser.run.judge import judge_again
from rephraser.run.spec import ANSWER, PREMISES, PROPOSE, PremiseSpec
from rephraser.tables import CandidateRow, ProposalRow, VerdictRow
from rephraser.verdict import OverlapRule
from rephraser.views.candidates import proposing_exchange
from rephraser.views.runs import summarize
from service.asks.ask import ATTEMPTS, REQUESTS
from service.asks.request import CONTENT_FILTER, SERVER_ERROR, Choice, Fault, Request
from service.errors import InputError
from service.runs.progress import read_ledger
from service.runs.store import find_run


def summary(world: World) -> dict[str, Any]:
    with world.db.read() as session:
        return summarize(session, find_run(session, world.run.id))


def test_good_candidates_are_accepted_and_end_the_run(tmp_path):
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
    assert (found["complete"], found["candidates"], found["open_questions"]) == (1, {"accepted": 2}, 0)
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
def test_a_verdict_that_is_written_twice_is_stored_once(tmp_path, monkeypatch):
    def twice(*verdict: Any) -> bool:
        store_verdict(*verdict)
        return store_verdict(*verdict)

    calm, world = run_of_two(tmp_path / "calm"), run_of_two(tmp_path / "twice")
    calm.work()
    monkeypatch.setattr("rephraser.run.rephrase.store_verdict", twice)
    world.work()
    assert end_of(world) == end_of(calm)


@pytest.mark.sqlite
def test_a_run_that_stops_at_any_request_ends_as_if_undisturbed(tmp_path):
    calm = run_of_two(tmp_path / "calm")
    total = calm.work().sent
    assert "rejected" in calm.final().values()
    for step in (3, 7):
        world = run_of_two(tmp_path / str(step))
        ends = [world.work(max_requests=step)]
        while ends[-1].stopped:
            ends.append(world.work(max_requests=step))
        assert {end.stopped for end in ends} == {REQUESTS, None}
        assert sum(end.sent for end in ends) == total
        assert end_of(world) == end_of(calm)


def test_an_open_slot_is_proposed_again_with_the_reasons(tmp_path):
    world = World(
        tmp_path, make_spec(solvers=()), proposed=[proposals(GOOD[0], BAD_NUMBER), proposals(GOOD[1])]
    )
    assert world.work().done == 1
    assert [status for _, status, _ in world.statuses()] == ["unverified", "undecided", "unverified"]
    first, again = world.prompts()
    assert "Write 2 rewrites" in first
    assert "Write one rewrite" in again
    assert f"{BAD_NUMBER}\n</earlier>\nWrong: " in again
    assert f"{GOOD[0]}\n</earlier>\n\n" in again  # nothing was wrong with it
    assert again.endswith(f"<problem>\n{QUESTION.text}\n</problem>")


def test_candidates_like_others_are_rejected_before_an_answer_is_paid(tmp_path):
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


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        ("I'm sorry, but I can't help with that.", "refused"),
        (Choice("", "content_filter"), "refused"),
        (Choice("What is the val", "length"), "truncated"),
        (proposals(GOOD[0], GOOD[0]), "fewer candidates than requested"),
    ],
)
def test_unusable_replies_are_asked_again_with_another_seed(tmp_path, reply, outcome):
    world = World(tmp_path, make_spec(solvers=(), rounds=1), proposed=[reply, reply])
    world.work()
    first, again = world.asked(PROPOSE)
    assert first.seed != again.seed
    assert summary(world)["unreadable"] == {outcome: 2}


def test_a_strategy_whose_request_failed_for_good_is_left_out(tmp_path):
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
    assert (found["final_questions"], found["errors"]) == (1, {"content filter: no": 1})
    # Asked again on request only.
    assert world.work().sent == 0
    world.proposed[QUESTION.id] = [proposals(GOOD[0])]
    assert world.work(retry_final=True).sent == 1
    assert world.final()[GOOD[0]] == "unverified"


def test_a_request_that_failed_for_now_leaves_the_question_open(tmp_path):
    broken = Fault(SERVER_ERROR, "no luck")
    world = World(tmp_path, make_spec(n=1), proposed=[broken] * ATTEMPTS + [proposals(GOOD[0])])
    first = world.work()
    assert (first.done, first.open, first.failures) == (0, 1, {SERVER_ERROR: 1})
    found = summary(world)
    assert (found["open_questions"] + found["failed_questions"], found["final_questions"]) == (1, 0)
    assert world.work().done == 1
    assert world.final() == {GOOD[0]: "accepted"}


def test_a_candidate_is_judged_by_the_answers_that_did_not_fail(tmp_path):
    world = World(tmp_path, make_spec(n=1, rounds=1), proposed=[proposals(GOOD[0])])
    world.endpoints["s"].script = lambda request: (
        Fault(CONTENT_FILTER, "no") if request.draw == 4 else r"\boxed{12}"
    )
    world.work()
    # 8 of the first 12 are too few for a look; then 12 of 16.
    assert world.statuses()[1:] == [(GOOD[0], "undecided", False), (GOOD[0], "accepted", True)]
    counts = world.evidence()["counts"]
    assert (sum(counts["original"]), sum(counts["candidate"])) == (28, 12)


class SlowGrader(Grader):
    """Runs out of time: what is not spelled as the gold stays unknown."""

    def cluster_many(self, jobs: Any) -> list[Clustering]:
        found = []
        for job in jobs:
            places = [None if answer != job.gold else 0 for answer in job.answers]
            unsettled = tuple(i for i, place in enumerate(places) if place is None)
            found.append(Clustering((job.gold,), tuple(places), 0, len(unsettled), unsettled))
        return found


@pytest.mark.parametrize("rule", [OverlapRule(), PLAIN])
def test_a_slow_grader_rejects_no_good_neighbor(tmp_path, monkeypatch, rule):
    monkeypatch.setattr("rephraser.run.rephrase.Grader", SlowGrader)
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
def test_a_number_finding_blocks_only_without_a_solver(tmp_path, solved, status):
    candidate = "If the sum of $x$ and 7 is 19, what is $x$, give or take 300?"
    spec = make_spec(n=1, rounds=1) if solved else make_spec(n=1, rounds=1, solvers=())
    world = World(tmp_path, spec, proposed=[proposals(candidate)])
    world.work()
    assert world.final() == {candidate: status}
    (finding,) = world.evidence()["findings"]
    assert (finding["name"], finding["severity"]) == ("number_added", "evidence")


def test_a_question_whose_own_answers_cannot_be_read_is_asked_nothing_more(tmp_path):
    mute = Choice("I keep thinking.", "length")
    world = World(
        tmp_path, make_spec(), proposed=[proposals(*GOOD)], answers={GOOD[0]: "12", GOOD[1]: "12", "": mute}
    )
    world.work()
    assert world.final() == dict.fromkeys(GOOD, "undecided")
    assert (len(world.asked(PROPOSE)), len(world.asked(ANSWER))) == (1, 8)  # no round more, no answers more
    again = judge_again(world.db, world.run, world.spec.rule)
    assert (again["judged"], again["changes"]) == (2, [])
    found = summary(world)
    assert (found["unreadable_questions"], found["candidates"]) == (1, {"undecided": 2})
    assert (
        found["unfinished"][0]["reason"]
        == "2 undecided, too many answers to the question are truncated or cannot be parsed"
    )
    with world.db.read() as session:
        reasons = set(session.scalars(select(VerdictRow.reason).where(VerdictRow.status == "undecided")))
    [reason] = reasons
    assert reason.startswith("32 of 32 answers to the original could not be parsed; at most 50% may fail.")
    assert reason.endswith("32 were truncated: raise the solver's max_tokens.")


def wrong_lines(prompt: str) -> list[str]:
    return [line for line in prompt.splitlines() if line.startswith("Wrong: ")]


def review(world: World, decision: str, reason: str) -> None:
    identity = candidate_id(QUESTION.id, GOOD[0])
    with world.db.write() as session:
        record_reviews(session, [Decision(identity, decision, reason, "ann")])


def test_a_candidate_that_was_reviewed_in_the_meantime_gets_its_answers(tmp_path):
    world = World(tmp_path, make_spec(n=1), proposed=[proposals(GOOD[0])])
    world.work(max_requests=1)
    review(world, "accepted", "looks fine")
    world.work()
    assert world.final() == {GOOD[0]: "accepted"}


def test_other_answers_are_told_without_the_answers(tmp_path):
    world = World(
        tmp_path,
        make_spec(n=1, content_attempts=1),
        (OTHER,),
        proposed=[proposals(CHANGED), proposals(CHANGED)],
        answers={"together, a pen": "7", "together?": "17"},
    )
    world.work()
    assert world.final() == {CHANGED: "rejected"}
    counts = world.evidence()["counts"]
    assert (counts["classes"], counts["original"], counts["candidate"]) == (["17", "7"], [32, 0], [0, 12])
    (line,) = wrong_lines(world.prompts()[1])
    assert "its answers differ from those of the problem" in line
    assert not [number for number in ("17", "7") if number in line.split()]


def test_a_request_stays_the_same_after_a_later_review(tmp_path):
    replies = [proposals(GOOD[0]), GOOD[0], QUESTION.text, proposals(*GOOD)]
    world = World(tmp_path, make_spec(n=2, content_attempts=2), proposed=replies)
    solve, reviews = world.endpoints["s"].script, iter(["rejected"])

    def solve_and_review(request: Request) -> Said:
        for decision in reviews:  # while the solver answers
            review(world, decision, "it is 12 anyway")
        return solve(request)

    world.endpoints["s"].script = solve_and_review
    world.work(max_requests=2 + 11 + 1)  # the last one is an echo
    review(world, "accepted", "yes after all")
    world.work()
    told, again = world.prompts()[2:]
    assert wrong_lines(told)
    assert told == again
    with world.db.read() as session:
        ask_id = session.scalars(select(ProposalRow.ask_id).order_by(ProposalRow.id.desc())).first()
        assert proposing_exchange(session, ask_id)["prompt"][1]["content"] == again


def test_another_rule_judges_at_the_looks_that_were_taken(tmp_path):
    world = World(tmp_path, make_spec(n=1, rounds=1), proposed=[proposals(GOOD[0])])
    world.work()  # accepted at the first look: 12 answers are stored
    whole, strict = OverlapRule(looks=(16,)), OverlapRule(accept_overlap=13, looks=(12, 16))
    more = judge_again(world.db, world.run, whole)
    later = judge_again(world.db, world.run, strict, dry_run=True)
    assert (more["judged"], more["too_few"], more["after"]) == (0, 1, {"accepted": 1})
    assert later["after"] == {"undecided": 1}  # the look at 16 has no answers
    for other in (OverlapRule(looks=(8, 16)), OverlapRule(original_samples=16)):
        with pytest.raises(InputError, match=r"question_samples=32 and looks=\[12, 16\]. Choose among these"):
            judge_again(world.db, world.run, other)


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
def test_lists_of_premises_are_read(text, found):
    assert parse_premises(Choice(text, "stop")) == found


@pytest.mark.parametrize(
    ("answer", "status", "names"),
    [
        ("<kept>x + 7 = 19</kept>", "accepted", []),
        ("<changed>x + 7 = 19</changed>", "accepted", ["premise_changed"]),
        ("<kept>x</kept><dropped>x + 7 = 19</dropped>", "undecided", ["premise_dropped"]),
    ],
)
def test_a_dropped_premise_blocks(tmp_path, answer, status, names):
    world = World(
        tmp_path, make_spec(n=1, rounds=1, premises=ASKED), proposed=[proposals(GOOD[0])], premises=[answer]
    )
    world.work()
    (request,) = world.asked(PREMISES)
    assert QUESTION.text in request.messages[1].content
    assert GOOD[0] in request.messages[1].content
    assert world.statuses()[-1] == (GOOD[0], status, True)
    evidence = world.evidence()
    assert [each["name"] for each in evidence["findings"]] == names
    assert evidence["premises"]["model"] == "judge"
    dropped = [one for one in evidence["findings"] if one["name"] == "premise_dropped"]
    assert [one["detail"] for one in dropped] == (["x + 7 = 19"] if status == "undecided" else [])
    with world.db.read() as session:
        assert [line.requests for line in read_ledger(session, world.run.id) if line.kind == PREMISES] == [1]


def test_unreadable_premises_are_asked_for_again_and_then_block_nothing(tmp_path):
    world = World(
        tmp_path,
        make_spec(n=1, rounds=1, premises=ASKED),
        proposed=[proposals(GOOD[0])],
        premises=["All of it is there."] * 2,
    )
    world.work()
    first, again = world.asked(PREMISES)
    assert first.seed != again.seed
    assert world.final() == {GOOD[0]: "accepted"}
    assert world.evidence()["premises"]["outcome"] == "unreadable"
