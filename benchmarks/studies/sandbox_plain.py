"""The sandbox's training by a plain loop, beside verl's: whether what the study finds comes from the trainer.

The policy, the questions with their neighbors and the held-out questions are those of a world of
`sandbox_study.py`; everything else (sampling, grading, advantages, ratios, loss, optimiser) is written here
again, in one file, without verl and without the project's own code. Where its pass@k agree with the study's
rows of the same recipes, the trainer adapter is not the reason for what they show.

    python -m benchmarks.studies.sandbox_plain STUDY --world E [--recipes grpo_matched,ta_grpo] [--seeds 2]

STUDY is the folder of `sandbox_study.py`, in which the world's folder must be. Beside each recipe stand the
study's cells of it, where there are any. `--policy` trains another policy there; `--steps`, `--rate`,
`--betas` and `--decay` change the updates. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.studies.sandbox_study import read_results

KS = (1, 8, 32)
SAMPLES, QUESTIONS, MINI_BATCHES, LONGEST = 64, 16, 2, 40
CLIP, KL = 0.2, 1e-3
_BOXED = re.compile(r"\\boxed\{(\d+)\}\s*$")


@dataclass(frozen=True)
class Plain:
    """A recipe: prompts a question, responses a prompt, one group for all of them, ratios on the question."""

    prompts: int
    responses: int
    joint: bool
    anchored: bool


RECIPES = {
    "grpo": Plain(1, 8, True, False),
    "grpo_matched": Plain(1, 32, True, False),
    "ta_grpo": Plain(4, 8, True, True),
    "ta_grpo_star": Plain(4, 8, False, False),
    "joint_own": Plain(4, 8, True, False),
}


@dataclass(frozen=True)
class Question:
    """Prompts as tokens, the question's own first; the answer."""

    prompts: list[list[int]]
    answer: str


