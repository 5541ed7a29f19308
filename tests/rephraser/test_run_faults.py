"""Runs that are killed, shared, capped and lied to end in the state of an undisturbed one."""

import json
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import world_runs
from command_line import Done, run_here, words
from forked import QUICK_BATCH, Forked
from scripted import GOOD, QUESTION
from sqlalchemy import select
from tiny_model import save_tiny_model

from service.asks import ask
from service.asks.ask import Models
from service.asks.batch import BatchJobs
from service.asks.tables import TaskRow
from service.database import Database
from service.runs.store import find_run

QUESTIONS = 8
KILLED = """
import os, signal, sys
from service.asks import store

place, left = sys.argv.pop(1), int(sys.argv.pop(1))
end, handle = store.end, store.Store._handle

def die_at(reached):
    if reached == place and left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)

def end_or_die(session, ended):
    global left
    left -= 1
    die_at("before the commit")
    done = end(session, ended)
    die_at("in the commit")
    return done

def handle_or_die(*arguments, write):
    done = handle(*arguments, write=write)
    if write:
        die_at("after the commit")
    return done

store.end, store.Store._handle = end_or_die, handle_or_die
from ui.cli.app import main
main()
"""


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    return world_runs.run_undisturbed(tmp_path_factory.mktemp("calm"), QUESTIONS)


