"""The remote sampler: what it sends, what it stores, and that neither faults nor caps spoil a run."""

import json
from typing import Any

import pytest
from eval_sampling import MODEL, draw, every, places, running_server, sampler, start, stored, sums
from openai_faults import always, fault_sequence, first_of, for_text, no_faults, random_faults
from sqlalchemy import select

from service.database import Database
from service.errors import BudgetError, PrerequisiteError
from service.models.drawing import sample_seed
from service.models.remote import Endpoint, PriceTable
from service.models.remote.sampler import RemoteSampler
from service.runs.spending import read_ledger, set_cap, spent_usd
from service.runs.store import Run, find_run
from service.runs.tables import CellBodyRow

PROBLEMS = sums(4)


def bodies(db: Database) -> list[dict[str, Any]]:
    with db.read() as session:
        return [json.loads(body) for body in session.scalars(select(CellBodyRow.body))]


# What is sent


def test_a_request_draws_a_cell_with_the_seed_of_its_first_sample(db: Database) -> None:
    run = start(db, "r", PROBLEMS, system="Be brief.", samples_per_request=8, seed=3, max_tokens=500)
    with running_server() as server:
        draw(db, run, sampler(server), 20)
        asked = [seen.body for seen in server.requests]
    assert len(asked) == 4 * 3
    assert sorted(body.get("n", 1) for body in asked) == [4] * 4 + [8] * 8
    first = next(body for body in asked if body["messages"][1]["content"].startswith(PROBLEMS[0].text))
    assert first["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": PROBLEMS[0].text + "\nPut the final answer in \\boxed{}."},
    ]
    assert (first["temperature"], first["top_p"], first["max_tokens"]) == (0.6, 0.95, 500)
    assert {body["seed"] for body in asked} == {
        sample_seed(3, problem.id, ordinal) for problem in PROBLEMS for ordinal in (0, 8, 16)
    }


@pytest.mark.slow
def test_raw_text_is_continued_as_it_is(db: Database) -> None:
    run = start(db, "r", PROBLEMS, form="raw", template="Q: {question}\nA:")
    with running_server(thinks=True) as server:
        outcome = draw(db, run, sampler(server), 8)
        asked = [seen.body for seen in server.requests]
    assert (outcome.missing, len(asked)) == (0, 4)
    assert {body["prompt"] for body in asked} == {f"Q: {one.text}\nA:" for one in PROBLEMS}
    assert asked[0]["n"] == 8
    assert "messages" not in asked[0]
    assert all("<think>" not in row[-1] for row in stored(db, run))


def test_arguments_of_the_chat_template_reach_the_server(db: Database) -> None:
    quiet = start(db, "quiet", PROBLEMS, chat_template_kwargs={"enable_thinking": False})
    loud = start(db, "loud", PROBLEMS)
    with running_server(thinks=True) as server:
        draw(db, quiet, sampler(server), 1)
        assert server.requests[0].body["chat_template_kwargs"] == {"enable_thinking": False}
        draw(db, loud, sampler(server), 1)
    assert not any("<think>" in row[-1] for row in stored(db, quiet))
    assert all(row[-1].startswith("<think>\nLet me see.\n</think>\n\n") for row in stored(db, loud))


@pytest.mark.parametrize(
    ("model", "api_base", "changes", "words"),
    [
        ("anthropic/claude-3-haiku-20240307", None, {"form": "raw"}, "raw text cannot be continued at"),
        ("gpt-4-turbo", None, {"chat_template_kwargs": {"a": 1}}, "takes no chat_template_kwargs"),
    ],
)
def test_what_a_provider_cannot_take_is_refused_before_a_run(
    model: str, api_base: str | None, changes: dict[str, Any], words: str
) -> None:
    from eval_runs import make_eval_spec

    with pytest.raises(PrerequisiteError, match=words):
        RemoteSampler(Endpoint(model, api_base)).check(make_eval_spec(PROBLEMS, **changes))


