"""Advantages and token weights: time against verl's functions on the same tensors; memory of weights.

First every estimator on 8,192 responses in 256 groups of 32, ids as verl has them (an array of texts), with
one token a response, so that the estimator is timed and not the writing of tokens; then GRPO's alone from
rewards on tokens to advantages on tokens, as verl calls it. There every way reads a tensor of 8,192 x 3,072
numbers and writes another, which `reading_and_writing` times alone: no way can be faster than that. verl's
loop version and its vectorised one stand for GRPO, Dr.GRPO and RLOO; the other estimators have no counterpart
in verl and stand beside GRPO's. Medians of repeated runs, ways in turn.

Then CW-GRPO's weights over groups and Clip-Cov's candidates over the batch, on 8,192 x 3,072 tokens in
float32, against straightforward versions: for CW-GRPO a loop over groups, and whole tensors; for Clip-Cov the
lines of verl's loss. Last the metrics of a step of that size, which have no counterpart. Each runs in a
process of its own, whose peak memory counts beyond its inputs; `result_mb` is the part that it returns.

    python -m benchmarks.speed.advantages [--threads 1] [--tokens 3072]

One thread by default, so that a busy machine does not decide. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness import run_apart

GROUPS, GROUP_SIZE = 256, 32
WEIGHTS = ("cw_ours", "cw_loop", "cw_whole", "clip_cov_ours", "clip_cov_verl", "metrics")


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=3072, help="tokens of the longest response")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument("--repeats", type=int, default=9, help="runs of each way; the median counts")
    parser.add_argument("--weights", choices=WEIGHTS, help=argparse.SUPPRESS)  # a process of its own
    args = parser.parse_args()

    import torch

    torch.set_num_threads(args.threads)
    if args.weights:
        print(json.dumps(measure_weights(args.weights, args.tokens)))
        return
    report: dict[str, Any] = {
        "responses": GROUPS * GROUP_SIZE,
        "groups": GROUPS,
        "tokens": args.tokens,
        "threads": args.threads,
        "estimators": compare_estimators(args.repeats),
        "grpo_with_tokens": compare_with_tokens(args.tokens, max(3, args.repeats // 3)),
        "weights": compare_weights(args),
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


def compare_weights(args: argparse.Namespace) -> dict[str, Any]:
    """Seconds and peak memory of token weights, each in a process of its own, and how far results differ."""
    report: dict[str, Any] = {}
    for name in WEIGHTS:
        taken = run_apart(__file__, "--weights", name, "--tokens", args.tokens, "--threads", args.threads)
        report[name] = taken
        print(
            f"{name:20} {taken['seconds']:8.2f} s   {taken['peak_mb']:8.0f} MB, of them "
            f"{taken['result_mb']:.0f} returned"
        )
    for kind, others in (("cw", ("loop", "whole")), ("clip_cov", ("verl",))):
        ours = report[f"{kind}_ours"]
        for other in others:
            straight, name = report[f"{kind}_{other}"], f"{kind}_against_{other}"
            report[name] = {
                "speedup": round(straight["seconds"] / ours["seconds"], 2),
                "memory_ratio": round(straight["peak_mb"] / max(ours["peak_mb"], 1.0), 2),
                "difference": abs(straight["checksum"] - ours["checksum"]) / abs(straight["checksum"]),
            }
    return report


def measure_weights(name: str, tokens: int) -> dict[str, float]:
    """Time one way; memory is the peak of this process in its first run, beyond its inputs."""
    import torch

    from trainer_adapter.methods.advantages.grpo import grpo_advantages
    from trainer_adapter.methods.groups import Groups
    from trainer_adapter.methods.token_weights.clip_cov import clip_cov_candidates
    from trainer_adapter.methods.token_weights.cw_grpo import cw_grpo_weights
    from trainer_adapter.record.metrics import step_metrics

    step = draw(tokens)
    groups = Groups.of(step["uids"])
    mask, index = step["mask"], groups.index_B
    log_probs = torch.empty_like(mask).exponential_(2.0, generator=torch.Generator().manual_seed(2)).neg_()
    advantages = grpo_advantages(step["rewards"], groups)
    batch = step_batch(step, groups, log_probs, advantages) if name == "metrics" else None
    ways: dict[str, Callable[[], Any]] = {
        "cw_ours": lambda: cw_grpo_weights(log_probs, advantages, mask, groups=index),
        "cw_loop": lambda: cw_loop(log_probs, advantages, mask, index),
        "cw_whole": lambda: cw_whole(log_probs, advantages, mask, groups),
        "clip_cov_ours": lambda: clip_cov_candidates(log_probs, advantages, mask).candidate_BT,
        "clip_cov_verl": lambda: clip_cov_straight(log_probs, advantages, mask),
        "metrics": lambda: step_metrics(batch),  # type: ignore[arg-type]
    }
    before = forget_peak()
    result = ways[name]()
    taken = peak_mb() - before
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        ways[name]()
        seconds.append(time.perf_counter() - began)
    found = isinstance(result, torch.Tensor)
    return {
        "seconds": round(statistics.median(seconds), 3),
        "peak_mb": round(taken, 1),
        "result_mb": round(result.numel() * result.element_size() / 2**20, 1) if found else 0.0,
        "checksum": float((result.double().square() * mask).sum()) if found else len(result),
    }


def step_batch(step: dict[str, Any], groups: Any, log_probs: Any, advantages: Any) -> Any:
    """A step of a recipe with neighbors, a reference policy, token weights and anchor corrected."""
    import torch

    from trainer_adapter.record.step_batch import StepBatch

    mask, rows = step["mask"], len(log_probs)
    generator = torch.Generator().manual_seed(3)
    near = [log_probs + 0.01 * torch.randn(mask.shape, generator=generator) for _ in range(2)]
    variant = torch.arange(rows) % 4
    return StepBatch(
        step=1,
        question_ids=tuple(step["uids"].tolist()),
        neighbor_ids=tuple(str(place) if place else None for place in variant.tolist()),
        question_B=groups.index_B,
        variant_B=variant,
        session_B=torch.arange(rows) % GROUP_SIZE,
        group_B=groups.index_B,
        rewards_B=step["rewards"].double(),
        correct_B=step["rewards"] > 0,
        unknown_B=torch.zeros(rows, dtype=torch.bool),
        truncated_B=step["lengths"] == mask.shape[-1],
        tokens_B=step["lengths"],
        prompt_tokens_B=torch.full((rows,), 100),
        response_ids_BT=mask,
        mask_BT=mask.long(),
        old_log_probs_BT=log_probs,
        sampling_log_probs_BT=near[0],
        ref_log_probs_BT=near[1],
        entropies_BT=-log_probs,
        advantages_BT=mask,
        advantages_B=advantages,
        weights_BT=mask,
        correction_BT=mask,
    )


def forget_peak() -> float:
    """Make Linux count the peak anew from here; return what is resident in MB."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_mb()


