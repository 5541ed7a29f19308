"""Runs that are killed at random moments end like undisturbed ones and pay nothing twice."""

import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import run_here
from forked import QUICK_BATCH, Forked
from postgres_cluster import Cluster
from world_runs import (
    CONCURRENCY,
    PREMISES,
    SAMPLES,
    answered_asks,
    command,
    final_state,
    import_world,
    propose_arguments,
    rows,
    stats,
    world_server,
    write_sums,
)

from service.database import Database

pytestmark = [pytest.mark.slow, pytest.mark.sqlite]

USD_PER_TOKEN = 1e-5
KILLS = 10
PRICE = f"price=[{USD_PER_TOKEN * 1e6},{USD_PER_TOKEN * 1e6}]"
Command = Callable[[str, str], list[str]]
"""Returns the words of a command, given its database and the server's address."""


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "killed.db")
        return
    cluster: Cluster = request.getfixturevalue("cluster")
    url = cluster.empty()
    yield url
    cluster.drop(url)


def evaluate(folder: Path) -> Command:
    sums = write_sums(folder / "sums.jsonl", 8)

    def words(db: str, url: str) -> list[str]:
        return [
            *("eval", "run", str(sums), "--db", db, "--model", "hosted_vllm/test-model", "--base-url", url),
            *("--n", "16", "samples_per_request=2", "max_tokens=64"),
            *(f"max_concurrency={CONCURRENCY}", PRICE),
        ]

    return words


def rephrase(folder: Path) -> Command:
    def words(db: str, url: str) -> list[str]:
        if not holds_questions(db):
            import_world(db, 4, folder / "world.jsonl")
        tokens = ("proposer.max_tokens=500", "solver.max_tokens=64")
        limits = (f"{role}.max_concurrency={CONCURRENCY}" for role in ("proposer", "solver"))
        prices = (f"proposer.{PRICE}", f"solver.{PRICE}")
        return propose_arguments(db, url, *PREMISES, *limits, *tokens, *prices)

    return words


def holds_questions(db: str) -> bool:
    return ("://" in db or Path(db).exists()) and bool(rows(db, "SELECT id FROM questions LIMIT 1"))


def state_of(make: Callable[[Path], Command], db: str) -> Any:
    return final_state(db) if make is rephrase else rows(db, SAMPLES)


def bill(url: str) -> float:
    return float(stats(url)["tokens"]) * USD_PER_TOKEN


PLACES_AND_COMMANDS = pytest.mark.parametrize(
    ("place", "make"), [("sqlite", rephrase), ("postgresql", evaluate)], indirect=["place"]
)


