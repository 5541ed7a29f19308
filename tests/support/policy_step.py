"""One step of training on the sandbox's shipped policy, without verl around it: the parts that verl calls.

Responses come from the CPU rollout's batch, grades from the shared grader, advantages and loss from the
plug-in; the model's forward pass is that of transformers, padded on the left with positions, as verl scores.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from evaluator.grading import Grader
from sandbox.phrasings import PHRASINGS
from sandbox.policy import write_shipped_policy
from sandbox.questions import Asked, draw_questions
from service.models.local.cache import Room
from trainer_adapter.methods.recipes import RECIPES, Recipe
from trainer_adapter.methods.step_advantages import StepAdvantages, step_advantages
from trainer_adapter.verl.cpu.drawing_batch import DrawingBatch, SamplingParams
from trainer_adapter.verl.plugin.sessions import prompt_of, seed_of

NEIGHBORS, LONGEST = 3, 40
WITHOUT_KL = replace(RECIPES["ta_grpo"].loss, kl_coef=0.0)


def recipe_of(name: str) -> Recipe:
    """Return a recipe without its KL penalty: the penalty is of the policy against itself here."""
    return replace(RECIPES[name], loss=WITHOUT_KL)


def load_policy(folder: Path) -> tuple[Any, Any]:
    """Write the shipped policy to a folder and return model and tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    write_shipped_policy(folder)
    return AutoModelForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


def with_neighbors(questions: Sequence[Asked], *, same: bool = False) -> list[list[Asked]]:
    """Return each question with three other phrasings behind it, or with itself three times."""
    draw = random.Random(0)
    groups = []
    for question in questions:
        others = [phrasing for phrasing in PHRASINGS if phrasing is not question.phrasing]
        chosen = [question.phrasing] * NEIGHBORS if same else draw.sample(others, NEIGHBORS)
        groups.append([question, *(Asked(question.problem, phrasing) for phrasing in chosen)])
    return groups


def training_questions(count: int) -> list[Asked]:
    return draw_questions(0, count, 8)[0]


@dataclass(frozen=True)
class Rollouts:
    """Responses to questions and their neighbors, in the order of question and session.

    `own` and `question` are the ids of the prompt that was asked and of the question's own prompt, for each
    response; `log_probs` those the tokens were drawn with.
    """

    own: list[list[int]]
    question: list[list[int]]
    responses: list[list[int]]
    log_probs: list[list[float]]
    question_B: torch.Tensor
    variant_B: torch.Tensor
    correct_B: torch.Tensor

    def __len__(self) -> int:
        return len(self.responses)

    @property
    def lengths(self) -> list[int]:
        return [len(response) for response in self.responses]

    @property
    def mask_BT(self) -> torch.Tensor:
        return torch.nn.utils.rnn.pad_sequence([torch.ones(n) for n in self.lengths], batch_first=True)

    def groups(self, recipe: Recipe) -> torch.Tensor:
        """Return the group of each response: its question's, or its prompt's."""
        if recipe.group == "joint":
            return self.question_B
        return self.question_B * (NEIGHBORS + 1) + self.variant_B

    def anchors(self, recipe: Recipe) -> list[list[int]]:
        """Return the prompts that log-probs are conditioned on."""
        return self.own if recipe.anchor == "own" else self.question

    def estimates(self, recipe: Recipe, old_BT: torch.Tensor) -> StepAdvantages:
        return step_advantages(
            recipe,
            self.correct_B.double(),
            self.correct_B,
            self.mask_BT,
            old_BT,
            self.groups(recipe),
            max_length=LONGEST,
        )


def prompt_ids(tokenizer: Any, text: str) -> list[int]:
    messages = [{"role": "user", "content": text}]
    rendered = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    ids: list[int] = tokenizer(rendered, add_special_tokens=False)["input_ids"]
    return ids


