"""Every answer is paid once, stored before it is used, and kept; the cap holds at every moment; signals."""

import asyncio
import logging
import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from asking import PRICE, VLLM, ScriptedEndpoint, committed, make_run, open_asker, question, states
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from service.asks import ask as module
from service.asks import request as kinds
from service.asks import store as rows
from service.asks import work as working
from service.asks.ask import Asker, Failed, Models, Outcome
from service.asks.money import Price, cost_pico, worst_pico
from service.asks.store import SILENT_S
from service.asks.tables import AskRow, TaskRow, WorkerRow
from service.asks.work import work_on_run
from service.database import Database
from service.errors import DatabaseError
from service.models.access import Budget
from service.runs.progress import read_ledger, set_cap
from service.runs.store import Run
from service.stopping import exit_on_sigterm, finish_on_signals

RETRY_S = 0.001
USED = cost_pico(PRICE, 4, 4) or 0
WORST = worst_pico(question(), PRICE) or 0
ELSEWHERE = "another-boot|namespace|far|1|1"
"""A process of another machine, as `workers` names it."""


def asking(db: Database, run: Run, *endpoints: ScriptedEndpoint) -> AbstractAsyncContextManager[Asker]:
    """Give an asker as a process of its own has it."""
    return open_asker(db, run, Models({each.model: each for each in endpoints}, retry_s=RETRY_S))


async def ask_item(asker: Asker, item: str) -> None:
    await asker.ask(question(int(item)))


def work(
    db: Database,
    run: Run,
    endpoint: ScriptedEndpoint,
    one: working.Work = ask_item,
    report: Callable[[int, int, str], None] = lambda *_: None,
    **options: Any,
) -> Outcome:
    """Ask one question per open task, as a process of its own does."""

    models = Models({VLLM: endpoint}, **{"retry_s": RETRY_S} | options)
    return asyncio.run(work_on_run(db, run.id, one, models, report))


def task_states(db: Database, run: Run) -> dict[str, int]:
    with db.read() as session:
        return rows.count_tasks(session, run.id)


def spent(db: Database, run: Run) -> tuple[int, int, int]:
    """Return a run's attempts, picodollars and doubtful ones; the ledger has the sums of the asks."""
    with db.read() as session:
        lines = read_ledger(session, run.id)
        ended = AskRow.run_id == run.id, AskRow.state != "sent"
        cost = func.sum(func.coalesce(AskRow.cost_pico, AskRow.worst_pico, 0))
        stored = session.execute(select(func.count(), func.coalesce(cost, 0)).where(*ended)).one()
    requests = sum(line.requests for line in lines)
    usd, doubtful = sum(line.usd for line in lines), sum(line.doubtful_usd for line in lines)
    assert tuple(stored) == (requests, round(usd * 1e12))
    return requests, round(usd * 1e12), round(doubtful * 1e12)


# Asking


async def test_an_answer_is_paid_once_and_replayed(db):
    run, endpoint = make_run(db), ScriptedEndpoint()
    async with asking(db, run, endpoint) as asker:
        answer = await asker.ask(question(n=2))
    async with asking(db, run, endpoint) as later:
        assert await later.ask(question(n=2)) == answer
    assert [choice.text for choice in answer.choices] == ["seed 2"] * 2
    assert (answer.prompt_tokens, answer.completion_tokens, answer.model) == (4, 4, "test-model")
    assert answer.seeded
    assert len(endpoint.sent) == 1
    assert spent(db, run) == (1, USED, 0)


async def test_equal_requests_at_once_are_sent_once(db, monkeypatch):
    monkeypatch.setattr(module, "ELSEWHERE_POLL_S", 0.01)
    run, endpoint = make_run(db), ScriptedEndpoint(latency_s=0.02)
    async with asking(db, run, endpoint) as asker, asking(db, run, endpoint) as other:
        answers = await asyncio.gather(*(each.ask(question()) for each in (asker, asker, other, other)))
    assert len({answer.ask_id for answer in answers}) == 1
    assert len(endpoint.sent) == 1


