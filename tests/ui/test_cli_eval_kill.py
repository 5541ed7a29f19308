"""Eval runs that are killed, interrupted or shared by two processes end with the same samples."""

import signal
import time
from pathlib import Path

import pytest
from command_line import CommandLine
from forked import Forked
from world_runs import SAMPLES, rows, stats, world_server, write_sums

from service.database import Database

PROBLEMS, N = 12, 16
REQUESTS = PROBLEMS * N // 2


@pytest.fixture
def cli(cli: CommandLine) -> CommandLine:
    write_sums(Path("sums.jsonl"), PROBLEMS)
    return cli


def arguments(db: str, url: str) -> list[str]:
    return [
        *("eval", "run", "sums.jsonl", "--db", db, "--model", "hosted_vllm/test-model", "--base-url", url),
        *("--n", str(N), "samples_per_request=2", "max_concurrency=4"),
    ]


@pytest.mark.slow
def test_killed_again_and_again_a_run_ends_with_the_same_samples(cli: CommandLine) -> None:
    with world_server("--latency", "0.05") as url:
        assert cli(*arguments("calm.db", url)).code == 0
        expected, before = rows("calm.db", SAMPLES), stats(url)["requests"]
        assert (len(expected), before) == (PROBLEMS * N, REQUESTS)
        for wait_for in (5, 50):
            process = Forked(*arguments("killed.db", url))
            while stats(url)["requests"] - before < wait_for and process.poll() is None:
                time.sleep(0.02)
            assert process.end(signal.SIGKILL)[0] == -signal.SIGKILL
        done = cli(*arguments("killed.db", url))
        assert done.code == 0, done.err
        assert stats(url)["requests"] - before <= REQUESTS + 2 * 4  # what was in flight is asked again
    assert rows("killed.db", SAMPLES) == expected
    assert rows("killed.db", "SELECT count(*) FROM sample_texts") == [(PROBLEMS * N,)]


@pytest.mark.slow
def test_a_signal_stores_what_is_in_flight(cli: CommandLine) -> None:
    with world_server("--latency", "0.1") as url:
        for number, code, word in (
            (signal.SIGINT, 130, "interrupted"),
            (signal.SIGTERM, 143, "terminated"),
        ):
            process = Forked(*arguments("t.db", url))
            while stats(url)["in_flight"] < 4 and process.poll() is None:
                time.sleep(0.02)
            ended, out, errors = process.end(number)
            assert (ended, out) == (code, "")
            assert f"{word}; run the same command again" in errors
            assert "Traceback" not in errors
            assert rows("t.db", "SELECT count(*) FROM samples") == [(2 * stats(url)["paid"],)]
        assert cli(*arguments("t.db", url)).code == 0
        assert (stats(url)["paid"], stats(url)["paid_again"]) == (REQUESTS, 0)


@pytest.mark.slow
def test_two_processes_share_a_run(cli: CommandLine) -> None:
    Database.open("t.db").close()
    with world_server("--latency", "0.1") as url:
        both = [Forked(*arguments("t.db", url)) for _ in range(2)]
        ends = [process.end() for process in both]
        assert [code for code, _, _ in ends] == [0, 0], ends
        found = stats(url)
    assert (found["paid"], found["paid_again"], found["overlaps"]) == (REQUESTS, 0, 0)
    places = [(place, ordinal) for place in range(PROBLEMS) for ordinal in range(N)]
    samples = rows("t.db", SAMPLES)
    assert [row[:2] for row in samples] == places
    assert all(grade for _, _, _, _, grade, _ in samples)
