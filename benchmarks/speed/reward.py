"""Speed of rewards: our reward function against verl's own math rewards, each called as verl calls it.

verl's reward manager of a worker (`naive`) is built without Ray and without a model; its tokenizer only looks
texts up. All responses are awaited at once, as the worker does with those of a step, once with each function.
Ours runs with one grading process and with two: cold (they start within), and again on a grader that has
forgotten all. What is quick runs up to 7 times, the median counts; verl's functions grade 16 responses first,
so that what they start is not counted. A process of verl serves one manager; a node has 8 by default.

Not all of them do the same work. `math_reward` (verl's choice for MATH), `math_dapo` and `prime_math` grade
in the process of the manager: the first two compare texts after a box or a stated answer, the third goes on
to sympy. `math_verify` compares by algebra as ours does, in 4 processes, and is the one to set ours against.
What each gets wrong by the label of the file stands beside its speed: `missed` answers are right by label and
got no reward, `given` are wrong by label and got one.

    python -m benchmarks.speed.reward [--rows 1000]

The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.harness import add_data

FILE = "rho_responses.jsonl"
SETTINGS = (1, 2)
ENOUGH_S, WARM_UP = 6.0, 16


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_data(parser)
    parser.add_argument("--rows", type=int, help="take only so many responses, drawn at random (seed 0)")
    parser.add_argument("--repeats", type=int, default=7, help="runs of what is quick; the median counts")
    parser.add_argument(
        "--skip-processes",
        action="store_true",
        help="leave out verl's math_verify, whose 4 processes import verl",
    )
    args = parser.parse_args()

    with (args.data / FILE).open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    if args.rows:
        rows = random.Random(0).sample(rows, min(args.rows, len(rows)))
    print(
        json.dumps(
            {
                "responses": len(rows),
                **asyncio.run(compare(rows, args.repeats, of_verl(processes=not args.skip_processes))),
            }
        )
    )


async def compare(
    rows: Sequence[dict[str, Any]], repeats: int, verls: dict[str, Callable[..., Any]]
) -> dict[str, Any]:
    """Responses per second and agreement of each function."""
    from trainer_adapter.verl import reward

    report: dict[str, Any] = {}

    async def timed(name: str, function: Callable[..., Any], before: Callable[[], None]) -> None:
        found = []
        while not found or (len(found) < repeats and sum(one["seconds"] for one in found) < ENOUGH_S):
            before()
            with contextlib.redirect_stdout(io.StringIO()):  # verl's print what they could not read
                found.append(await measure(function, rows))
        report[name] = sorted(found, key=lambda one: one["seconds"])[len(found) // 2]
        kept = report[name]
        print(
            f"{name:22} {kept['per_s']:10,.0f} responses/s  agreement {kept['agreement']:.4f}  "
            f"missed {kept['missed']}, given {kept['given']}"
        )

    for workers in SETTINGS:
        ours = with_settings(reward.compute_score, workers)
        await timed(f"tagrpo_{workers}_cold", ours, reward.close_service)
        await timed(f"tagrpo_{workers}", ours, lambda: forget(reward))
        reward.close_service()
    for name, function in verls.items():
        with contextlib.redirect_stdout(io.StringIO()):
            await measure(function, rows[:WARM_UP])
        await timed(name, function, lambda: None)
    ours_per_s = report[f"tagrpo_{SETTINGS[-1]}"]["per_s"]
    for name in verls:
        report[f"ratio_to_{name}"] = round(ours_per_s / report[name]["per_s"], 2)
    return report


def with_settings(function: Callable[..., Any], workers: int) -> Callable[..., Any]:
    """Return the function as verl wraps it with `reward_kwargs`."""

    async def called(**given: Any) -> Any:
        return await function(**given, workers=workers)

    return called


def forget(reward: Any) -> None:
    """Empty the grader's memory, so that the next pass grades anew with its processes running."""
    from evaluator.grading.normalize import normalize

    reward._shared[1].grader.forget()
    normalize.cache_clear()


def of_verl(*, processes: bool) -> dict[str, Callable[..., Any]]:
    """Return verl's own math rewards with the arguments of a custom reward function."""
    from verl.utils.reward_score import math_dapo, math_reward, math_verify, prime_math

    def plain(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(data_source: str, solution_str: str, ground_truth: str, extra_info: Any) -> float:
            del data_source, extra_info
            found = function(solution_str, ground_truth)
            found = found["acc"] if isinstance(found, dict) else found
            return float(found[0] if isinstance(found, tuple) else found)

        return called

    functions = {
        "verl_math_reward": plain(math_reward.compute_score),
        "verl_math_dapo": plain(math_dapo.compute_score),
        "verl_prime_math": plain(prime_math.compute_score),
    }
    return functions | ({"verl_math_verify": plain(math_verify.compute_score)} if processes else {})


async def measure(function: Callable[..., Any], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Await the rewards of all rows through verl's manager."""
    import torch
    from omegaconf import OmegaConf
    from verl import DataProto
    from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager

    texts = [row["response"] for row in rows]

    class Lookup:
        def decode(self, ids: Any, **_: Any) -> str:
            return texts[int(ids[0])]

    manager = NaiveRewardManager(OmegaConf.create({}), Lookup(), function)
    items = [
        DataProto.from_dict(
            tensors={
                "responses": torch.tensor([[place]]),
                "attention_mask": torch.ones(1, 1, dtype=torch.long),
            },
            non_tensors={
                "data_source": as_objects("math"),
                "reward_model": as_objects({"ground_truth": row["answer"]}),
                "extra_info": as_objects({}),
            },
        )
        for place, row in enumerate(rows)
    ]
    began = time.perf_counter()
    found = await asyncio.gather(*(manager.run_single(item) for item in items))
    seconds = time.perf_counter() - began
    pairs = [(one["reward_score"] > 0, bool(row["label"])) for one, row in zip(found, rows, strict=True)]
    unknown = sum(one["reward_extra_info"].get("unknown", 0.0) for one in found)
    return {
        "seconds": round(seconds, 3),
        "per_s": round(len(rows) / seconds, 1),
        "agreement": round(sum(got == label for got, label in pairs) / len(rows), 4),
        "missed": sum(label and not got for got, label in pairs),
        "given": sum(got and not label for got, label in pairs),
        "unknown": int(unknown),
    }


def as_objects(value: Any) -> Any:
    """Return an array of one object."""
    import numpy as np

    array = np.empty(1, dtype=object)
    array[0] = value
    return array


if __name__ == "__main__":
    main()