async def test_runs_share_answers_of_a_scope_and_the_first_pays(db):
    first, second, endpoint = make_run(db, "a"), make_run(db, "b"), ScriptedEndpoint()
    async with asking(db, first, endpoint) as one, asking(db, second, endpoint) as two:
        assert (await one.ask(question())).ask_id == (await two.ask(question())).ask_id
        private = [await each.ask(question(scope=each.run_id)) for each in (one, two)]
    assert private[0].ask_id != private[1].ask_id
    assert (spent(db, first)[0], spent(db, second)[0]) == (2, 1)


async def test_what_may_differ_at_a_replay_is_computed_once(db):
    run, computed = make_run(db), list[int]()

    async def compute() -> dict[str, int]:
        computed.append(len(computed))
        return {"value": len(computed)}

    async def nothing() -> None:
        return None

    async with asking(db, run) as asker:
        assert await asker.once("a", compute) == {"value": 1}
        assert await asker.once("b", compute) == {"value": 2}
        assert await asker.once("none", nothing) is None
    async with asking(db, run) as replay, asking(db, make_run(db, "other")) as other:
        assert await replay.once("a", compute) == {"value": 1}
        assert await other.once("a", compute) == {"value": 3}


# Faults


@pytest.mark.parametrize(
    ("fault", "cost"),
    [
        (kinds.Fault(kinds.RATE_LIMITED, "slow down"), 0),
        (kinds.Fault(kinds.SERVER_ERROR, "boom"), 0),
        (kinds.Fault(kinds.TIME_OUT, "silence", billed=True), WORST),
    ],
)
async def test_a_fault_that_may_pass_is_followed_by_another_attempt(db, fault, cost):
    run = make_run(db, cap_pico=10**12)
    endpoint = ScriptedEndpoint(lambda request: fault if len(endpoint.sent) == 1 else "yes")
    async with asking(db, run, endpoint) as asker:
        assert (await asker.ask(question())).choices[0].text == "yes"
    assert states(db) == ["failed", "answered"]
    assert spent(db, run) == (2, USED + cost, cost)
    assert committed(db) == USED + cost


@pytest.mark.parametrize(
    ("kind", "sent", "final"),
    [
        (kinds.SERVER_ERROR, 6, False),
        (kinds.TIME_OUT, 2, True),
        (kinds.BAD_REQUEST, 1, False),
        (kinds.CONTENT_FILTER, 1, True),
    ],
)
async def test_a_request_without_an_answer_fails(db, kind, sent, final):
    run, endpoint = make_run(db), ScriptedEndpoint(lambda request: kinds.Fault(kind, "no"))
    for _ in range(2):
        async with asking(db, run, endpoint) as asker:
            with pytest.raises(Failed, match="no") as failed:
                await asker.ask(question())
        assert (failed.value.kind, failed.value.final) == (kind, final)
    assert len(endpoint.sent) == (sent if final else 2 * sent)
    endpoint.script = lambda request: "yes"
    with db.write() as session:
        rows.reopen_failed(session, run.id)
    async with asking(db, run, endpoint) as asker:
        assert (await asker.ask(question())).choices[0].text == "yes"


def test_a_prompt_is_too_long_for_good_once_the_model_has_answered_the_run(db):
    run, too_long = make_run(db, tasks=2), kinds.Fault(kinds.CONTEXT_LENGTH, "too long")
    endpoint = ScriptedEndpoint(lambda request: too_long)
    assert work(db, run, endpoint).failed == 0
    endpoint.script = lambda request: kinds.Fault(kinds.BAD_REQUEST, "no") if request.seed else "yes"
    assert work(db, run, endpoint).done == 1
    endpoint.script = lambda request: too_long
    assert (work(db, run, endpoint).failed, task_states(db, run)) == (1, {"done": 1, "failed": 1})


@pytest.mark.parametrize(
    ("kind", "stopped", "message", "fewest"),
    [
        (kinds.BAD_REQUEST, "failing", "10 consecutive requests failed, last: no", 10),
        (kinds.AUTHENTICATION, kinds.AUTHENTICATION, "no", 1),
    ],
)
def test_failures_in_a_row_stop_the_run_and_so_does_one_that_all_requests_would_meet(
    db, kind, stopped, message, fewest
):
    run, endpoint = make_run(db, tasks=50), ScriptedEndpoint(lambda request: kinds.Fault(kind, "no"))
    outcome = work(db, run, endpoint, at_once=4, budget=Budget(halt_after=10))
    assert (outcome.stopped, outcome.message, outcome.open) == (stopped, message, 50)
    assert fewest <= len(endpoint.sent) <= fewest + 4
    assert outcome.failures == {kind: len(endpoint.sent)}
    assert task_states(db, run) == {"open": 50}


