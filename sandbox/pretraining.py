"""Pre-training a policy from scratch: a small Qwen 3 on the corpus of a world, on the CPU.

Its size and its tokenizer are those of the shipped policy, the same for all worlds. The tokenizer is a
byte-level BPE with one token per digit. A question has two special tokens around it.

Rows are left-aligned and positions count from 0, as in any plain forward pass; verl and the samplers pad on
the left and pass position ids, which comes to the same.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from sandbox.corpus import Example, draw_examples
from sandbox.worlds import World

SHIPPED_POLICY = Path(__file__).parent / "data" / "policy-a"


@dataclass(frozen=True)
class Schedule:
    """How long and how fast it learns: a warm-up, then a cosine down to a twentieth."""

    steps: int = 1000
    batch: int = 64
    # of the matrices, which Muon updates (arXiv 2502.16982, 2.2): .6 times the steps of AdamW alone
    matrix_rate: float = 4e-3
    rate: float = 3e-3  # of embeddings and norms, which AdamW updates
    warm_up: int = 50
    clip: float = 1.0
    chunks: int = 2  # of a batch, by length: less padding, the same gradient but for rounding


@dataclass(frozen=True)
class PretrainingProgress:
    """Where training stands."""

    step: int
    steps: int
    loss: float  # nats a token, mean since the last report
    seconds: float


SCHEDULE = Schedule()
REPORT_EVERY = 100


def pretrain(
    world: World,
    *,
    seed: int,
    threads: int,
    report: Callable[[PretrainingProgress], None],
    schedule: Schedule = SCHEDULE,
) -> tuple[Any, Any]:
    """Return a policy of the world in float32, and its tokenizer.

    With one thread the same seed gives the same bits on the same machine and build of torch; with several
    the order of sums may differ, and so the last digits.
    """
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(threads)
    tokenizer = AutoTokenizer.from_pretrained(SHIPPED_POLICY)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(SHIPPED_POLICY))
    examples = draw_examples(world, seed)
    optimizers = _optimizers(model, schedule)
    began, losses = time.monotonic(), []
    for step in range(1, schedule.steps + 1):
        for optimizer, rate in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * _share_of_rate(step, schedule)
        rows = encode(tokenizer, list(islice(examples, schedule.batch)))
        losses.append(_learn(model, rows, tokenizer.pad_token_id, schedule.chunks))
        torch.nn.utils.clip_grad_norm_(model.parameters(), schedule.clip)
        for optimizer, _ in optimizers:
            optimizer.step()
        model.zero_grad(set_to_none=True)
        if step % REPORT_EVERY == 0 or step == schedule.steps:
            report(
                PretrainingProgress(step, schedule.steps, sum(losses) / len(losses), time.monotonic() - began)
            )
            losses = []
    return model.eval(), tokenizer


def _optimizers(model: Any, schedule: Schedule) -> list[tuple[Any, float]]:
    """Return the optimizers with their highest rates."""
    matrices: list[Any] = []
    others: list[Any] = []
    for name, parameter in model.named_parameters():
        is_matrix = parameter.ndim == 2 and "embed" not in name
        (matrices if is_matrix else others).append(parameter)
    muon = torch.optim.Muon(matrices, weight_decay=0.01, adjust_lr_fn="match_rms_adamw")
    adam = torch.optim.AdamW(others, betas=(0.9, 0.98), weight_decay=0.0, fused=True)
    return [(muon, schedule.matrix_rate), (adam, schedule.rate)]


TokenRow = tuple[tuple[int, ...], int]
"""An example as token ids: prompt and response with its end, and where the response begins."""


def encode(tokenizer: Any, examples: Sequence[Example]) -> list[TokenRow]:
    """Return the examples as the policy will see them: question in the chat template, then the response."""
    messages = [[{"role": "user", "content": example.question}] for example in examples]
    prompts = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    responses = [example.response + tokenizer.eos_token for example in examples]
    heads = tokenizer(prompts, add_special_tokens=False)["input_ids"]
    tails = tokenizer(responses, add_special_tokens=False)["input_ids"]
    return [((*head, *tail), len(head)) for head, tail in zip(heads, tails, strict=True)]


def _learn(model: Any, rows: Sequence[TokenRow], pad: int, chunks: int) -> float:
    """Add the gradient of the mean loss over the tokens of all responses; return that loss."""
    by_length = sorted(rows, key=lambda row: len(row[0]))
    tokens = sum(len(ids) - begin for ids, begin in rows)
    size = -(-len(rows) // chunks)
    total = 0.0
    for first in range(0, len(rows), size):
        loss = _loss_sum(model, by_length[first : first + size], pad) / tokens
        loss.backward()
        total += loss.item()
    return total


def _loss_sum(model: Any, rows: Sequence[TokenRow], pad: int) -> torch.Tensor:
    """Return the sum of -log p over the tokens of the responses. Padding stands behind the rows: no mask."""
    width = max(len(ids) for ids, _ in rows)
    ids = torch.full((len(rows), width), pad)
    is_predicted = torch.zeros((len(rows), width), dtype=torch.bool)
    for place, (of_row, begin) in enumerate(rows):
        ids[place, : len(of_row)] = torch.tensor(of_row)
        is_predicted[place, begin : len(of_row)] = True
    hidden = model.model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
    logits = model.lm_head(hidden[is_predicted[:, 1:]])
    return torch.nn.functional.cross_entropy(logits, ids[is_predicted], reduction="sum")


def _share_of_rate(step: int, schedule: Schedule) -> float:
    decay = 0.5 * (1 + math.cos(math.pi * (step - 1) / schedule.steps))
    return min(1.0, step / schedule.warm_up) * (0.95 * decay + 0.05)
