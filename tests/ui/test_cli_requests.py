"""Options that say how models are asked, as they come out at the server: halts, silence, grace, seeds."""

import signal
import time

import pytest
import world
from command_line import CommandLine, words
from eval_sampling import running_server
from forked import Forked
from openai_faults import always
from world_runs import evaluate, propose_arguments, rows, stats, world_server

from ui.cli.eval.settings import Engine, EvalRequests, open_sampler

pytestmark = pytest.mark.usefixtures("six_sums")
ONE_BY_ONE = ("--max-concurrency", "1")


def test_failures_in_a_row_end_an_evaluation_where_it_is_told_to(cli: CommandLine) -> None:
    with running_server(faults=always("bad_request")) as server:
        done = cli(*evaluate(server.url, *ONE_BY_ONE, "--samples-per-request", 1, "--halt-after", 3))
    assert (done.code, sum(server.asked.values())) == (1, 3)
    assert "3 requests in a row failed, the last: Invalid value for 'temperature'" in words(done.err)


@pytest.mark.usefixtures("world_set")
def test_failures_in_a_row_end_a_run_of_neighbors_where_it_is_told_to(cli: CommandLine, db: object) -> None:
    with running_server(faults=always("bad_request")) as server:
        command = propose_arguments(db, server.url, *ONE_BY_ONE, "--halt-after", "3")  # type: ignore[arg-type]
        done = cli(*command)
        asked = {seen.body["messages"][-1]["content"] for seen in server.requests}
    assert done.code == 1
    assert len(asked) == 3
    assert "3 requests in a row failed, the last: Invalid value for 'temperature'" in words(done.err)


@pytest.mark.slow
def test_silence_is_told_with_endpoint_request_and_worker(cli: CommandLine) -> None:
    with running_server(latency_s=2.5) as server:
        done = cli(*evaluate(server.url, "--limit", 1, "--stall-after", 1))
    assert done.code == 0, done.err
    where = f"nothing came back from hosted_vllm/test-model at {server.url} for"
    assert where in words(done.err)
    assert "1 request waits, the oldest (cell 1) for" in words(done.err)
    assert "sent by process" in words(done.err)


@pytest.mark.slow
def test_sigterm_waits_no_longer_than_its_grace(cli: CommandLine) -> None:
    with world_server("--latency", "60") as url:
        process = Forked(*map(str, evaluate(url, "--grace", "0.5")))
        while stats(url)["in_flight"] < 6 and process.poll() is None:
            time.sleep(0.02)
        began = time.monotonic()
        code, _, errors = process.end(signal.SIGTERM)
    assert code == 143, errors
    assert time.monotonic() - began < 20
    assert "Traceback" not in errors


def test_no_seed_is_sent_where_none_is_wanted_and_that_is_told(cli: CommandLine) -> None:
    with running_server(answer=world.answer) as server:
        done = cli(*evaluate(server.url, "--seed", "none"))
        assert done.code == 0, done.err
        assert not any("seed" in seen.body for seen in server.requests)
        assert "no seed was sent: the same run would draw other responses" in words(done.err)
        assert rows("tagrpo.db", "SELECT DISTINCT seed FROM samples") == [(None,)]
        assert cli(*evaluate(server.url, "--seed", 3, "--name", "seeded")).code == 0
        seeds = [seen.body["seed"] for seen in server.requests[6:]]
    assert len(set(seeds)) == 6


def test_an_attempt_has_the_time_that_its_options_give() -> None:
    def seconds(**options: float) -> float:
        requests = EvalRequests(api_base=("http://localhost:1/v1",), **options)  # type: ignore[arg-type]
        return open_sampler("remote", "hosted_vllm/m", requests, Engine()).endpoint.attempt_s(1000)  # type: ignore[attr-defined, no-any-return]

    assert seconds(tokens_per_s=2) == 120 + 500
    assert seconds(tokens_per_s=20) == 120 + 50
    assert seconds(tokens_per_s=20, timeout_s=7) == 7