@pytest.mark.timeout(300)
@PLACES_AND_COMMANDS
def test_a_run_killed_up_to_ten_times_ends_as_if_undisturbed(
    make: Callable[[Path], Command], place: str, tmp_path: Path
) -> None:
    words, chance, cap, stored = make(tmp_path), random.Random(20), 0.0, 0
    calm = str(tmp_path / "calm.db")
    with world_server("--model", "test-model") as url:
        done = run_here(*words(calm, url))
        assert done.code == 0, done.err
        needed = stats(url)["paid"]
    lost: list[int] = []
    with world_server("--model", "test-model", "--latency", "0.03") as url:
        arguments = words(place, url)
        for _ in range(KILLS):
            cap += 0.05  # some are killed, others have spent their cap before
            process = Forked(*arguments, "--max-usd", f"{cap:.2f}")
            aim = stats(url)["requests"] + chance.randrange(1, needed // 5)
            while stats(url)["requests"] < aim and process.poll() is None:
                time.sleep(chance.random() * 0.02)  # the kill falls anywhere between two requests
            process.end(signal.SIGKILL)
            lost.append(stats(url)["paid"] - (stored := answered_asks(place)) - sum(lost))
            assert bill(url) <= cap
            if stored > needed * 0.7:  # a busy machine sends more between two looks
                break
        assert 0 < stored < needed
        assert len(lost) >= KILLS // 2
        done = run_here(*arguments, "--max-usd", "100")
        assert done.code == 0, done.err
        seen = stats(url)
    assert state_of(make, place) == state_of(make, calm)
    assert 0 <= min(lost) <= max(lost) <= 3 * CONCURRENCY
    assert seen["paid"] == answered_asks(place) + sum(lost)
    assert seen["paid_again"] <= sum(lost)
    assert seen["paid_distinct"] == needed


def test_a_process_that_nobody_forked_is_killed_and_resumes(tmp_path: Path) -> None:
    words, db = evaluate(tmp_path), str(tmp_path / "t.db")
    with world_server("--model", "test-model", "--latency", "0.03") as url:
        process = subprocess.Popen(
            command(*words(db, url)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while stats(url)["paid"] < 20 and process.poll() is None:
            time.sleep(0.01)
        process.kill()
        assert process.wait(10) == -signal.SIGKILL
        assert run_here(*words(db, url)).code == 0
        assert stats(url)["paid_again"] <= CONCURRENCY
    assert len(rows(db, SAMPLES)) == 8 * 16


@pytest.mark.timeout(300)
@PLACES_AND_COMMANDS
def test_two_processes_share_run_and_cap(make: Callable[[Path], Command], place: str, tmp_path: Path) -> None:
    words, calm = make(tmp_path), str(tmp_path / "calm.db")
    with world_server("--model", "test-model") as url:
        assert run_here(*words(calm, url)).code == 0
        needed, whole = stats(url)["paid"], bill(url)
    with world_server("--model", "test-model", "--latency", "0.1") as url:
        arguments = words(place, url)
        for cap in (whole / 2, 100.0):
            both = [Forked(*arguments, "--max-usd", f"{cap:.4f}") for _ in range(2)]
            ends = [process.end(timeout=240) for process in both]
            assert bill(url) <= cap
        assert [code for code, _, _ in ends] == [0, 0], ends
        seen = stats(url)
    assert state_of(make, place) == state_of(make, calm)
    assert (seen["paid"], seen["paid_again"], seen["overlaps"]) == (needed, 0, 0)


def test_a_batch_job_outlives_kills_of_its_process(place: str, tmp_path: Path) -> None:
    sums = write_sums(tmp_path / "sums.jsonl", 4)
    with world_server("--model", "test-model", "--batch-polls", "60") as url:
        arguments = [
            *("eval", "run", str(sums), "--db", place, "--model", "openai/test-model", "--base-url", url),
            *("--n", "4", "samples_per_request=2", "batch=true", "batch_poll_s=0.05"),
        ]
        for _ in range(2):  # the first one sends it, the other one finds and awaits it
            process = Forked(*arguments, code=QUICK_BATCH)
            while not stats(url)["batches"] and process.poll() is None:
                time.sleep(0.02)
            time.sleep(0.3)
            assert process.end(signal.SIGKILL)[0] == -signal.SIGKILL
        code, _, errors = Forked(*arguments, code=QUICK_BATCH).end(timeout=60)
        assert code == 0, errors
        seen = stats(url)
    assert (seen["batches"], seen["batch_lines"], seen["paid_again"]) == (1, 8, 0)
    assert len(rows(place, SAMPLES)) == 16


@pytest.mark.parametrize("make", [evaluate, rephrase])
def test_a_full_disk_ends_a_command_in_a_line_and_loses_what_was_in_flight_only(
    make: Callable[[Path], Command], tmp_path: Path
) -> None:
    words, db = make(tmp_path), tmp_path / "t.db"
    with world_server("--model", "test-model") as url:
        arguments = words(str(db), url)
        Database.open(db).close()
        process = Forked(db.stat().st_size + 2**16, *arguments, code=SMALL_FILES)
        code, _, errors = process.end(timeout=60)
        assert (code, "Traceback" in errors) == (2, False), errors
        assert "Free space on its disk" in errors
        lost = stats(url)["paid"] - answered_asks(str(db))
        assert 0 <= lost <= 3 * CONCURRENCY
        done = run_here(*arguments)
        assert done.code == 0, done.err
        assert stats(url)["paid_again"] <= lost


SMALL_FILES = """
import resource, signal, sys

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)), resource.RLIM_INFINITY))
from ui.cli.app import main
main()
"""


@pytest.mark.parametrize(("make", "number"), [(evaluate, signal.SIGINT), (rephrase, signal.SIGTERM)])
def test_a_signal_stores_what_is_in_flight(
    make: Callable[[Path], Command], number: signal.Signals, tmp_path: Path
) -> None:
    words, db = make(tmp_path), str(tmp_path / "t.db")
    with world_server("--model", "test-model", "--latency", "0.3") as url:
        arguments = words(db, url)
        process = Forked(*arguments)
        while stats(url)["in_flight"] < CONCURRENCY and process.poll() is None:
            time.sleep(0.02)
        code, _, errors = process.end(number, timeout=10)
        assert code == 128 + number, errors
        assert "Traceback" not in errors
        assert "Unclosed" not in errors
        assert answered_asks(db) == stats(url)["paid"] > 0