# Money


@pytest.mark.parametrize("processes", [1, 2])
def test_the_cap_holds_at_every_moment_and_is_used_up(db, processes):
    run = make_run(db, tasks=100, cap_pico=4 * WORST)
    most = 0

    def watch(request: kinds.Request) -> str:
        nonlocal most
        most = max(most, committed(db))
        return "yes"

    endpoints = [ScriptedEndpoint(watch, latency_s=0.001) for _ in range(processes)]

    async def main() -> list[Outcome]:
        models = (Models({VLLM: endpoint}, retry_s=RETRY_S) for endpoint in endpoints)
        return await asyncio.gather(*(work_on_run(db, run.id, ask_item, each) for each in models))

    outcomes = asyncio.run(main())
    sent = [request.key for endpoint in endpoints for request in endpoint.sent]
    assert {outcome.stopped for outcome in outcomes} == {"budget"}
    assert "--max-usd" in (outcomes[0].message or "")
    assert len(sent) == len(set(sent)) == states(db).count("answered")
    assert most <= 4 * WORST
    pico = committed(db)
    assert pico == len(sent) * USED == spent(db, run)[1]
    assert 3 * WORST < pico <= 4 * WORST
    with db.write() as session:
        set_cap(session, [run.id], 1.0)
    assert work(db, run, endpoints[0]).open == 0
    assert len({request.key for endpoint in endpoints for request in endpoint.sent}) == 100


async def test_what_another_process_sends_is_mostly_looked_for_and_takes_no_room(db, monkeypatch):
    monkeypatch.setattr(module, "ELSEWHERE_POLL_S", 0.01)
    monkeypatch.setattr(module, "LONGEST_LOOK_S", 0.01)
    run, begun = make_run(db, cap_pico=5 * WORST), list[list[int | str]]()
    slow, quick = ScriptedEndpoint(latency_s=1.5), ScriptedEndpoint()
    begin = rows.begin

    def note(*arguments: Any) -> list[int | str]:
        begun.append(begin(*arguments))
        return begun[-1]

    async with asking(db, run, slow) as first:
        held = [asyncio.create_task(first.ask(question(number))) for number in range(3)]
        while len(slow.sent) < 3:
            await asyncio.sleep(0.005)
        monkeypatch.setattr(rows, "begin", note)
        async with asking(db, run, quick) as second:
            await asyncio.gather(*(second.ask(question(number)) for number in range(4)))
        await asyncio.gather(*held)
    assert (len(quick.sent), {each for group in begun for each in group if each == "no room"}) == (1, set())
    assert sum(each == "elsewhere" for group in begun for each in group) < 3 * 30
    assert spent(db, run) == (4, 4 * USED, 0)


async def test_money_that_another_request_took_first_is_waited_for(db, monkeypatch):
    run, endpoint = make_run(db, cap_pico=WORST + 2 * USED), ScriptedEndpoint(latency_s=0.05)
    async with asking(db, run, endpoint) as asker:
        begin, asks = asker._try, [asyncio.create_task(asker.ask(question(number))) for number in range(2)]

        async def begin_late(attempt: Any) -> int | str:
            if not asker.in_flight and len(asks) == 2 and endpoint.sent:
                asks.append(asyncio.create_task(asker.ask(question(2))))
                while not asker.in_flight:
                    await asyncio.sleep(0.001)
            return await begin(attempt)

        monkeypatch.setattr(asker, "_try", begin_late)
        await asyncio.gather(*asks[:2])
        await asyncio.gather(*asks)
    assert committed(db) == 3 * USED


def test_a_crash_ends_those_who_wait_for_its_money(db):
    def crash(request: kinds.Request) -> str:
        raise RuntimeError("out of memory")

    run = make_run(db, tasks=3, cap_pico=WORST)
    with pytest.raises(RuntimeError, match="out of memory"):
        work(db, run, ScriptedEndpoint(crash, latency_s=0.05))


