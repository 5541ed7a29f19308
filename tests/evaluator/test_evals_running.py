"""Eval runs at the test server: what is sent and stored, growing, faults, caps, and several processes."""

import pytest
from eval_sampling import draw, every, places, running_server, start, stored, sums
from openai_faults import Fault, FaultPlan, Seen, always, fault_sequence, no_faults, random_faults
from sqlalchemy import select, update

from service.asks.tables import OPEN, AskBodyRow, TaskRow
from service.database import Database
from service.hashing import derive_seed
from service.models.access import Budget
from service.runs.progress import read_ledger
from service.runs.store import Run, find_run

PROBLEMS = sums(4)


def finished(db: Database, run: Run) -> bool:
    with db.read() as session:
        return find_run(session, run.id).finished_at is not None


def for_texts(faults: dict[str, str], times: int = 1) -> FaultPlan:
    """Plan: the first `times` requests with one of the texts meet its fault."""

    def plan(seen: Seen) -> Fault | None:
        asked = str(seen.body.get("messages") or seen.body.get("prompt"))
        fault = next((fault for text, fault in faults.items() if text in asked), None)
        return Fault(fault) if fault is not None and seen.earlier < times else None

    return plan


# What is sent and stored


def test_a_request_draws_a_block_with_the_seed_of_its_first_sample(db):
    run = start(db, "r", PROBLEMS, system="Be brief.", samples_per_request=8, seed=3, max_tokens=500)
    with running_server() as server:
        outcome = draw(db, run, server, 20)
        asked = [seen.body for seen in server.requests]
    assert (outcome.drawn, outcome.open, outcome.stopped, outcome.sent) == (80, 0, None, 12)
    assert sorted(body.get("n", 1) for body in asked) == [4] * 4 + [8] * 8
    first = next(body for body in asked if body["messages"][1]["content"].startswith(PROBLEMS[0].text))
    system, user = first["messages"]
    assert system == {"role": "system", "content": "Be brief."}
    assert user["content"] == PROBLEMS[0].text + "\nPut the final answer in \\boxed{}."
    assert (first["temperature"], first["top_p"], first["max_tokens"]) == (0.6, 0.95, 500)
    assert {body["seed"] for body in asked} == {
        derive_seed("sample-seed", 3, problem.id, ordinal) for problem in PROBLEMS for ordinal in (0, 8, 16)
    }