@dataclass
class Policy:
    """A model with its tokenizer."""

    model: Any
    tokenizer: Any

    def tokens(self, messages: list[dict[str, str]]) -> list[int]:
        """Return a prompt as the model reads it."""
        found = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        return list(self.tokenizer(found, add_special_tokens=False)["input_ids"])

    @torch.no_grad()
    def draw(self, prompts: list[list[int]], each: int) -> list[list[int]]:
        """Return `each` responses to every prompt, with the token that ends them, in the prompts' order."""
        longest, pad = max(map(len, prompts)), self.tokenizer.pad_token_id
        rows = torch.tensor([[pad] * (longest - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        drawn = self.model.generate(
            rows,
            attention_mask=mask,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            max_new_tokens=LONGEST,
            num_return_sequences=each,
            pad_token_id=pad,
        )
        end = self.tokenizer.eos_token_id
        responses = []
        for row in drawn[:, longest:].tolist():
            responses.append(row[: row.index(end) + 1] if end in row else row)
        return responses

    def log_probs(self, prompts: list[list[int]], responses: list[list[int]]) -> tuple[Tensor, Tensor]:
        """Return log-probabilities of the responses' tokens and 1 where there is one, both (rows, tokens)."""
        longest = max(len(p) + len(r) for p, r in zip(prompts, responses, strict=True))
        width = max(map(len, responses))
        ids = torch.zeros(len(responses), longest, dtype=torch.long)
        where = torch.zeros(len(responses), width, dtype=torch.long)
        mask = torch.zeros(len(responses), width)
        for row, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
            whole = prompt + response
            ids[row, : len(whole)] = torch.tensor(whole)
            where[row, : len(response)] = torch.arange(len(prompt), len(whole))
            mask[row, : len(response)] = 1
        logits = self.model(ids).logits  # what is behind a response is never looked at by it
        read = logits.gather(1, (where - 1).clamp(min=0)[..., None].expand(-1, -1, logits.shape[-1]))
        wanted = ids.gather(1, where)[..., None]
        return torch.log_softmax(read, -1).gather(-1, wanted)[..., 0] * mask, mask

    def right(self, response: list[int], answer: str) -> float:
        """Return 1 where the response ends with the answer in a box, else 0."""
        found = _BOXED.search(self.tokenizer.decode(response, skip_special_tokens=True))
        return float(found is not None and found[1] == answer)


def normalised(rewards: np.ndarray) -> np.ndarray:
    """Return rewards less their mean over the last axis, divided by their (sample) standard deviation."""
    spread = rewards.std(-1, ddof=1, keepdims=True)
    return np.where(spread > 0, (rewards - rewards.mean(-1, keepdims=True)) / (spread + 1e-6), 0.0)


def step(policy: Policy, reference: Policy, optimiser: Any, asked: list[Question], recipe: Plain) -> None:
    """Draw for the questions, and update the policy in `MINI_BATCHES` parts."""
    prompts = [prompt for question in asked for prompt in question.prompts[: recipe.prompts]]
    responses = policy.draw(prompts, recipe.responses)
    group = recipe.prompts * recipe.responses
    rewards = np.array([policy.right(r, asked[row // group].answer) for row, r in enumerate(responses)])
    shape = (len(asked), recipe.prompts, recipe.responses)
    grouped = rewards.reshape(len(asked), group) if recipe.joint else rewards.reshape(shape)
    advantages = torch.tensor(normalised(grouped).reshape(-1), dtype=torch.float32)
    scored = [
        asked[row // group].prompts[0] if recipe.anchored else prompts[row // recipe.responses]
        for row in range(len(responses))
    ]
    with torch.no_grad():
        old, _ = policy.log_probs(scored, responses)
        first, _ = reference.log_probs(scored, responses)
    for part in np.array_split(np.arange(len(asked)), MINI_BATCHES):
        rows = [row for place in part for row in range(place * group, (place + 1) * group)]
        new, held = policy.log_probs([scored[row] for row in rows], [responses[row] for row in rows])
        width = new.shape[1]
        ratio = (new - old[rows, :width]).exp()
        gain = advantages[rows][:, None]
        kept = torch.minimum(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain)
        far = (first[rows, :width] - new).clamp(-20, 20)
        kl = (far.exp() - far - 1).clamp(-10, 10)
        loss = -(((kept - KL * kl) * held).sum(1) / held.sum(1)).mean()
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.model.parameters(), 1.0)
        optimiser.step()


def pass_at(correct: list[int], k: int) -> float:
    """Return the mean over questions of 1 - C(n-c, k) / C(n, k) (arXiv 2107.03374), n = `SAMPLES`."""
    return float(np.mean([1 - math.comb(SAMPLES - c, k) / math.comb(SAMPLES, k) for c in correct]))


def evaluate(policy: Policy, heldout: list[Question]) -> dict[str, float]:
    """Return pass@k on the held-out questions."""
    correct = []
    for start in range(0, len(heldout), 16):
        part = heldout[start : start + 16]
        drawn = policy.draw([question.prompts[0] for question in part], SAMPLES)
        correct += [
            int(sum(policy.right(r, question.answer) for r in drawn[at * SAMPLES : (at + 1) * SAMPLES]))
            for at, question in enumerate(part)
        ]
    return {str(k): round(pass_at(correct, k), 4) for k in KS}


def load(folder: Path) -> Policy:
    """Return the policy in a folder, in float32."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return Policy(model, AutoTokenizer.from_pretrained(folder))


def read_world(folder: Path, policy: Policy) -> tuple[list[Question], list[Question]]:
    """Return the world's training questions with their neighbors, and its held-out questions."""
    import pyarrow.parquet as pq

    train = [
        Question(
            [policy.tokens(messages) for messages in (row["prompt"], *row["neighbors"])],
            row["reward_model"]["ground_truth"],
        )
        for row in pq.read_table(folder / "verl" / "train.parquet").to_pylist()
    ]
    lines = (folder / "questions" / "heldout.jsonl").read_text(encoding="utf-8").splitlines()
    heldout = [
        Question([policy.tokens([{"role": "user", "content": one["question"]}])], one["answer"])
        for one in map(json.loads, lines)
    ]
    return train, heldout


def train(world: Path, name: str, seed: int, said: argparse.Namespace) -> dict[str, Any]:
    """Train a recipe with a seed, and return pass@k and the CPU seconds of a step."""
    torch.manual_seed(seed)
    chance = np.random.default_rng(seed)
    policy, reference = load(said.policy), load(said.policy)
    questions, heldout = read_world(world, policy)
    betas = tuple(float(part) for part in said.betas.split(","))
    optimiser = torch.optim.AdamW(
        policy.model.parameters(), lr=said.rate, betas=betas, weight_decay=said.decay
    )
    waiting: list[int] = []
    before = time.process_time()
    for _ in range(said.steps):
        if len(waiting) < QUESTIONS:
            waiting = chance.permutation(len(questions)).tolist()
        asked, waiting = [questions[at] for at in waiting[:QUESTIONS]], waiting[QUESTIONS:]
        step(policy, reference, optimiser, asked, RECIPES[name])
    spent = (time.process_time() - before) / max(1, said.steps)
    found = {"recipe": name, "seed": seed, "pass": evaluate(policy, heldout), "cpu_s_a_step": round(spent, 2)}
    print(f"{name:14} seed {seed}  {_row(found['pass'])}   {spent:.2f} s of CPU a step", flush=True)
    return found


def _row(scores: dict[str, float]) -> str:
    return "  ".join(f"@{k} {value:.3f}" for k, value in scores.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("study", type=Path, help="the folder of sandbox_study.py")
    parser.add_argument("--world", default="A")
    parser.add_argument("--policy", type=Path, help="a folder, in place of the world's policy")
    parser.add_argument("--recipes", default="grpo_matched,ta_grpo", help=", ".join(RECIPES))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--betas", default="0.9,0.999")
    parser.add_argument("--decay", type=float, default=0.01)
    said = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    world = said.study / f"world-{said.world}"
    if not (world / "verl" / "train.parquet").exists():
        sys.exit(f"{world}: not there; sandbox_study.py STUDY --worlds {said.world} makes it")
    said.policy = said.policy or world / "policy"
    policy = load(said.policy)
    base = evaluate(policy, read_world(world, policy)[1])
    print(f"{'base':22}  {_row(base)}")
    runs = []
    for name in said.recipes.split(","):
        for point, cell in read_results(said.study).items():
            if (point.world, point.recipe, point.steps) == (said.world, name, said.steps):
                scores = {str(k): cell[f"pass@{k}"] for k in KS}
                print(f"{name:14} verl {point.seed} at {point.rate:g}  {_row(scores)}", flush=True)
        runs += [train(world, name, seed, said) for seed in range(1, said.seeds + 1)]
    settings = {key: getattr(said, key) for key in ("world", "steps", "rate", "betas", "decay")}
    settings["policy"] = said.policy.name
    print(json.dumps({**settings, "base": base, "runs": runs}))


if __name__ == "__main__":
    main()