def test_runs_share_a_cap(db):
    runs = [make_run(db, name, tasks=6) for name in ("a", "b")]
    with db.write() as session:
        set_cap(session, [run.id for run in runs], (WORST + 3 * USED) / 1e12)
    endpoint = ScriptedEndpoint()
    assert [work(db, run, endpoint, at_once=1).stopped for run in runs] == ["budget", "budget"]
    assert len(endpoint.sent) == 4
    with db.write() as session:
        set_cap(session, [runs[0].id], USED / 1e12)  # less than was spent
    endpoint.price = Price(0.0, 0.0)
    assert work(db, runs[0], endpoint).stopped == "budget"
    assert len(endpoint.sent) == 4


# Processes


async def test_a_request_of_a_dead_process_is_sent_again_and_stays_paid(db):
    run, endpoint = make_run(db), ScriptedEndpoint(latency_s=5.0)
    async with asking(db, run, endpoint) as asker:
        task = asyncio.create_task(asker.ask(question()))
        while not endpoint.sent:
            await asyncio.sleep(0.005)
        asker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    endpoint.latency_s = 0.0
    async with asking(db, run, endpoint) as again:
        await again.ask(question())
    assert states(db) == ["lost", "answered"]
    assert spent(db, run) == (2, USED + WORST, WORST)


async def test_a_host_that_is_silent_loses_its_tasks_and_requests(db):
    run, slow, quick = (
        make_run(db, tasks=3, cap_pico=10**12),
        ScriptedEndpoint(latency_s=1.5),
        ScriptedEndpoint(),
    )

    far = asyncio.create_task(work_on_run(db, run.id, ask_item, Models({VLLM: slow}, retry_s=RETRY_S)))
    while len(slow.sent) < 3:
        await asyncio.sleep(0.005)
    with db.write() as session:
        session.execute(update(WorkerRow).values(process=ELSEWHERE, seen_at=time.time() - SILENT_S - 1))
    near = await work_on_run(db, run.id, ask_item, Models({VLLM: quick}, retry_s=RETRY_S))
    assert (near.done, len(quick.sent), task_states(db, run)) == (3, 3, {"done": 3})
    await far  # it was alive after all: what it brings is paid, and changes nothing else
    assert states(db) == ["lost"] * 3 + ["answered"] * 3
    assert spent(db, run) == (6, 6 * USED, 0)
    assert committed(db) == 6 * USED


# The work


def test_tasks_that_fail_leave_the_others_alone(db):
    run = make_run(db, tasks=10)
    faults = {3: kinds.CONTENT_FILTER, 5: kinds.BAD_REQUEST}
    endpoint = ScriptedEndpoint(lambda r: kinds.Fault(faults[r.seed], "no") if r.seed in faults else "yes")
    outcome = work(db, run, endpoint)
    assert (outcome.done, outcome.failed, outcome.open, outcome.stopped) == (8, 1, 1, None)
    assert task_states(db, run) == {"done": 8, "failed": 1, "open": 1}
    with db.read() as session:
        errors = session.scalars(select(TaskRow.error).where(TaskRow.error.is_not(None)))
        assert sorted(errors) == ["bad request: no", "content filter: no"]
    faults.clear()
    assert work(db, run, endpoint).done == 1


@pytest.mark.parametrize("number", [None, signal.SIGINT, signal.SIGTERM])
def test_an_error_comes_out_after_what_is_in_flight_was_stored(db, number):
    run, endpoint = make_run(db, tasks=5), ScriptedEndpoint(latency_s=0.2)

    async def one(asker: Asker, item: str) -> None:
        if item == "2":
            while len(endpoint.sent) < 4:
                await asyncio.sleep(0.005)
            if number is not None:  # while it waits for the others
                asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), number)
            raise ValueError("a bug")
        await asker.ask(question(int(item)))

    with pytest.raises(ValueError, match="a bug"):
        work(db, run, endpoint, one)
    assert states(db) == ["answered"] * 4
    assert work(db, run, ScriptedEndpoint()).open == 0


def test_an_error_that_no_task_meets_ends_the_run(db):
    async def do_task(asker: Asker, item: str) -> None:
        asker.end(ValueError("a bug"))

    with pytest.raises(ValueError, match="a bug"):
        work(db, make_run(db, tasks=1), ScriptedEndpoint(), do_task)


