"""The study's recipes trained by a plain loop: quick enough to try what verl then confirms.

The policy, the questions with their neighbors and the held-out questions are those of a world of
`sandbox_study.py`; everything else (sampling, grading, advantages, ratios, weights, loss, optimiser) is
written here again, in one file, without verl and without the project's own formulas. Where its pass@k agree
with the study's rows of the same recipes, the trainer adapter is not the reason for what they show.

`sandbox_study.py --plain` runs it, a process a training. Recipe `base` evaluates the policy that all start
from.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.harness import read_jsonl
from benchmarks.studies.sandbox_study_plan import ALL, SMALL, Plain
from benchmarks.studies.sandbox_world import SAMPLES

QUESTIONS, GROUP, MINI_BATCHES, LONGEST = 16, 8, 2, 40
CLIP = 0.2
_BOXED = re.compile(r"\\boxed\{(\d+)\}\s*$")


Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Question:
    """Prompts as tokens, the question's own first; the answer."""

    prompts: list[list[int]]
    answer: str


@dataclass(frozen=True)
class Response:
    """Tokens with the one that ends them, the prompt they were drawn for (0: the question), the reward."""

    tokens: list[int]
    prompt: int
    reward: float


@dataclass
class Policy:
    """A model with its tokenizer."""

    model: Any
    tokenizer: Any

    def tokens(self, messages: list[dict[str, str]]) -> list[int]:
        """Return a prompt as the model reads it."""
        text = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    @torch.no_grad()
    def draw(self, prompts: list[list[int]]) -> list[list[int]]:
        """Return a response to each prompt, with the token that ends it.

        A prompt that appears several times is read once, and rows that ended are left out.
        """
        numbers = {prompt: number for number, prompt in enumerate(dict.fromkeys(map(tuple, prompts)))}
        longest, pad = max(map(len, numbers)), self.tokenizer.pad_token_id
        ids = torch.tensor([[pad] * (longest - len(prompt)) + list(prompt) for prompt in numbers])
        mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in numbers])
        places = (mask.cumsum(1) - 1).clamp(min=0)
        read = self.model(ids, attention_mask=mask, position_ids=places, use_cache=True, logits_to_keep=1)
        rows = torch.tensor([numbers[tuple(prompt)] for prompt in prompts])
        cache, logits, mask = read.past_key_values, read.logits[rows, -1], mask[rows]
        cache.batch_select_indices(rows)
        responses: list[list[int]] = [[] for _ in prompts]
        going = list(range(len(prompts)))
        while True:
            chance = torch.empty_like(logits).exponential_()
            tokens = (torch.softmax(logits, -1) / chance).argmax(-1)
            for row, token in zip(going, tokens.tolist(), strict=True):
                responses[row].append(token)
            kept = tokens != self.tokenizer.eos_token_id
            if len(responses[going[0]]) == LONGEST or not kept.any():
                return responses
            if not kept.all():
                stay = kept.nonzero()[:, 0]
                cache.batch_select_indices(stay)
                mask, tokens, going = mask[stay], tokens[stay], [going[at] for at in stay.tolist()]
            places = mask.sum(1, keepdim=True)
            mask = torch.cat([mask, torch.ones_like(mask[:, :1])], 1)
            logits = self.model(
                tokens[:, None],
                attention_mask=mask,
                position_ids=places,
                past_key_values=cache,
                use_cache=True,
            ).logits[:, -1]

    def answer(self, questions: list[Question], prompts: list[list[int]]) -> list[list[Response]]:
        """Return responses to each question, one to each of its prompts that are named by number."""
        asked = [question.prompts[n] for question, ns in zip(questions, prompts, strict=True) for n in ns]
        drawn = iter(self.draw(asked) if asked else [])
        answers = []
        for question, ns in zip(questions, prompts, strict=True):
            tokens = [next(drawn) for _ in ns]
            answers.append(
                [Response(t, n, self.right(t, question.answer)) for t, n in zip(tokens, ns, strict=True)]
            )
        return answers

    def right(self, response: list[int], answer: str) -> float:
        """Return 1 where the response ends with the answer in a box, else 0."""
        box = _BOXED.search(self.tokenizer.decode(response, skip_special_tokens=True))
        return float(box is not None and box[1] == answer)

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
        states = self.model.model(ids).last_hidden_state  # what is behind a response is never looked at by it
        read = states.gather(1, (where - 1).clamp(min=0)[..., None].expand(-1, -1, states.shape[-1]))
        wanted = ids.gather(1, where)[..., None]
        return torch.log_softmax(self.model.lm_head(read), -1).gather(-1, wanted)[..., 0] * mask, mask


