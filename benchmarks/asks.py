"""Compare the cost of sending requests with bare litellm's, on the same server in the same run.

`python -m benchmarks.asks` prints requests per second and CPU time per request, 64 in flight, for bare
litellm, `RemoteEndpoint` and `PlainEndpoint`, with ratios to bare litellm. Nothing is stored.
"""

import argparse
import asyncio
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from openai_server import server_process

from service.asks.plain import PlainEndpoint
from service.asks.remote import RemoteEndpoint
from service.asks.request import Message, Request
from service.models.settings import Sampling

IN_FLIGHT = 64
SPELLING = "hosted_vllm/test-model"
ANSWERS = """
def answer(messages, n, seed):
    return ["Let x be the number of apples. " * 65] * n
"""
Send = Callable[[int], Awaitable[object]]


def request(number: int) -> Request:
    """Return a request for 8 responses."""
    messages = (Message("user", f"How many apples are in {number} baskets?"),)
    return Request(SPELLING, messages, sampling=Sampling().decoding, seed=number, n=8)


async def measure(send: Send, count: int) -> tuple[float, float]:
    """Return requests per second and CPU milliseconds per request of this process."""
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await send(number)

    began, cpu = time.monotonic(), _cpu_s()
    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
    return count / (time.monotonic() - began), 1000 * (_cpu_s() - cpu) / count


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def compare(url: str, count: int, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Measure each way of sending in turn, `rounds` times."""
    remote = RemoteEndpoint(SPELLING, [url], max_concurrency=IN_FLIGHT)
    plain = PlainEndpoint(SPELLING, url, "test-model", max_concurrency=IN_FLIGHT)
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

    ways = {"bare litellm": bare, "RemoteEndpoint": through(remote), "PlainEndpoint": through(plain)}
    results: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for send in ways.values():
        await measure(send, 2 * IN_FLIGHT)
    for _ in range(rounds):
        for name, send in ways.items():
            results[name].append(await measure(send, count))
    await remote.close()
    await plain.close()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1000, help="requests per way and round")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        answers = Path(folder, "answers.py")
        answers.write_text(ANSWERS)
        with server_process("--answer", f"{answers}:answer") as url:
            results = asyncio.run(compare(url, options.requests, options.rounds))
    bare = results["bare litellm"]
    for name, measured in results.items():
        rate = median(way[0] / base[0] for way, base in zip(measured, bare, strict=True))
        cpu = median(way[1] for way in measured)
        beyond = median(way[1] - base[1] for way, base in zip(measured, bare, strict=True))
        print(f"{name:15} {rate:5.2f} x requests/s   {cpu:5.2f} CPU ms per request ({beyond:+.2f})")


if __name__ == "__main__":
    main()
