"""Advantages: time against verl's functions on the same tensors.

First every estimator on 8,192 responses in 256 groups of 32, ids as verl has them (an array of texts), with
one token a response, so that the estimator is timed and not the writing of tokens; then GRPO's alone from
rewards on tokens to advantages on tokens, as verl calls it. There every way reads a tensor of 8,192 x 3,072
numbers and writes another, which `reading_and_writing` times alone: no way can be faster than that. verl's
loop version and its vectorised one stand for GRPO, Dr.GRPO and RLOO; the other estimators have no counterpart
in verl and stand beside GRPO's. Medians of repeated runs, ways in turn.

    python -m benchmarks.speed.advantages [--threads 1] [--tokens 3072]

One thread by default, so that a busy machine does not decide. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

GROUPS, GROUP_SIZE = 256, 32


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=3072, help="tokens of the longest response")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument("--repeats", type=int, default=9, help="runs of each way; the median counts")
    args = parser.parse_args()

    import torch

    torch.set_num_threads(args.threads)
    report: dict[str, Any] = {
        "responses": GROUPS * GROUP_SIZE,
        "groups": GROUPS,
        "tokens": args.tokens,
        "threads": args.threads,
        "estimators": compare_estimators(args.repeats),
        "grpo_with_tokens": compare_with_tokens(args.tokens, max(3, args.repeats // 3)),
    }
    print(json.dumps(report))


def draw(tokens: int) -> dict[str, Any]:
    """Rewards, masks and ids of a step; some questions are all right or all wrong."""
    import numpy as np
    import torch

    generator = torch.Generator().manual_seed(0)
    rows = GROUPS * GROUP_SIZE
    rates = torch.rand(GROUPS, generator=generator).repeat_interleave(GROUP_SIZE)
    rewards = (torch.rand(rows, generator=generator) < rates).float()
    lengths = torch.randint(1, tokens + 1, (rows,), generator=generator)
    ids = [f"{place * 2654435761 % 2**32:08x}-question" for place in range(GROUPS)]
    order = torch.randperm(rows, generator=generator)  # responses come in as they are finished
    uids = np.array([ids[place // GROUP_SIZE] for place in order.tolist()], dtype=object)
    return {
        "rewards": rewards[order],
        "uids": uids,
        "mask": (torch.arange(tokens) < lengths[:, None]).float(),
        "lengths": lengths,
    }


def token_rewards(step: dict[str, Any]) -> Any:
    """The reward on the last token of each response, as verl has it."""
    import torch

    rewards = torch.zeros_like(step["mask"])
    rewards[torch.arange(len(rewards)), step["lengths"] - 1] = step["rewards"]
    return rewards


def in_turn(ways: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median milliseconds of each way."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way()
    for _ in range(repeats):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            times[name].append((time.perf_counter() - began) * 1e3)
    return {name: statistics.median(taken) for name, taken in times.items()}


def of_verl(rewards: Any, mask: Any, uids: Any) -> dict[str, dict[str, Callable[[], Any]]]:
    """verl's ways for the estimators it has."""
    from verl.trainer.ppo import core_algos as verl

    def dr_grpo(function: Callable[..., Any]) -> Callable[[], Any]:
        return lambda: function(rewards, mask, uids, norm_adv_by_std_in_grpo=False)

    def plain(function: Callable[..., Any]) -> Callable[[], Any]:
        return lambda: function(rewards, mask, uids)

    loop, vectorised = (
        verl.compute_grpo_outcome_advantage,
        verl.compute_grpo_vectorized_outcome_advantage,
    )
    return {
        "grpo": {"loop": plain(loop), "vectorised": plain(vectorised)},
        "dr_grpo": {"loop": dr_grpo(loop), "vectorised": dr_grpo(vectorised)},
        "rloo": {
            "loop": plain(verl.compute_rloo_outcome_advantage),
            "vectorised": plain(verl.compute_rloo_vectorized_outcome_advantage),
        },
    }


def compare_estimators(repeats: int) -> dict[str, Any]:
    """Milliseconds of every estimator and of verl's, on the same rewards and ids."""
    import torch

    from trainer_adapter.methods.advantages.grpo_lead import lead_rewards
    from trainer_adapter.methods.groups import over_tokens
    from trainer_adapter.methods.registry import FORMULAS, find_formula

    step = draw(tokens=1)
    rewards, mask, uids = step["rewards"][:, None], step["mask"], step["uids"]
    verls = of_verl(rewards, mask, uids)
    ways: dict[str, Callable[[], Any]] = {
        f"verl {name} {kind}": way for name, kinds in verls.items() for kind, way in kinds.items()
    }

    def ours(function: Callable[..., Any]) -> Callable[[], Any]:
        return lambda: over_tokens(function(rewards.sum(-1), uids), mask)

    for name in FORMULAS["advantage"]:
        ways[name] = ours(find_formula("advantage", name))
    tokens = torch.randint(1, 3073, (len(uids),), generator=torch.Generator().manual_seed(1))
    ways["grpo_lead rewards"] = lambda: lead_rewards(rewards.sum(-1), tokens, uids)
    taken = in_turn(ways, repeats)
    report: dict[str, Any] = {"verl": {name: round(ms, 3) for name, ms in taken.items() if "verl" in name}}
    for name in (name for name in taken if not name.startswith("verl")):
        beside = name if name in verls else "grpo"
        loop, vectorised = (taken[f"verl {beside} {kind}"] for kind in ("loop", "vectorised"))
        report[name] = {
            "ms": round(taken[name], 3),
            "loop_of": beside,
            "times_faster_than_loop": round(loop / taken[name], 1),
            "times_faster_than_vectorised": round(vectorised / taken[name], 2),
        }
        line = f"verl {beside}: loop {loop:8.1f} ms, vectorised {vectorised:6.2f} ms"
        print(f"{name:20} {taken[name]:8.2f} ms   {line}")
    return report


def compare_with_tokens(tokens: int, repeats: int) -> dict[str, Any]:
    """The same for GRPO with advantages written on every token, in float32 as verl does."""
    from trainer_adapter.methods.advantages.grpo import grpo_advantages
    from trainer_adapter.methods.groups import over_tokens

    step = draw(tokens)
    rewards, mask, uids = token_rewards(step), step["mask"], step["uids"]
    verls = of_verl(rewards, mask, uids)["grpo"]
    ways: dict[str, Callable[[], Any]] = {f"verl_{kind}": way for kind, way in verls.items()}
    ways["ours"] = lambda: over_tokens(grpo_advantages(rewards.sum(-1), uids).float(), mask)
    ways["reading_and_writing"] = lambda: over_tokens(rewards.sum(-1), mask)
    taken = in_turn(ways, repeats)
    print("grpo on all tokens:  " + "   ".join(f"{name} {ms:.1f} ms" for name, ms in taken.items()))
    ratios = {
        f"times_faster_than_{kind}": round(taken[f"verl_{kind}"] / taken["ours"], 2)
        for kind in ("loop", "vectorised")
    }
    return {name: round(ms, 2) for name, ms in taken.items()} | ratios


if __name__ == "__main__":
    main()
