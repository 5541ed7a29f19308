"""Compare the cost of asking with bare litellm's, on the same server in the same run.

`python -m benchmarks.asks` prints requests per second and CPU time per request, 64 in flight, for bare
litellm, for sending alone (`RemoteEndpoint`, `PlainEndpoint`), and for runs that store every answer, with
ratios to bare litellm. `--queue resume` prints how long a run of 20,000 stored answers takes to resume,
`--queue memory` how much memory a run with 100,000 open tasks needs, and litellm's part of it.
"""

import argparse
import asyncio
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from openai_server import server_process

from benchmarks.harness import peak_mb
from service.asks.ask import Asker, Models
from service.asks.attempts import Attempt, Ended, begin, end
from service.asks.money import Price
from service.asks.plain import PlainEndpoint
from service.asks.remote import RemoteEndpoint
from service.asks.request import Message, Request
from service.asks.store import Store, add_tasks
from service.asks.tables import ANSWERED
from service.asks.work import work_on
from service.database import Database
from service.models.settings import Sampling
from service.runs.store import open_run

IN_FLIGHT = 64
SPELLING = "hosted_vllm/test-model"
TEXT = "Let x be the number of apples. " * 65
ANSWERS = f"""
def answer(messages, n, seed):
    return [{TEXT!r}] * n
"""
STORED, QUEUED, ASKED = 20_000, 100_000, 500
Send = Callable[[int], Awaitable[object]]
Measured = tuple[float, float]
"""Requests per second, and CPU milliseconds of this process per request."""


def request(number: int) -> Request:
    """Return a request for 8 responses."""
    messages = (Message("user", f"How many apples are in {number} baskets?"),)
    return Request(SPELLING, messages, sampling=Sampling().decoding, seed=number, n=8)


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def measure(count: int, work: Awaitable[object]) -> Measured:
    began, cpu = time.monotonic(), cpu_s()
    await work
    return count / (time.monotonic() - began), 1000 * (cpu_s() - cpu) / count


async def send_all(send: Send, count: int) -> None:
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await send(number)

    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))


async def run_all(endpoint: RemoteEndpoint | PlainEndpoint, folder: Path, count: int) -> None:
    """Ask `count` requests as a run of as many tasks does, into a database of its own."""
    with Database.open(folder / f"{time.monotonic_ns()}.db") as db:
        run_id = make_run(db, count)
        store = Store(db)
        await work_on(store, run_id, ask, Models({SPELLING: endpoint}))
        store.close()


async def ask(asker: Asker, item: str) -> None:
    await asker.ask(request(int(item)))


def make_run(db: Database, tasks: int) -> str:
    with db.write() as session:
        run, _ = open_run(session, name="run", kind="propose", spec={}, question_ids=[], versions={})
        add_tasks(session, run.id, [str(number) for number in range(tasks)])
    return run.id


async def compare(url: str, folder: Path, count: int, rounds: int) -> dict[str, list[Measured]]:
    """Measure each way of asking in turn, `rounds` times."""
    remote = RemoteEndpoint(SPELLING, [url], max_concurrency=IN_FLIGHT, price=Price(1.0, 1.0))
    plain = PlainEndpoint(url, "test-model", max_concurrency=IN_FLIGHT)
    await remote.open()
    await plain.open()
    import litellm

    stopping = asyncio.Event()

    async def bare(number: int) -> object:
        asked = request(number)
        return await litellm.acompletion(
            model=SPELLING,
            api_base=url,
            api_key="none",
            max_retries=0,
            messages=[{"role": each.role, "content": each.content} for each in asked.messages],
            max_tokens=asked.max_tokens,
            temperature=0.6,
            top_p=0.95,
            n=8,
            seed=number,
        )

    def through(endpoint: RemoteEndpoint | PlainEndpoint) -> Send:
        async def send(number: int) -> object:
            async with endpoint.slot(stopping) as server:
                return await endpoint.send(request(number), server)

        return send

    ways: dict[str, Callable[[int], Awaitable[object]]] = {
        "bare litellm": partial(send_all, bare),
        "RemoteEndpoint": partial(send_all, through(remote)),
        "PlainEndpoint": partial(send_all, through(plain)),
        "run, litellm": partial(run_all, remote, folder),
        "run, plain": partial(run_all, plain, folder),
    }
    results: dict[str, list[Measured]] = {name: [] for name in ways}
    for work in ways.values():
        await work(2 * IN_FLIGHT)
    for _ in range(rounds):
        for name, work in ways.items():
            results[name].append(await measure(count, work(count)))
    await remote.close()
    await plain.close()
    return results


def resume(folder: Path) -> dict[str, float]:
    """Return how long a run takes to resume: once from its stored answers, once when it is finished."""
    with Database.open(folder / "stored.db") as db:
        run_id = make_run(db, STORED)
        from service.asks.attempts import pack

        reply = pack(json.dumps({"choices": [{"message": {"content": TEXT}}] * 8, "usage": {}}))
        for start in range(0, STORED, 1000):
            with db.write() as session:
                attempts = [
                    Attempt(request(number).key, run_id, "", "answer", "", 0, SPELLING, 0, 0, b"")
                    for number in range(start, start + 1000)
                ]
                asks = begin(session, attempts)
                end(session, [Ended(int(ask), ANSWERED, 0, 1, 1, reply=reply) for ask in asks])
        seconds = {}
        for name in ("replay of open tasks", "finished run"):
            began = time.monotonic()
            store = Store(db)
            outcome = asyncio.run(work_on(store, run_id, ask, Models({})))
            store.close()
            seconds[name] = round(time.monotonic() - began, 2)
            assert outcome.open == 0
    return seconds


def queue(url: str, folder: Path) -> dict[str, int]:
    """Return the peak memory in MiB of a process with very many open tasks, and litellm's part of it."""
    peaks = []

    async def work(db: Database, run_id: str) -> None:
        endpoint = RemoteEndpoint(SPELLING, [url], max_concurrency=IN_FLIGHT)
        peaks.append(peak_mb())
        await endpoint.open()
        peaks.append(peak_mb())
        store = Store(db)
        await work_on(store, run_id, ask, Models({SPELLING: endpoint}, max_requests=ASKED))
        store.close()
        await endpoint.close()

    with Database.open(folder / "queue.db") as db:
        asyncio.run(work(db, make_run(db, QUEUED)))
    return {"MiB": round(peak_mb()), "of them litellm": round(peaks[1] - peaks[0])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1000, help="requests per way and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--queue", choices=("resume", "memory"), help="measure this instead")
    options = parser.parse_args()
    with TemporaryDirectory() as name:
        folder = Path(name)
        if options.queue == "resume":
            print(json.dumps(resume(folder)))
            return
        (folder / "answers.py").write_text(ANSWERS)
        with server_process("--answer", f"{folder / 'answers.py'}:answer") as url:
            if options.queue == "memory":
                print(json.dumps(queue(url, folder)))
                return
            results = asyncio.run(compare(url, folder, options.requests, options.rounds))
    bare, report = results["bare litellm"], {}
    for name, measured in results.items():
        rate = median(way[0] / base[0] for way, base in zip(measured, bare, strict=True))
        cpu = median(way[1] for way in measured)
        beyond = median(way[1] - base[1] for way, base in zip(measured, bare, strict=True))
        print(f"{name:15} {rate:5.2f} x requests/s   {cpu:5.2f} CPU ms per request ({beyond:+.2f})")
        report[name] = {"requests/s ratio": rate, "CPU ms": cpu, "CPU ms beyond": beyond}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
