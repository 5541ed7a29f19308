"""Several servers on the command line: `--base-url` repeated, in files, kept by a run, and one that dies."""

import json
import os
import signal
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from command_line import words
from forked import Forked
from world_runs import MODEL, SAMPLES, rows, stats, world_server, write_sums

pytestmark = pytest.mark.slow
SAME = ("--version", "0.11.0", "--max-model-len", "8192")


@contextmanager
def two_servers(*arguments: str) -> Iterator[tuple[str, str]]:
    with world_server(*SAME, *arguments) as first, world_server(*SAME, *arguments) as second:
        yield first, second


def bases(*urls: str) -> list[str]:
    return [word for url in urls for word in ("--base-url", url)]


def evaluate(*urls: str, n: int = 8, db: str = "tagrpo.db") -> list[object]:
    return [
        *("eval", "run", "sums.jsonl", "--db", db, "--model", MODEL, "--n", n, *bases(*urls)),
        *("samples_per_request=2", "max_concurrency=4"),
    ]


def paid(*urls: str) -> "Counter[str]":
    """Return how often each request was paid, at all servers together."""
    counts: Counter[str] = Counter()
    for url in urls:
        with urllib.request.urlopen(url.removesuffix("/v1") + "/stats?keys", timeout=10) as response:
            counts.update(json.load(response)["paid_by_key"])
    return counts


def test_two_servers_draw_what_one_would_and_share_it(cli, six_sums):
    with two_servers("--latency", "0.02") as urls:
        cli.ok(*evaluate(urls[0], db="alone.db"))
        before = stats(urls[0])["requests"]
        cli.ok(*evaluate(*urls))
        shares = (stats(urls[0])["requests"] - before, stats(urls[1])["requests"])
    assert sum(shares) == 6 * 4
    assert min(shares) >= 6
    assert rows("tagrpo.db", SAMPLES) == rows("alone.db", SAMPLES)
    # The address decides nothing: the same run goes on at other servers.
    ((spec,),) = rows("tagrpo.db", "SELECT spec FROM runs")
    assert "127.0.0.1" not in str(spec)
    with two_servers() as urls:
        cli.ok(*evaluate(*urls, n=16))
        cli.ok("resume", "test-model.sums")
    assert "no server answers" in cli.refused("resume", "test-model.sums")
    with world_server(*SAME) as url:  # one address in place of both
        cli.ok("resume", "test-model.sums", f"base_url={url}")


def test_a_server_that_is_killed_costs_no_sample(cli, tmp_path):
    write_sums(tmp_path / "sums.jsonl", 12)
    with two_servers("--latency", "0.1") as urls:
        cli.ok(*evaluate(urls[0], n=16, db="calm.db"))
        before = paid(urls[0])
        running = Forked(*evaluate(*urls, n=16))
        while stats(urls[1])["paid"] < 12 and running.poll() is None:
            time.sleep(0.02)
        dead = paid(urls[1])
        os.kill(stats(urls[1])["pid"], signal.SIGKILL)
        code, _, errors = running.end()
        assert code == 0, errors
        counts = paid(urls[0]) - before
    assert f"{urls[1]} is paused and retried periodically" in words(errors)
    assert "Traceback" not in errors
    assert rows("tagrpo.db", SAMPLES) == rows("calm.db", SAMPLES)
    assert rows("tagrpo.db", "SELECT count(*) FROM sample_texts") == [(12 * 16,)]
    twice = set(counts) & set(dead)
    assert len(twice) <= 4  # what was in flight there
    assert set(counts) | set(dead) == set(before)


def test_what_differs_is_one_line_before_anything_is_stored(cli, six_sums):
    with world_server(*SAME) as first, world_server("--version", "0.12.0") as second:
        assert f"{second} differs from the other servers: version 0.12.0 instead of 0.11.0." in cli.refused(
            *evaluate(first, second)
        )
        assert stats(first)["requests"] == stats(second)["requests"] == 0
    assert not rows("tagrpo.db", "SELECT * FROM runs")
    assert "http://localhost:1/v1 appears twice" in cli.refused(
        *evaluate("http://localhost:1/v1", "http://localhost:1/v1/")
    )
    batch = ("eval", "run", "sums.jsonl", "--model", "openai/m", "batch=true", "--dry-run")
    cli.ok(*batch, *bases("http://localhost:1/v1", "http://localhost:2/v1"))


def test_doctor_looks_at_each_server_and_at_all_of_them(cli):
    with world_server(*SAME) as first, world_server("--version", "0.12.0") as second:
        done = cli.warned("doctor", "--model", MODEL, *bases(first, second))
        text = words(done.out)
        assert f"server {first}" in text
        assert f"server {second}" in text
        assert "version 0.12.0 instead of 0.11.0" in text
        cli.ok("doctor", "--model", MODEL, *bases(first))