@pytest.mark.parametrize("cap_pico", [None, 3 * WORST])
def test_a_full_disk_ends_the_run_with_the_error_and_loses_nothing_stored(db, cap_pico, monkeypatch):
    run, endpoint = make_run(db, tasks=40, cap_pico=cap_pico), ScriptedEndpoint(latency_s=0.005)
    end, calls = rows.end, list[int]()

    def fill_up(session: Session, ended: Any) -> Any:
        calls.append(len(ended))
        if len(calls) > 2:
            raise DatabaseError("the disk is full")
        return end(session, ended)

    with monkeypatch.context() as patch:
        patch.setattr(rows, "end", fill_up)
        with pytest.raises(DatabaseError, match="the disk is full"):
            asyncio.run(asyncio.wait_for(asyncio.to_thread(work, db, run, endpoint, at_once=8), 20))
    stored = states(db).count("answered")
    assert stored == sum(calls[:2]) > 0
    with db.write() as session:
        set_cap(session, [run.id], 1.0)
    again = ScriptedEndpoint()
    assert work(db, run, again).open == 0
    assert len(again.sent) == 40 - stored
    assert states(db).count("lost") == len(endpoint.sent) - stored


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_requests_in_flight_finish(db, number):
    def script(request: kinds.Request) -> str:
        if request.seed == 8:
            os.kill(os.getpid(), number)
        return "yes"

    endpoint = ScriptedEndpoint(script, latency_s=0.02, max_concurrency=4)
    outcome = work(db, make_run(db, tasks=50), endpoint)
    assert (outcome.stopped, outcome.message) == ("interrupted", "interrupted")
    assert 9 <= len(endpoint.sent) <= 17
    assert states(db) == ["answered"] * len(endpoint.sent)
    assert outcome.done == len(endpoint.sent)


def test_progress_tells_tasks_rate_cost_and_what_is_left(db, monkeypatch):
    monkeypatch.setattr(working, "REPORT_S", 0.02)
    run, told = make_run(db, tasks=30), list[tuple[int, int, str]]()
    endpoint = ScriptedEndpoint(latency_s=0.02, max_concurrency=2)
    work(db, run, endpoint, report=lambda *progress: told.append(progress))
    done, total, words = told[-2]
    assert told[0] == (0, 30, "")
    assert told[-1][:2] == (30, 30)
    assert "left" not in told[-1][2]
    assert 0 < done <= total == 30
    assert re.fullmatch(r"\d+\.\d\d requests/s, \d+ tokens/s, \$0\.\d\d, about \d s left", words)
    assert abs(float(words.split("$")[1][:4]) - done * USED / 1e12) < 0.01


def test_tokens_of_unfinished_responses_count_but_not_those_of_earlier_runs(db, monkeypatch):
    monkeypatch.setattr(working, "REPORT_S", 0.02)

    class Generating(ScriptedEndpoint):
        generated_tokens = 10**9

    endpoint, rates = Generating(latency_s=0.5), list[int]()

    def report(done: int, total: int, words: str) -> None:
        endpoint.generated_tokens += 50
        if words.startswith("0.00 requests/s"):
            rates.append(int(re.findall(r"([\d,]+) tokens/s", words)[0].replace(",", "")))

    work(db, make_run(db, tasks=1), endpoint, report=report)
    assert rates[1:]
    assert all(0 < rate < 10**6 for rate in rates[1:])


def test_a_run_without_answers_says_what_it_waits_for(db, monkeypatch, caplog):
    caplog.set_level(logging.WARNING)
    work(
        db,
        make_run(db, tasks=1),
        ScriptedEndpoint(latency_s=0.1),
        budget=Budget().model_copy(update={"stall_s": 0.03}),
    )
    assert [record.getMessage() for record in caplog.records] == ["no answer for 0 s; in flight: the script"]


async def signalled(number: int, seen: list[str]) -> str:
    with finish_on_signals(lambda: seen.append("asked"), grace_s=25.0):
        for _ in range(2):
            signal.raise_signal(number)
            for _ in range(5):
                await asyncio.sleep(0)
    return "finished"


@pytest.mark.parametrize(
    ("number", "ending"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_the_second_signal_ends_it(number, ending):
    seen: list[str] = []
    before = signal.getsignal(number)
    with exit_on_sigterm(), pytest.raises(ending):
        asyncio.run(signalled(number, seen))
    assert seen == ["asked"]
    assert signal.getsignal(number) is before
