"""Work through a run's tasks: claim them, run a coroutine for each, stop cleanly on signals."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from functools import partial

from service.asks import store as rows
from service.asks.ask import IN_A_JOB, INTERRUPTED, Asker, Failed, Models, Outcome, Stopped
from service.asks.store import Store
from service.asks.tables import DONE, FAILED_TASK, OPEN
from service.database import Database
from service.runs.store import finish_run
from service.runs.tables import PICO_PER_USD
from service.stopping import finish_on_signals
from service.telling import duration

BEAT_S = 30.0
REPORT_S = 2.0
OTHERS_POLL_S = 1.0
_LOG = logging.getLogger("tagrpo.asks")

Work = Callable[[Asker, str], Awaitable[None]]
"""Does one task, given its item. Raises `Failed` or `Stopped` as `Asker.ask` does."""


async def work_on_run(
    db: Database,
    run_id: str,
    do_task: Work,
    models: Models,
    report: Callable[[int, int, str], None] = lambda *_: None,
    *,
    retry_final: bool = False,
) -> Outcome:
    """Do the open tasks of a run, concurrently with other processes.

    Ends once no task is left that this process can do; the run is finished if no open task is left. Requests
    that failed for good are sent again only with `retry_final`. `report` gets the number of finished tasks,
    that of all tasks, and a few words. The first SIGINT or SIGTERM stops sending and lets requests in flight
    finish; a second one drops them. One run at a time in a process hears them.
    """
    with db.write() as session:
        if retry_final:
            rows.reopen_failed(session, run_id)
        counts = rows.count_tasks(session, run_id)
        finish_run(session, run_id, finished=OPEN not in counts)
    if OPEN not in counts:
        return Outcome(was_complete=counts.keys() == {DONE})
    with closing(Store(db)) as store:
        worker = await store.write(rows.enter)
        asker = Asker(store, run_id, worker, models)
        show = _progress(asker, report)
        watching = asyncio.gather(_beat(asker), _watch(asker, show), return_exceptions=True)
        try:
            with finish_on_signals(partial(asker.stop, INTERRUPTED, "interrupted"), models.budget.grace_s):
                try:
                    await _do_tasks(asker, do_task)
                except ExceptionGroup as errors:  # in-flight requests finish and are stored first
                    asker.stop("error", repr(errors.exceptions[0]))
                    await asker.finish()
                    raise errors.exceptions[0] from None
                await asker.finish()
                if asker.stopped is not None and not isinstance(asker.stopped, Stopped):
                    raise asker.stopped
        except BaseException:
            asker.cancel()
            raise
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await asker.close()
            await store.write(rows.leave, worker)
    outcome = asker.outcome
    with db.write() as session:
        counts = rows.count_tasks(session, run_id)
        outcome.open = counts.get(OPEN, 0)
        finish_run(session, run_id, finished=not outcome.open)
    show(counts)
    if isinstance(asker.stopped, Stopped) and outcome.stopped is None:
        outcome.stopped, outcome.message = asker.stopped.kind, str(asker.stopped)
    return outcome


async def _do_tasks(asker: Asker, do_task: Work) -> None:
    """Do each open task once, many at a time; at the end wait for other processes' tasks, as they may die."""
    store, outcome, at_once = asker.store, asker.outcome, asker.models.at_once
    run, places, left_open = (asker.run_id, asker.worker), asyncio.Semaphore(at_once), set[int]()

    async def do(position: int, item: str) -> None:
        state, error = OPEN, None
        try:
            await do_task(asker, item)
            state = DONE
        except Stopped as stopped:
            if outcome.stopped is None:
                outcome.stopped, outcome.message = stopped.kind, str(stopped)
        except Failed as failed:
            state, error = FAILED_TASK if failed.final else OPEN, f"{failed.kind}: {failed}"
            if failed.kind == IN_A_JOB:  # nothing failed: it is sent, and its answer comes
                outcome.message, error = outcome.message or error, None
        finally:
            places.release()
        outcome.done += state == DONE
        outcome.failed += state == FAILED_TASK
        if state == OPEN:  # noted before it can be claimed again
            left_open.add(position)
        row = {"of_run": asker.run_id, "place": position, "holder": asker.worker}
        await store.write_together(rows.finish, {**row, "state": state, "error": error})

    def goes_on() -> bool:
        return outcome.stopped is None and not asker.stopping.is_set()

    async with asyncio.TaskGroup() as tasks:
        while goes_on():
            claimed = await store.write(rows.claim, *run, max(1, at_once // 4), frozenset(left_open))
            for position, item in claimed:
                await places.acquire()
                if goes_on():
                    tasks.create_task(do(position, item))
            if not claimed:
                if not await store.read(rows.others_hold, *run):
                    break
                await asyncio.sleep(OTHERS_POLL_S)


async def _beat(asker: Asker) -> None:
    """Show that this process is alive, and say what it waits for after a long time without an answer."""
    stall_s, warned = asker.models.budget.stall_s, 0.0
    while True:
        await asyncio.sleep(min(BEAT_S, stall_s))
        await asker.store.write(rows.beat, asker.worker)
        silent_s = time.monotonic() - asker.last_answer_s
        waits = [each.waits_for for each in asker.models.endpoints.values() if each.waits_for]
        if asker.in_flight and waits and silent_s >= stall_s and warned != asker.last_answer_s:
            warned = asker.last_answer_s
            _LOG.warning("no answer for %.0f s; in flight: %s", silent_s, "; ".join(waits))


async def _watch(asker: Asker, show: Callable[[Mapping[str, int]], None]) -> None:
    while True:
        show(await asker.store.read(rows.count_tasks, asker.run_id))
        await asyncio.sleep(REPORT_S)


def _progress(asker: Asker, report: Callable[[int, int, str], None]) -> Callable[[Mapping[str, int]], None]:
    """Return what reports finished tasks of all processes, all tasks, and this process's rate and cost."""
    began, done_before, outcome = time.monotonic(), None, asker.outcome
    before = _generated_tokens(asker)  # a server on this machine answers several runs

    def show(counts: Mapping[str, int]) -> None:
        nonlocal done_before
        done, total = counts.get(DONE, 0) + counts.get(FAILED_TASK, 0), sum(counts.values())
        done_before = done if done_before is None else done_before
        seconds = time.monotonic() - began or 1e-9
        tokens = max(_generated_tokens(asker) - before, outcome.completion_tokens)
        words = []
        if outcome.sent:  # none by rules
            words += [f"{outcome.answered / seconds:.2f} requests/s", f"{tokens / seconds:,.0f} tokens/s"]
        if outcome.pico_usd:
            words.append(f"${outcome.pico_usd / PICO_PER_USD:.2f}")
        if outcome.failures:
            words.append(f"{outcome.failures.total():,} requests failed")
        if done_before < done < total:
            minutes_left = (total - done) * seconds / (done - done_before) / 60
            words.append(f"about {duration(minutes_left)} left")
        report(done, total, ", ".join(words))

    return show


def _generated_tokens(asker: Asker) -> int:
    return sum(endpoint.generated_tokens for endpoint in asker.models.endpoints.values())