def draw_groups(
    policy: Policy, questions: list[Question], recipe: Plain, chance: np.random.Generator
) -> list[list[Response]]:
    """Return `GROUP` responses to each question, spread over its prompts as the recipe wants."""
    if recipe.augments:
        return policy.answer(questions, [[int(chance.integers(recipe.prompts))] * GROUP for _ in questions])
    if not recipe.rescue:
        each = [n for n in range(recipe.prompts) for _ in range(GROUP // recipe.prompts)]
        return policy.answer(questions, [each] * len(questions))
    first = policy.answer(questions, [[0] * (GROUP // 2)] * len(questions))
    neighbors = list(range(1, recipe.prompts))
    more = [
        [0] * (GROUP // 2)
        if any(response.reward for response in group)
        else sorted([*neighbors, *chance.choice(neighbors, GROUP // 2 - len(neighbors)).tolist()])
        for group in first
    ]
    return [a + b for a, b in zip(first, policy.answer(questions, more), strict=True)]


def advantages(rewards: Array, recipe: Plain) -> Array:
    """Return rewards [Q, G] above their group's mean, in its standard deviations or means; dead groups 0."""
    above = rewards - rewards.mean(-1, keepdims=True)
    divisor = getattr(rewards, "std" if recipe.divisor == "deviation" else "mean")(-1, keepdims=True)
    return np.asarray(above / np.where(divisor > 0, divisor, 1.0))


def update(
    policy: Policy, reference: Policy, optimiser: Any, rows: list[tuple[Question, Response, float]], kl: float
) -> None:
    """Descend the clipped loss of responses with their weighted advantages, in `MINI_BATCHES` parts.

    A question of `rows` has the prompt first that its response is trained on.
    """
    size = len(rows) // MINI_BATCHES
    parts = [rows[start : start + size] for start in range(0, len(rows), size)]
    batches = [([q.prompts[0] for q, _, _ in part], [r.tokens for _, r, _ in part]) for part in parts]
    with torch.no_grad():
        old = [policy.log_probs(*batch)[0] if number else None for number, batch in enumerate(batches)]
        first = [reference.log_probs(*batch)[0] for batch in batches] if kl else []
    for number, (part, batch) in enumerate(zip(parts, batches, strict=True)):
        new, held = policy.log_probs(*batch)
        before = old[number]
        ratio = (new - (new.detach() if before is None else before)).exp()
        gain = torch.tensor([gain for _, _, gain in part], dtype=torch.float32)[:, None]
        kept = torch.minimum(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain)
        if kl:
            far = (first[number] - new).clamp(-20, 20)
            kept = kept - kl * (far.exp() - far - 1).clamp(-10, 10)
        loss = -((kept * held).sum(1) / held.sum(1)).mean()
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.model.parameters(), 1.0)
        optimiser.step()


def weigh(policy: Policy, rows: list[tuple[Question, Response, float]], recipe: Plain) -> list[float]:
    """Return advantages times the weights of responses to neighbors that are trained on the question."""
    if recipe.anchor not in ("tapered", "dropped"):
        return [gain for _, _, gain in rows]
    weights = [1.0] * len(rows)
    foreign = [at for at, (_, response, gain) in enumerate(rows) if response.prompt and gain <= 0]
    if foreign and recipe.anchor == "tapered":
        tokens = [rows[at][1].tokens for at in foreign]
        with torch.no_grad():
            on_question, _ = policy.log_probs([rows[at][0].prompts[0] for at in foreign], tokens)
            on_own, _ = policy.log_probs([rows[at][0].prompts[rows[at][1].prompt] for at in foreign], tokens)
        ratios = (on_question - on_own).sum(1).clamp(max=0).exp().tolist()
    else:
        ratios = [0.0] * len(foreign)
    for at, ratio in zip(foreign, ratios, strict=True):
        weights[at] = ratio
    return [weight * gain for weight, (_, _, gain) in zip(weights, rows, strict=True)]


def step(
    policy: Policy,
    reference: Policy,
    optimiser: Any,
    questions: list[Question],
    recipe: Plain,
    chance: np.random.Generator,
) -> dict[str, float]:
    """Draw for the questions and update the policy; return the shares of groups that are of interest."""
    groups = draw_groups(policy, questions, recipe, chance)
    rewards = np.array([[response.reward for response in group] for group in groups])
    gains = advantages(rewards, recipe)
    rows = [
        (question, response, float(gain))
        for question, group, each in zip(questions, groups, gains, strict=True)
        for response, gain in zip(group, each, strict=True)
    ]
    weighted = weigh(policy, rows, recipe)
    if recipe.anchor == "own":
        rows = [(Question([q.prompts[r.prompt]], q.answer), r, gain) for q, r, gain in rows]
    trained = [(q, r, gain) for (q, r, _), gain in zip(rows, weighted, strict=True)]
    update(policy, reference, optimiser, trained, recipe.kl)
    dead = rewards.std(-1) == 0
    asked = np.array([any(response.prompt for response in group) for group in groups])
    shares = {"dead": float(dead.mean())}
    if recipe.rescue:
        shares["asked_again"] = float(asked.mean())
        if asked.any():
            shares["revived"] = float((asked & ~dead).sum() / asked.sum())
    return shares


def evaluate(policy: Policy, heldout: list[Question]) -> list[int]:
    """Return how many of `SAMPLES` responses to each question are right."""
    correct: list[int] = []
    for start in range(0, len(heldout), 8):
        part = heldout[start : start + 8]
        answers = policy.answer(part, [[0] * SAMPLES] * len(part))
        correct += [round(sum(response.reward for response in each)) for each in answers]
    return correct


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
    heldout = [
        Question([policy.tokens([{"role": "user", "content": row["question"]}])], row["answer"])
        for row in read_jsonl(folder / "questions" / "heldout.jsonl")
    ]
    return train, heldout


def with_broken(questions: list[Question], share: float, chance: np.random.Generator) -> list[Question]:
    """Return the questions with other ones in the places of that share of their neighbors."""
    if not share:
        return questions

    def other(at: int) -> list[int]:
        return questions[(at + 1 + int(chance.integers(len(questions) - 1))) % len(questions)].prompts[0]

    return [
        Question([own, *(other(at) if chance.random() < share else n for n in neighbors)], question.answer)
        for at, question in enumerate(questions)
        for own, *neighbors in [question.prompts]
    ]


def batches(
    questions: list[Question], share: float | None, chance: np.random.Generator
) -> Iterator[list[Question]]:
    """Yield `QUESTIONS` at a time, epoch by epoch in a new order; a part of them is chosen by chance."""
    if share is not None:
        questions = [questions[at] for at in chance.permutation(len(questions))[: round(share * SMALL)]]
    while True:
        order = chance.permutation(len(questions)).tolist()
        for start in range(0, len(order) - QUESTIONS + 1, QUESTIONS):
            yield [questions[at] for at in order[start : start + QUESTIONS]]


def train(world: Path, name: str, rate: float, seed: int, points: Sequence[int]) -> list[dict[str, Any]]:
    """Train a recipe, and return a row for each of the `points`; minutes are of training alone.

    A row has what was drawn until then, and the right answers among `SAMPLES` to each held-out question.
    """
    torch.manual_seed(seed)
    chance = np.random.default_rng(seed)
    policy, reference = load(world / "policy"), load(world / "policy")
    questions, heldout = read_world(world, policy)
    if name == "base":
        return [{"steps": 0, "drawn": 0, "minutes": "", "correct": evaluate(policy, heldout)}]
    recipe = ALL[name].plain
    questions = with_broken(questions, recipe.broken, chance)
    optimiser = torch.optim.AdamW(policy.model.parameters(), lr=rate)
    drawn = batches(questions, recipe.share, chance)
    rows, shares, spent = [], [], 0.0
    for number in range(1, points[-1] + 1):
        before = time.perf_counter()
        shares.append(step(policy, reference, optimiser, next(drawn), recipe, chance))
        spent += time.perf_counter() - before
        if number in points:
            means = {
                key: float(np.mean([each[key] for each in shares if key in each]))
                for key in sorted({key for each in shares for key in each})
            }
            rows.append(
                {
                    "steps": number,
                    "drawn": number * QUESTIONS * GROUP,
                    **means,
                    "minutes": round(spent / 60, 2),
                    "correct": evaluate(policy, heldout),
                }
            )
    return rows