@pytest.fixture
def db(tmp_path):
    """The database of a test, with questions of the small world."""
    world_runs.import_world(tmp_path / "t.db", QUESTIONS)
    return tmp_path / "t.db"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_run_killed_before_in_and_after_a_commit_ends_as_if_undisturbed(calm, db):
    undisturbed, _ = calm
    lost: list[int] = []
    with world_runs.world_server("--model", "test-model") as url:
        arguments = world_runs.propose_arguments(
            db,
            url,
            *world_runs.PREMISES,
            f"proposer.max_concurrency={world_runs.CONCURRENCY}",
            f"solver.max_concurrency={world_runs.CONCURRENCY}",
        )
        # The second store of the first process is of proposals, later ones are of answers and premises.
        for place, store in (("before the commit", 2), ("in the commit", 4), ("after the commit", 4)):
            code, _, errors = Forked(place, store, *arguments, code=KILLED).end()
            assert code == -signal.SIGKILL, errors
            lost.append(world_runs.stats(url)["paid"] - world_runs.answered_asks(db) - sum(lost))
        done = run_here(*arguments)
        assert done.code == 0, done.err
        seen = world_runs.stats(url)
    world_runs.check_loss(undisturbed, world_runs.final_state(db), lost, seen)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_server_that_misbehaves_changes_nothing_but_the_time(calm, db, monkeypatch):
    monkeypatch.setattr(ask, "TIME_OUTS", 6)
    init = Models.__init__
    monkeypatch.setattr(Models, "__init__", lambda self, *a, **k: init(self, *a, **{**k, "retry_s": 0.02}))
    undisturbed, _ = calm
    names = ("server_error", "cut", "cut_early", "invalid_json", "empty_choices", "wrong_type")
    shares = dict.fromkeys(names, 0.03) | {"rate_limit": 0.05, "hang": 0.02}
    faults = [f"--fault={name}={share}" for name, share in shares.items()]
    with world_runs.world_server("--model", "test-model", "--retry-after", "0.1", *faults) as url:
        done = run_here(
            *world_runs.propose_arguments(
                db, url, *world_runs.PREMISES, "proposer.timeout_s=1", "solver.timeout_s=1"
            )
        )
        seen = world_runs.stats(url)
    assert done.code == 0, done.err
    assert world_runs.final_state(db) == undisturbed
    assert set(seen["faults"]) == set(shares)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_run_stops_at_its_cap_and_goes_on_with_a_higher_one(calm, db):
    undisturbed, paid = calm
    prices = ["proposer.price=[10,30]", "solver.price=[1,1]"]
    with world_runs.world_server("--model", "test-model") as url:
        capped = run_here(
            *world_runs.propose_arguments(db, url, *world_runs.PREMISES, *prices, "--max-usd", "0.25")
        )
        assert capped.code == 3
        assert "--max-usd 0.25" in capped.err
        assert f"`tagrpo resume run max_usd=MORE --db {db}`" in capped.err
        assert 0.03 < sum(line["usd"] for line in ledger(db)) <= 0.25
        assert world_runs.stats(url)["paid"] < paid
        done = run_here("resume", "run", "--db", db, *prices, "max_usd=9")
        assert done.code == 0, done.err
        assert world_runs.stats(url)["paid"] == paid
    assert world_runs.final_state(db) == undisturbed


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_at_the_cap_what_was_paid_for_is_judged_where_the_solver_costs_nothing(db):
    prices = ["proposer.price=[10,30]", "solver.price=[0,0]"]
    with world_runs.world_server("--model", "test-model") as url:
        arguments = world_runs.propose_arguments(db, url, *prices, "--max-usd", "0.17")
        capped = run_here(*arguments)
        assert (capped.code, "of --max-usd 0.17 is spent" in capped.err) == (3, True), capped.err
        unread = "SELECT count(*) FROM asks WHERE outcome IS NULL AND kind = 'propose' AND state = 'answered'"
        unanswered = "SELECT count(*) FROM asks WHERE state <> 'answered' AND kind = 'answer'"
        standing = dict(world_runs.rows(db, "SELECT status, count(*) FROM standings GROUP BY status"))
        assert world_runs.rows(db, unread) == world_runs.rows(db, unanswered) == [(0,)]
        assert standing.get("accepted", 0) > 0, standing
        assert "pending" not in standing
        paid = world_runs.stats(url)["paid"]
        assert run_here(*arguments).code == 3
        assert world_runs.stats(url)["paid"] == paid


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_was_in_flight_at_a_kill_counts_under_the_cap_that_the_run_keeps(db):
    priced = ["proposer.price=[10,30]", "solver.price=[1,1]"]
    with world_runs.world_server("--model", "test-model", "--fault=hang=1") as url:
        arguments = world_runs.propose_arguments(db, url, *priced, "--max-usd", "0.4")
        process = Forked(*arguments)
        while world_runs.stats(url)["in_flight"] < 2 and process.poll() is None:  # the cap allows for two
            time.sleep(0.02)
        process.end(signal.SIGKILL)
        world_runs.set_faults(url, {})
        kept = run_here(*world_runs.propose_arguments(db, url, *priced))
        assert "run keeps its cap of $0.4" in kept.err
        assert "of --max-usd 0.4 is spent" in kept.err
        assert world_runs.stats(url)["requests"] == 2
        (line,) = ledger(db)
        assert (line["requests"], line["usd"]) == (2, line["doubtful_usd"])
        assert 0.24 < line["usd"] < 0.4
        done = run_here("resume", "run", "max_usd=9", "--db", str(db))
        assert done.code == 0, done.err
        assert "run: the cap changes from $0.4 to $9" in done.err


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_batch_jobs_end_in_the_same_state_at_half_the_price_even_when_sigterm_comes(calm, db, monkeypatch):
    monkeypatch.setitem(BatchJobs.__init__.__kwdefaults__, "quiet_s", 0.3)
    undisturbed, paid = calm
    prices = ["proposer.price=[10,30]", "solver.price=[0,0]"]
    with world_runs.world_server("--model", "test-model", "--batch-polls", "3") as url:
        arguments = world_runs.propose_arguments(
            db, url, *world_runs.PREMISES, *prices, "proposer.batch=true", "proposer.batch_poll_s=0.05"
        )
        waiting = [*arguments[:-1], "proposer.batch_poll_s=600", "grace_s=200"]
        process = Forked(*waiting, code=QUICK_BATCH)
        while world_runs.stats(url)["batches"] == 0 and process.poll() is None:
            time.sleep(0.02)
        # It waits for the job, which goes on without it.
        began = time.monotonic()
        code, _, errors = process.end(signal.SIGTERM)
        assert (code, "terminated; run the same" in errors) == (143, True), errors
        assert time.monotonic() - began < 100
        direct = run_here(*(word for word in arguments if word != "proposer.batch=true"))
        assert direct.code == 3, direct.err
        assert "in a batch job: resume with batch=true" in direct.out
        with Database.open(db, read_only=True) as database, database.read() as session:
            assert find_run(session, "run").finished_at is None
            assert set(session.scalars(select(TaskRow.error))) == {None}
        done = run_here(*arguments)
        assert done.code == 0, done.err
        seen = world_runs.stats(url)
    assert world_runs.final_state(db) == undisturbed
    assert seen["paid"] == paid
    # The proposer goes by batch jobs; a vLLM server has none and is asked directly.
    assert seen["batch_lines"] == sum(ask[1] != "answer" for ask in undisturbed["asks"])
    (line,) = [line for line in ledger(db) if line["kind"] == "propose"]
    full = (line["prompt_tokens"] * 10 + line["completion_tokens"] * 30) / 1e6
    assert line["usd"] == pytest.approx(full / 2)