def test_raw_text_is_no_batch_job() -> None:
    from eval_runs import make_eval_spec

    drawing = RemoteSampler(Endpoint("openai/davinci", "http://localhost:1/v1"), batch=True)
    with pytest.raises(PrerequisiteError, match="batch jobs hold chats only"):
        drawing.check(make_eval_spec(PROBLEMS, form="raw"))


def test_a_model_that_does_not_know_n_is_asked_for_one_sample_at_a_time() -> None:
    assert RemoteSampler(Endpoint("anthropic/claude-3-haiku-20240307")).samples_per_request(8) == 1
    assert RemoteSampler(Endpoint(MODEL, "http://localhost:1/v1")).samples_per_request(8) == 8


# What is stored


def test_samples_have_their_seed_stop_reason_and_tokens_and_bodies_no_texts(db: Database) -> None:
    run = start(db, "r", PROBLEMS, samples_per_request=3, seed=5)
    with running_server() as server:
        draw(db, run, sampler(server), 4)
    rows = stored(db, run)
    assert [row[:2] for row in rows] == every(4, 4)
    for position, ordinal, seed, stop, prompt_tokens, completion_tokens, text in rows:
        assert seed == sample_seed(5, PROBLEMS[position].id, 0 if ordinal < 3 else 3)
        assert stop == "stop"
        assert prompt_tokens > 0
        # Of three together the server told the sum only; the fourth came alone.
        assert (completion_tokens is None) == (ordinal < 3)
        assert "\\boxed{" in text
    found = bodies(db)
    assert len(found) == 8
    assert "boxed" not in json.dumps(found)
    assert all(choice["message"]["content"] is None for body in found for choice in body["choices"])
    assert all(choice["finish_reason"] == "stop" for body in found for choice in body["choices"])
    with db.read() as session:
        (line,) = read_ledger(session, run.id)
    assert (line.requests, line.unpriced) == (8, 8)
    assert line.completion_tokens == sum(-(-len(row[-1]) // 4) for row in rows)


def test_thoughts_that_a_reasoning_parser_took_out_stand_before_the_response(db: Database) -> None:
    run = start(db, "r", PROBLEMS[:1])
    with running_server(thinks=True, reasoning_parser=True) as server:
        draw(db, run, sampler(server), 2)
    for row in stored(db, run):
        assert row[-1].startswith("<think>\nLet me see.\n</think>\n\nAdding")
    assert "Let me see" not in json.dumps(bodies(db))


def test_a_thought_that_was_cut_off_stays_open_and_is_no_answer(db: Database) -> None:
    run = start(db, "r", PROBLEMS[:1], max_tokens=3)
    with running_server(thinks=True, reasoning_parser=True) as server:
        outcome = draw(db, run, sampler(server), 2)
    assert [row[3] for row in stored(db, run)] == ["length", "length"]
    assert all(row[-1] == "<think>\nLet me see.\n" for row in stored(db, run))
    assert (outcome.graded.correct, outcome.graded.wrong) == (0, 2)


def test_a_seed_that_the_server_refuses_is_not_noted(db: Database) -> None:
    run = start(db, "r", PROBLEMS)
    with running_server(refuse_fields=["seed"]) as server:
        outcome = draw(db, run, sampler(server, max_concurrency=1), 2)
    assert outcome.missing == 0
    assert {row[2] for row in stored(db, run)} == {None}


# Growth and resuming


def test_responses_that_a_server_leaves_out_are_asked_for_again(db: Database) -> None:
    run = start(db, "r", PROBLEMS)
    with running_server(faults=fault_sequence("fewer_choices", "fewer_choices")) as server:
        outcome = draw(db, run, sampler(server), 8)
        counts = sorted(seen.body.get("n", 1) for seen in server.requests)
    assert (outcome.missing, outcome.drawn) == (0, 32)
    assert counts == [1, 1, 8, 8, 8, 8]
    assert places(db, run) == every(4, 8)


def test_a_server_that_gives_one_response_whatever_n_is_asked_until_all_are_there(db: Database) -> None:
    run = start(db, "r", PROBLEMS[:1])

    def one(messages: Any, n: int, seed: int | None) -> list[str]:
        return ["\\boxed{1}"]

    with running_server(answer=one) as server:
        assert draw(db, run, sampler(server), 5).missing == 0
        assert len(server.requests) == 5
    assert places(db, run) == every(1, 5)


def test_a_server_that_gives_too_many_responses_spoils_nothing(db: Database) -> None:
    run = start(db, "r", PROBLEMS[:1])

    def many(messages: Any, n: int, seed: int | None) -> list[str]:
        return ["\\boxed{1}"] * (n + 2)

    with running_server(answer=many) as server:
        assert draw(db, run, sampler(server), 12).missing == 0
    assert places(db, run) == every(1, 12)


# Faults


def test_faults_change_neither_the_samples_nor_their_number(db: Database) -> None:
    shares = {"rate_limit": 0.1, "server_error": 0.1, "cut": 0.1, "invalid_json": 0.1, "empty_choices": 0.1}
    calm, stormy = start(db, "calm", PROBLEMS), start(db, "stormy", PROBLEMS)
    with running_server() as server:
        draw(db, calm, sampler(server), 40)
    with running_server(faults=random_faults(shares, seed=2)) as server:
        outcome = draw(db, stormy, sampler(server), 40)
        assert sum(server.met.values()) > 5
    assert outcome.missing == 0
    assert stored(db, calm) == stored(db, stormy)


@pytest.mark.parametrize("form", ["chat", "raw"])
def test_a_request_that_a_filter_refuses_is_final_and_its_samples_missing(db: Database, form: str) -> None:
    template = "{question}"
    run = start(db, "r", PROBLEMS, form=form, template=template)
    refused = for_text(PROBLEMS[1].text, *["content_filter"] * 9)
    with running_server(faults=refused) as server:
        outcome = draw(db, run, sampler(server), 12)
        assert len(server.requests) == 4 * 2
        assert (outcome.missing, outcome.lost, outcome.stopped) == (12, 12, None)
        assert draw(db, run, sampler(server), 12).lost == 12
        assert len(server.requests) == 4 * 2
    assert places(db, run) == [place for place in every(4, 12) if place[0] != 1]
    with db.read() as session:
        assert find_run(session, run.id).finished_at is not None


def test_responses_that_were_filtered_or_cut_say_so(db: Database) -> None:
    run = start(db, "r", PROBLEMS[:2])
    plan = first_of(for_text(PROBLEMS[0].text, "filtered"), for_text(PROBLEMS[1].text, "truncated"))
    with running_server(faults=plan) as server:
        draw(db, run, sampler(server), 8)
    assert [row[3] for row in stored(db, run)] == ["content_filter"] * 8 + ["length"] * 8


@pytest.mark.parametrize("fault", ["null_content", "empty_content"])
def test_an_empty_response_is_a_sample(db: Database, fault: str) -> None:
    run = start(db, "r", PROBLEMS[:1])
    with running_server(faults=always(fault)) as server:
        outcome = draw(db, run, sampler(server), 3)
    assert (outcome.missing, outcome.graded.wrong) == (0, 3)
    assert {row[-1] for row in stored(db, run)} == {""}


def test_a_problem_that_is_too_long_is_asked_again_only_where_that_is_said(db: Database) -> None:
    run = start(db, "r", PROBLEMS)
    too_long = for_text(PROBLEMS[2].text, "context_length")
    with running_server(faults=too_long) as server:
        outcome = draw(db, run, sampler(server), 8)
        assert (outcome.missing, outcome.stopped, outcome.failures) == (8, None, {"context length": 1})
        assert places(db, run) == [place for place in every(4, 8) if place[0] != 2]
        assert (draw(db, run, sampler(server), 8).missing, len(server.requests)) == (8, 4)
        assert draw(db, run, sampler(server), 8, retry_final=True).missing == 0


def test_what_runs_out_of_time_twice_is_final(db: Database) -> None:
    run = start(db, "r", PROBLEMS)
    with running_server(faults=for_text(PROBLEMS[2].text, *["hang"] * 9)) as server:
        hasty = sampler(server, timeout_s=0.2)
        outcome = draw(db, run, hasty, 8)
        assert (outcome.missing, outcome.lost, outcome.failures) == (8, 8, {"time-out": 1})
        draw(db, run, hasty, 8)
        assert server.met["hang"] == 2


def test_a_server_that_hangs_makes_nothing_final(db: Database) -> None:
    run = start(db, "r", PROBLEMS)
    with running_server(faults=always("hang")) as server:
        outcome = draw(db, run, sampler(server, timeout_s=0.2, halt_after=3), 8)
        assert (outcome.stopped, outcome.missing, outcome.lost) == ("failing", 4 * 8, 0)
        server.faults = no_faults
        assert draw(db, run, sampler(server), 8).missing == 0


def test_settings_that_leave_no_room_for_any_prompt_make_nothing_final(db: Database) -> None:
    run = start(db, "r", PROBLEMS)
    with running_server(faults=always("no_room")) as server:
        outcome = draw(db, run, sampler(server), 8)
        assert (outcome.stopped, outcome.lost) == ("settings", 0)
        assert "lower --max-tokens" in (outcome.message or "")
        server.faults = always("context_length")  # says nothing of prompt and answer
        outcome = draw(db, run, sampler(server, halt_after=3), 8)
        assert (outcome.stopped, outcome.lost) == ("settings", 0)


def test_a_dead_server_stops_the_run_and_says_why(db: Database) -> None:
    run = start(db, "r", PROBLEMS)
    with running_server(faults=always("unauthorized")) as server:
        outcome = draw(db, run, sampler(server), 64)
    assert (outcome.stopped, outcome.missing) == ("authentication", 4 * 64)
    assert "Incorrect API key" in (outcome.message or "")


def test_a_model_without_a_chat_template_is_pointed_to_raw_text(db: Database) -> None:
    run = start(db, "r", PROBLEMS)
    with running_server(faults=always("no_template")) as server:
        outcome = draw(db, run, sampler(server), 64)
    assert (outcome.stopped, outcome.missing) == ("failing", 4 * 64)
    assert "continues raw text (--raw)" in (outcome.message or "")


# Money


PRICES = PriceTable.read(spellings=[f"{MODEL}=1000,1000"])  # a cent for ten tokens


def cap(db: Database, runs: list[Run], max_usd: float) -> None:
    with db.write() as session:
        set_cap(session, [run.id for run in runs], max_usd)


@pytest.mark.slow
def test_the_cap_on_money_is_kept_over_invocations_and_runs(db: Database) -> None:
    first, second = (start(db, name, PROBLEMS, max_tokens=20, samples_per_request=1) for name in "ab")
    cap(db, [first, second], 1.0)
    with running_server() as server:
        drawing = sampler(server, prices=PRICES)
        outcome = draw(db, first, drawing, 64)
        assert outcome.stopped == "budget"
        assert outcome.missing > 0
        assert draw(db, second, drawing, 64).drawn == 0  # one cap for both
        assert draw(db, first, sampler(server, prices=PRICES), 64).drawn == 0  # over invocations
        with db.read() as session:
            spent = spent_usd(session, first.id)
        assert 0.8 <= spent <= 1.0
        cap(db, [first, second], 2.0)
        more = draw(db, first, sampler(server, prices=PRICES), 64)
        assert more.drawn > 0
        with db.read() as session:
            assert spent < spent_usd(session, first.id) <= 2.0


def test_a_cap_needs_a_price(db: Database) -> None:
    run = start(db, "r", PROBLEMS)
    cap(db, [run], 1.0)
    with running_server() as server, pytest.raises(BudgetError, match="--price"):
        draw(db, run, sampler(server), 4)
    assert server.stats["requests"] == 0
