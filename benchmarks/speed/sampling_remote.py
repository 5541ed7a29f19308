"""Samples per second of the remote sampler, against bare litellm on the same server in the same run.

Both sides draw the same samples, 8 a request as eval runs do, from a loopback server that answers after
100 ms, at most 64 requests at a time, each side in a process of its own, in alternation. Bare is
`asyncio.gather` over `litellm.acompletion` with a semaphore; it keeps nothing. The sampler leases cells from
the database, asks through the client (retries, time-outs, adaptive concurrency, receipts) and commits every
sample with its text before its place is free.

Then the sampler draws a twelfth of the problems from one server, and from two like it, which work on 16
requests at once for 1 s each while others wait, as vLLM's do.

    python -m benchmarks.speed.sampling_remote [--problems 500] [--samples 128] [--rounds 1]

The last line is one JSON object: samples per second of both, their ratio, peak memory of both in MB, and
samples per second with one and with two servers.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import peak_mb, run_apart

LATENCY_S = 0.1
CONCURRENCY = 64
SLOTS, SLOT_LATENCY_S = 16, 1.0
PER_REQUEST = 8
WARM_UP = 64
MODEL = "hosted_vllm/test-model"
CHARACTERS = 2_000
"""Length of a response: what 500 tokens of a solution are."""


def prompt(index: int) -> str:
    """Return the problem that both sides put under this number."""
    return f"Box {index} holds {index % 97} balls and {index % 89} cubes. How many things does it hold?"


def answer(messages: list[dict[str, Any]], n: int, seed: int | None) -> list[str]:
    """Answer as the test server: long texts that differ from sample to sample."""
    return [(f"{seed}-{place} is a step towards the answer. " * 80)[:CHARACTERS] for place in range(n)]


async def bare(url: str, problems: int, samples: int) -> float:
    """Draw with litellm alone; return the seconds."""
    import os

    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    gate = asyncio.Semaphore(CONCURRENCY)

    async def ask(index: int, seed: int) -> None:
        async with gate:
            await litellm.acompletion(
                model=MODEL,
                api_base=url,
                api_key="none",
                messages=[{"role": "user", "content": prompt(index)}],
                n=PER_REQUEST,
                seed=seed,
                max_tokens=3072,
                temperature=0.6,
                top_p=0.95,
                max_retries=0,
            )

    await asyncio.gather(*(ask(-1 - index, 0) for index in range(WARM_UP)))
    began = time.perf_counter()
    requests = ((index, seed) for seed in range(samples // PER_REQUEST) for index in range(problems))
    await asyncio.gather(*(ask(index, seed) for index, seed in requests))
    return time.perf_counter() - began


def sampled(urls: Sequence[str], problems: int, samples: int, folder: Path) -> float:
    """Draw with the remote sampler into a database; return the seconds, planning included."""
    from evaluator.evals.missing import samples_missing
    from evaluator.evals.problems import PlacedProblem, make_problem, problems_hash, run_problems
    from evaluator.evals.running import EvalCells, plan_samples
    from evaluator.evals.runs import EvalSpec, open_eval_run
    from service.database import Database
    from service.models.asking import Asking
    from service.models.remote import Endpoint
    from service.models.remote.sampler import RemoteSampler
    from service.models.settings import PromptSpec, SamplingSettings

    db = Database.open(folder / "sampling.db")
    sampler = RemoteSampler(Endpoint.at(MODEL, urls), Asking(max_concurrency=CONCURRENCY))

    def draw(name: str, first: int, count: int, n: int) -> float:
        chosen = [make_problem(prompt(index), "1") for index in range(first, first + count)]
        spec = EvalSpec(
            problems=name,
            problems_hash=problems_hash(chosen),
            size=count,
            source={},
            model=MODEL,
            engine=sampler.describe(),
            prompt=PromptSpec("{question}"),
            sampling=SamplingSettings(samples_per_request=PER_REQUEST),
        )
        placed = [PlacedProblem(problem) for problem in chosen]
        with db.write() as session:
            run, _ = open_eval_run(session, name, spec, placed, {})
            stored = run_problems(session, run.id)
        began = time.perf_counter()
        with db.write() as session:
            plan_samples(session, run.id, stored, n, PER_REQUEST)
        work = EvalCells(db, run.id, spec, {problem.id: problem for problem in stored})
        filled = sampler.fill(work, lambda *_: None)
        seconds = time.perf_counter() - began
        with db.read() as session:
            if missing := samples_missing(session, run.id, n):
                raise RuntimeError(f"{missing} samples are missing: {filled}")
        return seconds

    draw("warm-up", -WARM_UP, WARM_UP, PER_REQUEST)
    return draw("measured", 0, problems, samples)


def run_side(side: str, urls: Sequence[str], problems: int, samples: int) -> tuple[float, float]:
    """Run one side in a process of its own; return (seconds, peak MB)."""
    sizes = ("--problems", problems, "--samples", samples)
    result = run_apart(__file__, "--side", side, *(word for url in urls for word in ("--url", url)), *sizes)
    return result["seconds"], result["peak_mb"]


def measure(problems: int, samples: int, rounds: int) -> dict[str, Any]:
    """Return what the last line of this script holds; each round measures both sides in turn.

    `samples` a problem is rounded down to whole requests.
    """
    from openai_server import server_process

    samples = max(PER_REQUEST, samples // PER_REQUEST * PER_REQUEST)
    found: dict[str, list[tuple[float, float]]] = {"bare": [], "sampler": []}
    with server_process("--latency", str(LATENCY_S), "--answer", f"{__file__}:answer") as url:
        for number in range(rounds):
            for side, results in found.items():
                seconds, peak = run_side(side, [url], problems, samples)
                results.append((seconds, peak))
                rate = problems * samples / seconds
                print(f"round {number + 1}, {side}: {rate:,.0f} samples/s, peak {peak:,.0f} MB", flush=True)
    rates = {
        side: problems * samples / statistics.median(seconds for seconds, _ in results)
        for side, results in found.items()
    }
    return {
        "problems": problems,
        "samples": samples,
        "per_request": PER_REQUEST,
        "latency_s": LATENCY_S,
        "concurrency": CONCURRENCY,
        "sampler_samples_per_second": round(rates["sampler"], 1),
        "bare_samples_per_second": round(rates["bare"], 1),
        "ratio": round(rates["sampler"] / rates["bare"], 3),
        "sampler_peak_mb": round(max(peak for _, peak in found["sampler"]), 1),
        "bare_peak_mb": round(max(peak for _, peak in found["bare"]), 1),
        **measure_servers(max(1, problems // 12), samples, rounds),
    }


def measure_servers(problems: int, samples: int, rounds: int) -> dict[str, Any]:
    """Return the samples per second with one server and with two, and their ratio."""
    from openai_server import server_process

    slow = ("--latency", str(SLOT_LATENCY_S), "--slots", str(SLOTS), "--answer", f"{__file__}:answer")
    seconds: dict[int, list[float]] = {1: [], 2: []}
    with server_process(*slow) as first, server_process(*slow) as second:
        for number in range(rounds):
            for count, results in seconds.items():
                took_s, _ = run_side("sampler", [first, second][:count], problems, samples)
                results.append(took_s)
                rate = problems * samples / took_s
                print(f"round {number + 1}, {count} of 2 servers: {rate:,.0f} samples/s", flush=True)
    rates = {count: problems * samples / statistics.median(results) for count, results in seconds.items()}
    return {
        "server_slots": SLOTS,
        "server_latency_s": SLOT_LATENCY_S,
        "one_server_samples_per_second": round(rates[1], 1),
        "two_servers_samples_per_second": round(rates[2], 1),
        "servers_ratio": round(rates[2] / rates[1], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", type=int, default=500)
    parser.add_argument("--samples", type=int, default=128, help="of each problem, in requests of 8")
    parser.add_argument("--rounds", type=int, default=1, help="how often both sides are measured")
    parser.add_argument("--side", choices=["bare", "sampler"], help=argparse.SUPPRESS)
    parser.add_argument("--url", action="append", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.side:
        print(json.dumps(measure(options.problems, options.samples, options.rounds)))
        return
    if options.side == "bare":
        seconds = asyncio.run(bare(options.url[0], options.problems, options.samples))
    else:
        with tempfile.TemporaryDirectory() as folder:
            seconds = sampled(options.url, options.problems, options.samples, Path(folder))
    peak = peak_mb()
    print(json.dumps({"seconds": seconds, "peak_mb": peak}))


if __name__ == "__main__":
    main()