def ledger(db: Path) -> list[dict[str, Any]]:
    return json.loads(run_here("runs", "show", "run", "--db", db, "--json").out)["ledger"]


def test_no_key_reaches_the_database_or_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789abcdef")
    db = tmp_path / "t.db"
    world_runs.import_world(db, 2)
    with world_runs.world_server("--model", "test-model", "--fault", "unauthorized=1") as url:
        done = run_here(*world_runs.propose_arguments(db, url))
    assert done.code != 0
    assert "sk-secret" not in done.out + done.err
    for path in tmp_path.iterdir():
        assert b"sk-secret" not in path.read_bytes()


def propose(db: Path, solver: Path) -> Done:
    return run_here(
        *("rephrase", "run", "q", "--name", "run", "--db", db, "--n", "1", "--solver", solver),
        *("proposer=file", f"proposer.candidates={db.parent / 'c.jsonl'}", "solver.device=cpu"),
        *("solver.preset=plain", "solver.max_tokens=16"),
    )


@pytest.mark.slow
def test_another_checkpoint_in_the_folder_is_refused(tmp_path):
    torch.set_num_threads(1)
    db, folder = tmp_path / "t.db", save_tiny_model(tmp_path / "solver")
    for name, row in (
        ("q", {"problem": QUESTION.text, "answer": QUESTION.answer}),
        ("c", {"question": QUESTION.text, "candidate": GOOD[0]}),
    ):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row))
    assert run_here("questions", "import", tmp_path / "q.jsonl", "--name", "q", "--db", db).code == 0
    done = propose(db, folder)
    assert done.code == 0, done.err
    ((stored,),) = world_runs.rows(db, "SELECT CAST(spec AS TEXT) FROM runs")
    (described,) = json.loads(stored)["solvers"]
    assert described["model"] == str(folder)
    assert described["engine"]["weights"].startswith("weights_")
    asked, cost = world_runs.rows(db, "SELECT count(*), sum(cost_pico) FROM asks")[0]
    assert (asked >= 32 // 4, cost) == (True, 0)  # four answers per request
    before = world_runs.final_state(db)
    save_tiny_model(folder, seed=1)
    for again in (propose(db, folder), run_here("resume", "run", "--db", db)):
        assert again.code == 2
        assert "run 'run' exists with other settings: solvers.1.engine." in words(again.err)
    shutil.rmtree(folder)
    gone = run_here("resume", "run", "--db", db)
    assert (gone.code, str(folder) in gone.err) == (2, True)
    assert world_runs.final_state(db) == before