def draw_rollouts(
    model: Any, tokenizer: Any, groups: Sequence[Sequence[Asked]], *, responses: int = 8, seed: int = 1
) -> Rollouts:
    """Draw responses to each prompt of each group at temperature 1, seeded as in training, and grade them."""
    prompts = [[prompt_ids(tokenizer, asked.text) for asked in group] for group in groups]
    batch = DrawingBatch(model, {tokenizer.eos_token_id}, Room(512, 1 << 20))
    places = []
    for number, group in enumerate(groups):
        total = responses * len(group)
        for session in range(total):
            variant = prompt_of(session, len(group), total)
            how = SamplingParams(1.0, LONGEST, seed=seed_of(seed, 1, str(number), 0, session))
            batch.add(len(places), prompts[number][variant], how)
            places.append((number, variant))
    drawn = {}
    while batch.under_way:
        drawn.update(batch.step())
    found = [drawn[place] for place in range(len(places))]
    texts = [tokenizer.decode(one.token_ids, skip_special_tokens=True) for one in found]
    with Grader(workers=1) as grader:
        pairs = [(text, groups[number][0].answer) for text, (number, _) in zip(texts, places, strict=True)]
        grades = grader.grade_many(pairs)
    return Rollouts(
        own=[prompts[number][variant] for number, variant in places],
        question=[prompts[number][0] for number, _ in places],
        responses=[one.token_ids for one in found],
        log_probs=[one.log_probs for one in found],
        question_B=torch.tensor([number for number, _ in places]),
        variant_B=torch.tensor([variant for _, variant in places]),
        correct_B=torch.tensor([grade.value == "correct" for grade in grades]),
    )


def response_log_probs(
    model: Any, prompts: Sequence[Sequence[int]], responses: Sequence[Sequence[int]], pad: int
) -> torch.Tensor:
    """Return the log-probs of responses after their prompts, shape BT, 0 behind their ends."""
    rows = [[*prompt, *response] for prompt, response in zip(prompts, responses, strict=True)]
    width = max(map(len, rows))
    ids = torch.tensor([[pad] * (width - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    logits = model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False).logits
    log_probs = torch.log_softmax(logits[:, :-1], -1).gather(-1, ids[:, 1:, None])[..., 0]
    parts = [line[width - 1 - len(response) :] for line, response in zip(log_probs, responses, strict=True)]
    return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)


def recipe_loss_of(
    recipe: Recipe, rollouts: Rollouts, new_BT: torch.Tensor, old_BT: torch.Tensor
) -> tuple[torch.Tensor, dict[str, float]]:
    """Return the plug-in's loss of all responses as one mini-batch, called as a worker of verl calls it."""
    from tensordict import TensorDict
    from verl.utils import tensordict_utils

    from trainer_adapter.verl.plugin.loss import SCALE_FIELD, LossTerms, recipe_loss, scale_rows

    made = rollouts.estimates(recipe, old_BT)
    lengths, anchors = rollouts.lengths, rollouts.anchors(recipe)

    def cut(values_BT: torch.Tensor) -> torch.Tensor:
        return _nested([line[:n] for line, n in zip(values_BT, lengths, strict=True)])

    fields = {
        "prompts": _nested([torch.tensor(prompt) for prompt in anchors]),
        "responses": _nested([torch.tensor(response) for response in rollouts.responses]),
        "response_mask": _nested([torch.ones(n, dtype=torch.long) for n in lengths]),
        "old_log_probs": cut(old_BT),
        "advantages": cut(made.advantages_BT),
        SCALE_FIELD: scale_rows(
            rollouts.mask_BT, torch.ones(len(rollouts)), mini_batch=len(rollouts), ranks=1
        ),
    }
    data = TensorDict(fields, batch_size=len(rollouts))
    tensordict_utils.assign_non_tensor(data, dp_size=1, batch_num_tokens=sum(lengths))
    # A worker gives log-probs of the next token at every place of prompt and response.
    whole = [
        torch.cat([torch.zeros(len(prompt) - 1), line[:n], torch.zeros(1)])
        for prompt, line, n in zip(anchors, new_BT, lengths, strict=True)
    ]
    loss, metrics = recipe_loss(
        model_output={"log_probs": _nested(whole)}, data=data, terms=LossTerms(recipe.loss, LONGEST)
    )
    return loss, {name: float(value.aggregate()) for name, value in metrics.items()}


def first_update(
    model: Any, recipe: Recipe, rollouts: Rollouts, pad: int
) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
    """Return the gradients of the first inner update of a step, and the loss's metrics."""
    anchors = rollouts.anchors(recipe)
    with torch.no_grad():
        old_BT = response_log_probs(model, anchors, rollouts.responses, pad)
    model.zero_grad(set_to_none=True)
    new_BT = response_log_probs(model, anchors, rollouts.responses, pad)
    loss, metrics = recipe_loss_of(recipe, rollouts, new_BT, old_BT)
    loss.backward()
    gradients = {
        name: parameter.grad.clone()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    return gradients, metrics


def _nested(rows: list[torch.Tensor]) -> torch.Tensor:
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)
