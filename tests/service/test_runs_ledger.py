"""The cap of a run on disk: kept by all its processes together, through repeated attempts and lost bills."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from capped_runs import COUNT, USED, WORST, account, fill, make_run
from openai_faults import Fault, FaultPlan, always, for_text, no_faults, random_faults
from openai_server import OpenAIServer

from service.database import Database
from service.errors import DatabaseError
from service.models.remote import RemoteClient
from service.runs import cells
from service.runs.ledger import RunLedger
from service.runs.spending import Account, read_ledger, set_cap


@pytest.mark.parametrize("faults", [no_faults, random_faults({"cut": 0.2, "invalid_json": 0.2}, at_most=9)])
async def test_two_processes_at_once_keep_one_cap(db: Database, faults: FaultPlan) -> None:
    cap = 6.5 * WORST
    run = make_run(db, cap)
    most = 0.0

    async def watch() -> None:
        nonlocal most
        while True:
            seen = account(db, run)
            most = max(most, seen.spent_usd + seen.reserved_usd)
            await asyncio.sleep(0.002)

    async with OpenAIServer(faults=faults, latency_s=0.005) as server:
        watching = asyncio.create_task(watch())
        filled = await asyncio.gather(*(fill(db, run, server, process) for process in (1, 2)))
        watching.cancel()
        assert USED * server.stats["paid"] <= account(db, run).spent_usd
        assert most <= cap + 1e-9
        filled = list(filled)
    left = account(db, run)
    assert left.reserved_usd == 0.0
    assert left.spent_usd <= cap
    answered = sum(process.answered for process in filled)
    assert answered == COUNT or "budget" in {process.stopped for process in filled}
    if faults is no_faults:
        assert left.spent_usd == pytest.approx(answered * USED)


async def test_attempts_whose_bill_is_lost_add_up_under_the_cap(db: Database) -> None:
    """Three attempts that are cut would cost three worst cases; the cap allows for two."""
    run = make_run(db, 2.5 * WORST)

    async with OpenAIServer(faults=always("cut")) as server:
        filled = await fill(db, run, server, 1)
        assert server.stats["paid"] == 2
    assert filled.stopped == "budget"
    assert account(db, run) == Account(2.5 * WORST, pytest.approx(2 * WORST), 0.0)
    with db.read() as session:
        assert sum(line.doubtful_usd for line in read_ledger(session, run.id)) == pytest.approx(2 * WORST)


async def test_an_attempt_that_is_not_billed_takes_nothing_more(db: Database) -> None:
    run = make_run(db, 1.5 * WORST)

    faults = for_text("question 10", "rate_limit", "server_error")
    async with OpenAIServer(faults=faults) as server:
        filled = await fill(db, run, server, 1)
    assert filled.failed == 0
    assert account(db, run).spent_usd == pytest.approx(filled.answered * USED)


async def test_what_was_reserved_and_never_sent_is_given_back(db: Database) -> None:
    run = make_run(db, 100.0)

    async with OpenAIServer() as server:
        filled = await fill(db, run, server, 1, max_requests=3)
    assert filled.answered == 3
    assert account(db, run) == Account(100.0, pytest.approx(3 * USED), 0.0)


async def test_an_interrupt_gives_back_what_waits_for_a_pause_of_the_server(db: Database) -> None:
    run = make_run(db, 100.0)
    at_work: list[tuple[RemoteClient, RunLedger]] = []

    async def interrupt(server: OpenAIServer) -> None:
        while not (server.met["rate_limit"] and at_work and len(at_work[0][1]._held) >= 2):
            await asyncio.sleep(0)
        at_work[0][0].interrupt()

    async with OpenAIServer(faults=always(Fault("rate_limit", "0.3"))) as server:
        stopping = asyncio.create_task(interrupt(server))
        filled = await fill(db, run, server, 1, began=lambda *pair: at_work.append(pair))
        await stopping
        paid = server.stats["paid"]
    assert (filled.stopped, filled.answered, paid) == ("interrupted", 0, 0)
    assert account(db, run) == Account(100.0, 0.0, 0.0)


async def test_a_database_that_takes_nothing_stops_all_who_wait_and_none_for_ever(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(db, 100.0)

    @contextmanager
    def full() -> Iterator[None]:
        raise DatabaseError("database or disk is full")
        yield

    ledger = RunLedger(db, run.id)
    with monkeypatch.context() as patched:
        patched.setattr(db, "write", full)
        refused = await asyncio.gather(
            *(ledger.reserve(cell, 1.0) for cell in (1, 2)), return_exceptions=True
        )
    result = [*map(str, refused), await ledger.reserve(1, 1.0)]
    assert result == ["database or disk is full"] * 2 + [True]


async def test_a_lower_cap_holds_at_once_for_processes_at_work(db: Database) -> None:
    run = make_run(db, 100.0)

    async def ledger_refuses(ledger: RunLedger) -> bool:
        asking = asyncio.create_task(ledger.reserve(2, 1.0))
        while not ledger._hoping:
            await asyncio.sleep(0)
        ledger.settled([1])
        return await asking

    with db.write() as session:
        cells.claim_cells(session, run.id, run.id, owner="a|1|1|t", limit=2)
    ledger = RunLedger(db, run.id)
    before = await ledger.reserve(1, 1.0)
    with db.write() as session:
        set_cap(session, [run.id], 1.5)
    reserved = [before, await asyncio.wait_for(ledger_refuses(ledger), 5)]
    assert reserved == [True, False]