def test_samples_have_seed_stop_reason_tokens_and_grade_and_are_stored_once(db):
    run = start(db, "r", PROBLEMS, samples_per_request=3, seed=5)
    with running_server() as server:
        outcome = draw(db, run, server, 4)
    rows = stored(db, run)
    assert [row[:2] for row in rows] == every(4, 4)
    for position, ordinal, seed, stop, prompt_tokens, completion_tokens, text in rows:
        assert seed == derive_seed("sample-seed", 5, PROBLEMS[position].id, 0 if ordinal < 3 else 3)
        assert stop == "stop"
        assert prompt_tokens > 0
        # The server told the sum of three together; the fourth came alone.
        assert (completion_tokens is None) == (ordinal < 3)
        assert "\\boxed{" in text
    assert outcome.graded.total() == 16
    assert finished(db, run)
    with db.read() as session:
        assert session.scalars(select(AskBodyRow.ask_id)).all() == []  # the texts are the samples'
        (line,) = read_ledger(session, run.id)
    assert (line.requests, line.unpriced) == (8, 8)
    assert line.completion_tokens == sum(-(-len(row[-1]) // 4) for row in rows)


def test_responses_that_were_filtered_cut_or_empty_are_samples(db):
    run = start(db, "r", PROBLEMS[:3])
    names = ("filtered", "truncated", "null_content")
    faults = {problem.text: fault for problem, fault in zip(PROBLEMS[:3], names, strict=True)}
    with running_server(faults=for_texts(faults)) as server:
        draw(db, run, server, 2)
    rows = stored(db, run)
    assert [row[3] for row in rows] == ["content_filter"] * 2 + ["length"] * 2 + ["stop"] * 2
    assert [row[-1] for row in rows[4:]] == ["", ""]


# Resuming and growing


def test_responses_that_a_server_leaves_out_are_asked_for_again(db):
    run = start(db, "r", PROBLEMS)
    with running_server(faults=fault_sequence("fewer_choices", "fewer_choices")) as server:
        outcome = draw(db, run, server, 8)
        counts = sorted(seen.body.get("n", 1) for seen in server.requests)
    assert (outcome.open, outcome.drawn) == (0, 32)
    assert counts == [1, 1, 8, 8, 8, 8]
    assert places(db, run) == every(4, 8)


def test_a_task_that_an_earlier_version_left_open_adds_nothing_to_its_samples(db):
    run = start(db, "r", PROBLEMS)
    with running_server() as server:
        draw(db, run, server, 2)
        before = stored(db, run)
        with db.write() as session:
            session.execute(update(TaskRow).values(state=OPEN))
        outcome = draw(db, run, server, 2)
    assert (outcome.open, outcome.drawn) == (0, 0)
    assert stored(db, run) == before


# Faults


def test_faults_change_neither_the_samples_nor_their_number(db):
    names = ("rate_limit", "server_error", "cut", "cut_early", "invalid_json", "wrong_type", "wrong_shape")
    shares = dict.fromkeys((*names, "empty_choices", "aborted"), 0.06)
    calm, stormy = start(db, "calm", PROBLEMS), start(db, "stormy", PROBLEMS)
    with running_server() as server:
        draw(db, calm, server, 80)
    with running_server(faults=random_faults(shares, seed=2)) as server:
        outcome = draw(db, stormy, server, 80)
        assert len(server.met) > 5
        assert server.overlaps == 0
    assert outcome.drawn == 4 * 80
    assert stored(db, calm) == stored(db, stormy)


@pytest.mark.parametrize("form", ["chat", "raw"])
@pytest.mark.parametrize(
    ("fault", "kind"), [("content_filter", "content filter"), ("context_length", "context length")]
)
def test_a_request_that_is_refused_for_good_is_sent_again_only_if_told_to(db, form, fault, kind):
    run = start(db, "r", PROBLEMS, form=form, template="{question}")
    with running_server(faults=for_texts({PROBLEMS[3].text: fault}, 2)) as server:
        outcome = draw(db, run, server, 8, at_once=1)
        assert (outcome.drawn, outcome.open, outcome.stopped, outcome.failures) == (24, 0, None, {kind: 1})
        assert finished(db, run)
        assert draw(db, run, server, 8).sent == 0
        assert len(server.requests) == 4
        assert draw(db, run, server, 8, retry_final=True).failed == 1
        assert draw(db, run, server, 8, retry_final=True).drawn == 8
    assert places(db, run) == every(4, 8)


@pytest.mark.parametrize(
    ("fault", "stopped", "words"),
    [
        ("unauthorized", "authentication", "Incorrect API key"),
        ("no_model", "unknown model", ""),
        ("quota", "quota", ""),
        ("no_room", "failing", "Lower max_tokens"),
        ("context_length", "failing", "3 consecutive requests failed"),
        ("bad_request", "failing", "Invalid value for 'temperature'"),
        ("no_template", "failing", "chat template"),
    ],
)
def test_a_server_that_refuses_everything_stops_the_run_and_nothing_is_final(db, fault, stopped, words):
    run = start(db, "r", PROBLEMS)
    with running_server(faults=always(fault)) as server:
        outcome = draw(db, run, server, 64, budget=Budget(halt_after=3), at_once=4)
        assert (outcome.stopped, outcome.drawn, outcome.failed) == (stopped, 0, 0)
        assert words in (outcome.message or "")
        assert len(server.requests) <= 7
        server.faults = no_faults
        assert draw(db, run, server, 64).drawn == 4 * 64
