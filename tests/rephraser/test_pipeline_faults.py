"""Runs that are killed, shared, capped and lied to end in the state of an undisturbed one."""

import json
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from world_runs import command, final_state, import_world, propose_arguments, stats, tagrpo, world_server

from service.database import Database
from service.runs.store import find_run

QUESTIONS = 24
CONCURRENCY = 8
KILLS = 20
PREMISES = ("--premises", "openai/test-model")  # asked at the proposer's server


def run_undisturbed(folder: Path) -> tuple[dict[str, object], int]:
    db = folder / "calm.db"
    import_world(db, QUESTIONS)
    with world_server("--model", "test-model") as url:
        done = tagrpo(*propose_arguments(db, url, *PREMISES))
        assert done.returncode == 0, done.stderr
        seen = stats(url)
    assert seen["overlaps"] == 0
    return final_state(db), seen["paid"]


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], int]:
    """Return the final state of an undisturbed run and the number of its requests."""
    return run_undisturbed(tmp_path_factory.mktemp("calm"))


def test_an_undisturbed_run_accepts_good_and_never_broken_candidates(
    calm: tuple[dict[str, object], int],
) -> None:
    state, paid = calm
    assert len(state["cells"]) == paid  # one request a cell
    verdicts = {}
    for candidate, status, _, _, final, _ in state["verdicts"]:
        if final:
            verdicts[candidate] = status
    texts = {candidate_id_of(row): row[4] for row in state["proposals"]}
    accepted = [texts[candidate] for candidate, status in verdicts.items() if status == "accepted"]
    assert len(accepted) >= 2 * QUESTIONS
    assert not [text for text in accepted if "gives away" in text]


def candidate_id_of(row: tuple[object, ...]) -> str:
    from rephraser.proposing.candidate_ids import candidate_id

    return candidate_id(str(row[0]), str(row[4]))