def peak_mb() -> float:
    """Peak resident memory of this process in MB."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def cw_loop(log_probs: Any, advantages: Any, mask: Any, index: Any) -> Any:
    """CW-GRPO's weights as one writes them down, group by group."""
    import torch

    weights = torch.zeros_like(log_probs)
    for group in index.unique():
        rows = index == group
        valid = mask[rows] > 0
        of_group = log_probs[rows]
        advantage = advantages[rows].float().unsqueeze(-1).expand_as(of_group)
        covariance = (of_group - of_group[valid].mean()) * (advantage - advantage[valid].mean())
        variance = covariance[valid].var(unbiased=False)
        found = torch.exp(-covariance.square() / (2 * variance)) * valid if variance > 0 else valid.float()
        weights[rows] = found * valid.sum() / found.sum()
    return weights


def cw_whole(log_probs: Any, advantages: Any, mask: Any, groups: Any) -> Any:
    """The same on whole tensors, with sums over the rows of a group."""

    def mean(values: Any) -> Any:
        return groups.spread(groups.sum((values * mask).sum(-1)) / groups.sum(mask.sum(-1))).unsqueeze(-1)

    advantage = advantages.float().unsqueeze(-1)
    covariance = (log_probs - mean(log_probs)) * (advantage - mean(advantage))
    variance = mean((covariance - mean(covariance)).square())
    found = (-covariance.square() / (2 * variance)).exp().where(variance > 0, 1.0) * mask
    return found / mean(found)


def clip_cov_straight(log_probs: Any, advantages: Any, mask: Any) -> Any:
    """Clip-Cov's candidates on whole tensors, as in verl's loss."""
    advantages = advantages.float().unsqueeze(-1).expand_as(log_probs)
    tokens = mask.sum()
    covariance = (advantages - (advantages * mask).sum() / tokens) * (
        log_probs - (log_probs * mask).sum() / tokens
    )
    covariance[mask == 0] = -float("inf")
    return (covariance <= 5.0) & (covariance >= 1.0) & (mask > 0)


if __name__ == "__main__":
    main()
