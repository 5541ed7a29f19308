"""Cells per second through the service, against bare litellm on the same server in the same run.

Both sides send the same requests to a loopback server that answers after 100 ms, 64 at a time, each side in a
process of its own, in alternation. Bare is `asyncio.gather` over `litellm.acompletion` with a semaphore, and
keeps nothing. The service leases cells from the database, builds the requests, asks through the client
(retries, time-outs, adaptive concurrency, receipts) and commits every raw answer before its place is free.

    python -m benchmarks.speed.remote_client [--cells 22500] [--rounds 1]

The last line is one JSON object: cells per second of both, their ratio, peak memory of both in MB.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.harness import peak_mb, run_apart

LATENCY_S = 0.1
CONCURRENCY = 64
WARM_UP = 64


def prompt(index: int) -> str:
    """Return the text of the question that both sides ask under this number."""
    return f"Box {index} holds {index % 97} balls and {index % 89} cubes. How many things does it hold?"


async def bare(url: str, cells: int) -> float:
    """Ask with litellm alone; return the seconds."""
    import os

    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    gate = asyncio.Semaphore(CONCURRENCY)

    async def ask(index: int) -> None:
        async with gate:
            await litellm.acompletion(
                model="hosted_vllm/test-model",
                api_base=url,
                api_key="none",
                messages=[{"role": "user", "content": prompt(index)}],
                max_tokens=64,
                temperature=0.7,
                max_retries=0,
            )

    await asyncio.gather(*(ask(-1 - index) for index in range(WARM_UP)))
    began = time.perf_counter()
    await asyncio.gather(*(ask(index) for index in range(cells)))
    return time.perf_counter() - began


async def service(url: str, cells: int, folder: Path) -> float:
    """Fill cells through the database; return the seconds."""
    from rephraser.run.ask import solving_requests
    from rephraser.run.spec import SolverSpec
    from service.database import Database
    from service.models.remote import Budget, Endpoint, RemoteClient
    from service.models.settings import Sampling
    from service.questions import make_question, store_questions
    from service.runs.cells import CellPlan, add_cells
    from service.runs.filling import CellsToAsk, fill_cells
    from service.runs.leases import this_owner
    from service.runs.progress import count_states
    from service.runs.store import open_run

    solver = SolverSpec("hosted_vllm/test-model", Sampling(0.7, 1.0, 64), samples_per_request=1)
    db = Database.open(folder / "service.db")
    questions = [make_question(prompt(index), "1") for index in range(-WARM_UP, cells)]
    with db.write() as session:
        store_questions(session, questions)
        ids = [question.id for question in questions]
        run, _ = open_run(session, name="r", kind="k", spec={}, question_ids=ids, versions={})

    async def fill(part: list[str]) -> None:
        plans = [
            CellPlan(solver.id, "answer", subject, 0, 0, 0, {"start": 0, "count": 1, "seed": 1})
            for subject in part
        ]
        with db.write() as session:
            add_cells(session, run.id, plans)
        to_ask = CellsToAsk(
            db,
            run.id,
            solver.id,
            this_owner("benchmark"),
            build=lambda leased: solving_requests(db, solver, leased),
            on_answer=lambda _: None,
        )
        filled = await fill_cells(to_ask, client)
        if filled.answered != len(part):
            raise RuntimeError(f"{filled.answered} of {len(part)} cells filled: {filled}")

    endpoint = Endpoint(solver.model, url)
    async with RemoteClient(endpoint, budget=Budget(), max_concurrency=CONCURRENCY) as client:
        await fill(ids[:WARM_UP])
        began = time.perf_counter()
        await fill(ids[WARM_UP:])
        seconds = time.perf_counter() - began
    with db.read() as session:
        states = count_states(session, run.id)
    if states != {("answer", "filled"): cells + WARM_UP}:
        raise RuntimeError(f"cells after filling: {states}")
    return seconds


def measure(side: str, url: str, cells: int) -> tuple[float, float]:
    """Run one side in a process of its own; return (seconds, peak MB)."""
    result = run_apart(__file__, "--side", side, "--url", url, "--cells", cells)
    return result["seconds"], result["peak_mb"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", type=int, default=22_500)
    parser.add_argument("--rounds", type=int, default=1, help="how often both sides are measured")
    parser.add_argument("--side", choices=["bare", "service"], help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        with tempfile.TemporaryDirectory() as folder:
            work = (
                bare(options.url, options.cells)
                if options.side == "bare"
                else service(options.url, options.cells, Path(folder))
            )
            seconds = asyncio.run(work)
        peak = peak_mb()
        print(json.dumps({"seconds": seconds, "peak_mb": peak}))
        return
    from openai_server import server_process

    found: dict[str, list[tuple[float, float]]] = {"bare": [], "service": []}
    with server_process("--latency", str(LATENCY_S)) as url:
        for number in range(options.rounds):
            for side, results in found.items():
                seconds, peak = measure(side, url, options.cells)
                results.append((seconds, peak))
                rate = options.cells / seconds
                print(f"round {number + 1}, {side}: {rate:,.0f} cells/s, peak {peak:,.0f} MB", flush=True)
    rates = {side: options.cells / statistics.median(s for s, _ in found[side]) for side in found}
    peaks = {side: max(peak for _, peak in found[side]) for side in found}
    print(
        json.dumps(
            {
                "cells": options.cells,
                "latency_s": LATENCY_S,
                "concurrency": CONCURRENCY,
                "service_cells_per_second": round(rates["service"], 1),
                "bare_cells_per_second": round(rates["bare"], 1),
                "ratio": round(rates["service"] / rates["bare"], 3),
                "service_peak_mb": round(peaks["service"], 1),
                "bare_peak_mb": round(peaks["bare"], 1),
            }
        )
    )


if __name__ == "__main__":
    main()
