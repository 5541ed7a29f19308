"""A trainer for tests that runs several recipes one after the other, and keeps what the proofs look at.

verl's processes take half a minute to start and a tiny model's step a second. So one run goes through a
schedule of recipes, all with the same number of responses, by changing what verl reads anew in each step.
Chosen by `trainer.v1.trainer_mode=tagrpo_probe`; `verl_probe` makes verl know it.
"""

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transfer_queue as tq
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.utils import tensordict_utils
from verl.workers.utils.padding import no_padding_2_padding

from trainer_adapter.methods.recipes import RECIPES, Recipe, compose
from trainer_adapter.record.metrics import StepBatch
from trainer_adapter.verl.plugin.agent_loop import NeighborAgentLoop
from trainer_adapter.verl.plugin.loss import LossTerms, recipe_loss
from trainer_adapter.verl.plugin.overrides import CORRECTNESS, keeps_log_probs
from trainer_adapter.verl.plugin.responses import StepResponses
from trainer_adapter.verl.plugin.trainer import NeighborTrainer

FOLDER, SCHEDULE = "TAGRPO_PROBE_FOLDER", "TAGRPO_PROBE_SCHEDULE"
"""Where a run leaves what it saw, and its recipes as JSON: a list of [name, changes], one a step."""

FAILING = "TAGRPO_PROBE_FAILING"
"""A step and a session number, as JSON: that response of every question of the step fails."""

RECIPE_FIELD = "probe_recipe"
WATCHED = 2
"""Micro-batches of a step whose loss is kept."""


def recipe_at(step: int) -> Recipe:
    """Return the recipe of a step, counted from 1; the last one goes on."""
    schedule = json.loads(os.environ[SCHEDULE])
    name, changes = schedule[min(step, len(schedule)) - 1]
    return compose(RECIPES[name], changes)


class ProbeAgentLoop(NeighborAgentLoop):
    async def run(self, sampling_params: dict[str, Any], priority: int = 0, **kwargs: Any) -> Any:
        step = int(kwargs.pop(RECIPE_FIELD, 0))
        if step:
            self.recipe = recipe_at(step)
        if json.loads(os.environ.get(FAILING, "null")) == [step, int(kwargs["session_id"])]:
            raise RuntimeError("this response was to fail")
        return await super().run(sampling_params, priority, **kwargs)


@register_trainer("tagrpo_probe")
class ProbeTrainer(NeighborTrainer):
    def on_step_begin(self) -> None:
        super().on_step_begin()
        self.recipe = recipe = recipe_at(self.global_steps)
        self.config.actor_rollout_ref.rollout.calculate_log_probs = keeps_log_probs(recipe)
        self.replay_buffer.filter_groups_metric = CORRECTNESS if recipe.drops_dead_groups else None
        self.replay_buffer._filters = recipe.drops_dead_groups
        terms = LossTerms(recipe.loss, self.config.data.max_response_length)
        self.actor_rollout_wg.set_loss_fn(partial(watched_loss, terms=terms, step=self.global_steps))

    def _fetch_one_gen_batch(self) -> Any:
        batch = super()._fetch_one_gen_batch()
        tensordict_utils.assign_non_tensor_stack(batch, RECIPE_FIELD, [self.global_steps] * len(batch))
        return batch

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        batch = super()._compute_advantage(batch, metrics)
        fields = ["prompts", "responses", "response_mask", "advantages", "old_log_probs", "ref_log_prob"]
        data = tq.kv_batch_get(
            keys=batch.keys,
            partition_id=batch.partition_id,
            select_fields=[*fields, "extra_fields", "rollout_is_weights", "uid", "multi_modal_inputs"],
        )
        kept = {name: [each.clone() for each in data[name].unbind()] for name in fields}
        if "rollout_is_weights" in data:
            kept["rollout_is_weights"] = [each.clone() for each in data["rollout_is_weights"].unbind()]
        for name in {"extra_fields", "multi_modal_inputs"} & set(data.keys()):
            kept[name] = [getattr(each, "data", each) for each in data[name]]
        kept["padding"] = [bool(tag.get("is_padding")) for tag in batch.tags]
        kept["keys"] = list(batch.keys)
        torch.save(kept, folder() / f"verl_{self.global_steps}.pt")
        return batch

    def _observe(self, responses: StepResponses, step: StepBatch, metrics: dict[str, Any]) -> None:
        super()._observe(responses, step, metrics)
        kept = {
            **vars(step),
            "question_ids": [each["question_id"] for each in responses.about],
            "session_B": responses.numbers("session"),
            "response_ids_BT": responses.tensors_BT["responses"],
        }
        torch.save(kept, folder() / f"step_{self.global_steps}.pt")


def watched_loss(
    model_output: Any, data: Any, dp_group: Any = None, *, terms: LossTerms, step: int
) -> tuple[Any, dict[str, Any]]:
    """The plug-in's loss; what the first micro-batches of a step came with is kept."""
    loss, metrics = recipe_loss(model_output, data, dp_group, terms=terms)
    free = [path for number in range(WATCHED) if not (path := loss_file(step, number)).exists()]
    if free:
        names = ("prompts", "responses", "response_mask")
        seen = {name: [each.clone() for each in data[name].unbind()] for name in names}
        new = no_padding_2_padding(model_output["log_probs"], data).detach()
        torch.save({**seen, "log_probs": new, "loss": loss.detach()}, free[0])
    return loss, metrics


def loss_file(step: int, number: int) -> Path:
    return folder() / f"loss_{step}_{os.environ['RANK']}_{number}.pt"


def folder() -> Path:
    return Path(os.environ[FOLDER])
