"""A process that draws from the real `vllm serve`, prints all as JSON, and then only waits."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from asking import attempt, opened

from service.asks.request import Message, Request
from service.engines.vllm import VllmEndpoint
from service.models.access import Model

SAMPLING = {"max_tokens": 30, "temperature": 0.9, "top_p": 0.95, "top_k": 0, "min_p": 0.0, "stop": ()}


def question(number: int, *, n: int = 4, seed: int = 7, **sampling: Any) -> Request:
    messages = (Message("user", f"What is {number}" + " plus one" * number + "?"),)
    return Request("m", messages, sampling={**SAMPLING, **sampling}, seed=seed, n=n)


async def main(model: str, log: str) -> None:
    endpoint = VllmEndpoint(Model(model=model, sampler="vllm", dtype="float32"), Path(log))

    async def ask(*requests: Request) -> list[list[tuple[str, str | None]]]:
        answers = await asyncio.gather(*(attempt(endpoint, each) for each in requests))
        return [[(choice.text, choice.finish_reason) for choice in answer.choices] for answer in answers]

    async with opened(endpoint):
        questions = [question(number) for number in range(8)]
        drawn, again = await ask(*questions), await ask(*reversed(questions))
        ones = await ask(*(question(1, n=1, seed=7 + place) for place in range(4)))
        [whole] = await ask(question(1, n=1, temperature=0.0))
        stop = next(char for char in whole[0][0][1:] if char.isascii() and char.isprintable())
        [cut] = await ask(question(1, n=1, temperature=0.0, stop=(stop,)))
        [long] = await ask(Request("m", prompt="x" * 510, sampling=SAMPLING, seed=1))
        async with asyncio.timeout(30):
            while not endpoint.generated_tokens:
                await asyncio.sleep(0.1)
        answers = {"drawn": drawn, "again": again, "ones": ones, "whole": whole, "cut": cut, "long": long}
        more = {"stop": stop, "notices": endpoint.notices, "gpu": endpoint.engine["gpu"]}
        print(json.dumps(answers | more), flush=True)
        await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