@pytest.mark.timeout(900)
def test_a_run_killed_twenty_times_ends_as_if_undisturbed(
    calm: tuple[dict[str, object], int], tmp_path: Path
) -> None:
    undisturbed, _ = calm
    db = tmp_path / "killed.db"
    import_world(db, QUESTIONS)
    chance = random.Random(20)
    lost: list[int] = []
    with world_server("--model", "test-model", "--latency", "0.03") as url:
        arguments = propose_arguments(db, url, *PREMISES, "--max-concurrency", str(CONCURRENCY))
        for _ in range(KILLS):
            process = subprocess.Popen(
                command(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            seen_before = stats(url)["requests"]
            more = chance.randrange(1, 40)
            while stats(url)["requests"] < seen_before + more and process.poll() is None:
                time.sleep(chance.random() * 0.02)  # the kill falls anywhere between two requests
            process.send_signal(signal.SIGKILL)
            process.wait(10)
            lost.append(stats(url)["paid"] - filled_cells(db) - sum(lost))
        done = tagrpo(*arguments)
        assert done.returncode == 0, done.stderr
        seen = stats(url)
    assert final_state(db) == undisturbed
    # Paid and lost at each kill: at most what was in flight, at the models of proposer, solver and premises.
    assert max(lost) <= 3 * CONCURRENCY
    assert seen["paid"] <= len(undisturbed["cells"]) + sum(lost)
    assert seen["paid_distinct"] == len(undisturbed["cells"])


@pytest.mark.timeout(300)
def test_two_processes_share_a_run_without_asking_anything_twice(
    calm: tuple[dict[str, object], int], tmp_path: Path
) -> None:
    undisturbed, paid = calm
    db = tmp_path / "shared.db"
    import_world(db, QUESTIONS)
    with world_server("--model", "test-model", "--latency", "0.05") as url:
        arguments = propose_arguments(db, url, *PREMISES, "--max-concurrency", "4")
        both = [
            subprocess.Popen(
                command(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
            for _ in range(2)
        ]
        ends = [process.communicate(timeout=240) for process in both]
        seen = stats(url)
    assert [process.returncode for process in both] == [0, 0], ends
    assert final_state(db) == undisturbed
    assert seen["paid"] == paid
    assert seen["max_in_flight"] > 4  # both were at work


@pytest.mark.timeout(300)
def test_a_server_that_misbehaves_changes_nothing_but_the_time(
    calm: tuple[dict[str, object], int], tmp_path: Path
) -> None:
    undisturbed, _ = calm
    db = tmp_path / "faults.db"
    import_world(db, QUESTIONS)
    shares = {
        "rate_limit": 0.05,
        "server_error": 0.03,
        "cut": 0.03,
        "cut_early": 0.02,
        "invalid_json": 0.03,
        "empty_choices": 0.03,
        "wrong_type": 0.02,
        "hang": 0.01,
    }
    faults = [f"--fault={name}={share}" for name, share in shares.items()]
    with world_server("--model", "test-model", "--retry-after", "0.1", *faults) as url:
        done = tagrpo(*propose_arguments(db, url, *PREMISES, "--timeout", "2"), timeout=280)
        seen = stats(url)
    assert done.returncode == 0, done.stderr
    assert final_state(db) == undisturbed
    assert set(seen["faults"]) == set(shares)


@pytest.mark.timeout(300)
def test_a_run_stops_at_its_cap_and_goes_on_with_a_higher_one(
    calm: tuple[dict[str, object], int], tmp_path: Path
) -> None:
    undisturbed, paid = calm
    db = tmp_path / "capped.db"
    import_world(db, QUESTIONS)
    prices = ["--price", "openai/test-model=10,30", "--price", "hosted_vllm/test-model=1,1"]
    with world_server("--model", "test-model") as url:
        capped = tagrpo(*propose_arguments(db, url, *PREMISES, *prices, "--max-usd", "0.25"))
        assert capped.returncode == 1
        assert "--max-usd 0.25" in capped.stderr
        spent = spent_usd(db)
        at_the_cap = stats(url)
        done = tagrpo("neighbors", "resume", "run", "--db", str(db), *both(url), *prices, "--max-usd", "9")
        assert done.returncode == 0, done.stderr
        seen = stats(url)
    assert 0.05 < spent <= 0.25
    assert at_the_cap["paid"] < paid
    assert seen["paid"] == paid
    assert final_state(db) == undisturbed


@pytest.mark.timeout(300)
def test_batch_jobs_end_in_the_same_state_at_half_the_price_even_when_killed(
    calm: tuple[dict[str, object], int], tmp_path: Path
) -> None:
    undisturbed, paid = calm
    db = tmp_path / "batch.db"
    import_world(db, QUESTIONS)
    prices = ["--price", "openai/test-model=10,30", "--price", "hosted_vllm/test-model=0,0"]
    with world_server("--model", "test-model", "--batch-polls", "3") as url:
        arguments = propose_arguments(db, url, *PREMISES, *prices, "--batch", "--batch-poll", "0.3")
        process = subprocess.Popen(command(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while stats(url)["batches"] == 0 and process.poll() is None:
            time.sleep(0.02)
        process.kill()
        process.wait(10)
        direct = tagrpo(*(word for word in arguments if word != "--batch"))
        assert direct.returncode == 1, direct.stderr
        assert "wait in a batch job" in direct.stderr
        assert run_finished(db) is None
        done = tagrpo(*arguments)
        assert done.returncode == 0, done.stderr
        seen = stats(url)
    assert final_state(db) == undisturbed
    assert seen["paid"] == paid
    # The proposer goes by batch jobs; a vLLM server has none and is asked directly.
    assert seen["batch_lines"] == sum(cell[1] != "answer" for cell in undisturbed["cells"])
    (line,) = [line for line in ledger(db) if line["kind"] == "propose"]
    full = (line["prompt_tokens"] * 10 + line["completion_tokens"] * 30) / 1e6
    assert line["usd"] == pytest.approx(full / 2)


def run_finished(db: Path) -> str | None:
    with Database.open(db, read_only=True) as database, database.read() as session:
        return find_run(session, "run").finished_at


def filled_cells(db: Path) -> int:
    with Database.open(db, read_only=True) as database, database.read() as session:
        return int(session.execute(text("SELECT count(*) FROM cells WHERE state = 'filled'")).scalar_one())


def both(url: str) -> list[str]:
    return ["--api-base", url, "--solver-api-base", url]


def ledger(db: Path) -> list[dict[str, Any]]:
    shown = tagrpo("runs", "show", "run", "--db", str(db), "--json")
    lines: list[dict[str, Any]] = json.loads(shown.stdout)["ledger"]
    return lines


def spent_usd(db: Path) -> float:
    return float(sum(line["usd"] for line in ledger(db)))


def test_an_unknown_price_with_a_cap_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    db = tmp_path / "t.db"
    import_world(db, 2)
    with world_server("--model", "test-model") as url:
        done = tagrpo(*propose_arguments(db, url, "--max-usd", "1"))
        assert done.returncode == 2
        assert "--price" in done.stderr
        assert stats(url)["requests"] == 0


def test_no_key_reaches_the_database_or_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789abcdef")
    db = tmp_path / "t.db"
    import_world(db, 2)
    with world_server("--model", "test-model", "--fault", "unauthorized=1") as url:
        done = tagrpo(*propose_arguments(db, url))
    assert done.returncode != 0
    assert "sk-secret" not in done.stdout + done.stderr
    for path in tmp_path.iterdir():
        assert b"sk-secret" not in path.read_bytes()
