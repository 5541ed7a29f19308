"""The recipe of a config, and the allowed overrides of verl's config."""

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from service.errors import InputError
from trainer_adapter.config import RecipeConfig, TrainConfig
from trainer_adapter.methods.recipes import FORMAT_REWARDS, Recipe, find_recipe
from trainer_adapter.runs.presets import PRESETS
from trainer_adapter.runs.settings import VerlSetting
from trainer_adapter.verl.plugin.settings import RECIPE_KEY, SETTINGS_KEY

_FORM = re.compile(r"(\+\+|\+|~)?([A-Za-z_][\w./@:-]*)(?:=(.*))?", re.DOTALL)
_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
_MODEL = "actor_rollout_ref.model"
REWARD_PATH = "reward.custom_reward_function.path"
BOXED_ONLY = "reward.custom_reward_function.reward_kwargs.boxed_only"
TEMPLATE_KEY = "data.apply_chat_template_kwargs"
_REFUSED = {
    "data.train_files": "pass the export with --data, or the set with --set",
    f"{_MODEL}.path": "pass the model with --model",
    "trainer.resume_mode": "resume a run with `tagrpo resume`, or start a new one with another --name",
    "trainer.resume_from_path": "a run resumes from its own last checkpoint, with `tagrpo resume`",
    "trainer.default_local_dir": "checkpoints are in the run's folder; choose it with folder=FOLDER",
    TEMPLATE_KEY: "prompt lengths depend on the export's arguments; export with chat_template_kwargs",
    "algorithm.rollout_correction": "set run.engine_correction and run.engine_threshold",
    "algorithm.filter_groups.max_num_gen_batches": "set run.max_gen_batches",
    "algorithm.norm_adv_by_std_in_grpo": "set advantage=dr_grpo to skip division by the standard deviation",
    "algorithm.gamma": "an advantage applies to a whole response, without a discount",
    "algorithm.lam": "an advantage applies to a whole response, without a discount",
    f"{_ACTOR}.clip_ratio_c": "set loss.dual_clip",
    f"{_ACTOR}.loss_scale_factor": "token sums are divided by data.max_response_length",
    f"{_ROLLOUT}.multi_turn": "recipes support only single-turn responses without tools",
    "trainer.v1.sampler.custom_sampler": "the recipe's filter selects the groups of a step",
    "trainer.v1.sampler.sync_refill_failed_groups": "a step goes on without a question that fails",
    "trainer.v1.sync.parameter_sync_step": "all responses of a step come from the same policy, in one batch",
    "distillation.enabled": "no recipe supports a teacher model",
}
"""Keys, and blocks of keys, that the run decides or that a recipe's training ignores; with the way out."""

_ABOVE_0 = (
    "trainer.total_training_steps",
    "trainer.total_epochs",
    "data.train_batch_size",
    "data.max_prompt_length",
    "data.max_response_length",
    f"{_ACTOR}.ppo_mini_batch_size",
    f"{_ACTOR}.ppo_epochs",
    f"{_ACTOR}.ppo_max_token_len_per_gpu",
    f"{_ACTOR}.optim.lr",
    f"{_ROLLOUT}.temperature",
    f"{_ROLLOUT}.tensor_model_parallel_size",
    f"{_ROLLOUT}.gpu_memory_utilization",
)
"""Numbers that plans count with, and those with which a training would learn nothing."""


@dataclass(frozen=True)
class Override(VerlSetting):
    """A user's override in Hydra's grammar; verl gets its text unchanged."""

    text: str = ""


def read_overrides(texts: Iterable[str]) -> tuple[Override, ...]:
    """Return overrides of verl's config from Hydra's grammar; of those with one key the last counts."""
    overrides: dict[str, Override] = {}
    for text in texts:
        override = _parse(text)
        if override.name.startswith((RECIPE_KEY, SETTINGS_KEY)):
            raise InputError(f"verl.{text}: set an axis (anchor=own) or a setting (run.seed=7) instead.")
        overrides.pop(override.name, None)
        overrides[override.name] = override
    return tuple(overrides.values())


def _parse(text: str) -> Override:
    match = _FORM.fullmatch(text)
    if match is None or (match[3] is None and match[1] != "~"):
        raise InputError(
            f"verl.{text} is not an override. Write verl.KEY=VALUE, such as verl.trainer.save_freq=5."
        )
    return Override((match[1] or "") + match[2], plain_value(match[3] or ""), "user", text=text)


def plain_value(text: str) -> Any:
    """Return the value that a bare text means to Hydra: a number, a truth value, null, else the text."""
    lowered = text.strip().lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    if lowered == "null":
        return None
    for kind in (int, float):
        try:
            return kind(lowered)
        except ValueError:
            continue
    return text.strip().strip("'\"")


def changed_recipe(training: TrainConfig) -> Recipe:
    """Return the recipe of a config; its name says what was changed.

    Axes that a preset sets are no part of the name, and give way to those of the config.
    """
    config, preset = training.recipe, PRESETS[training.preset]
    recipe = find_recipe(config.name)
    axes, loss = config.changes()
    if not axes and not loss and config.title is None and not preset.changes(recipe):
        return recipe
    changes = ", ".join(changed_axes(config))
    named = {
        "name": config.title or (f"{recipe.name}[{changes.replace(', ', ',')}]" if changes else recipe.name),
        "summary": f"{recipe.name} with {changes}" if changes else recipe.summary,
    }
    return preset.applied(recipe, {**named, **axes, "loss": loss})


def changed_axes(config: RecipeConfig) -> list[str]:
    """Return the axes that are set, as the command line takes them."""
    axes, loss = config.changes()
    named = {**axes, **{f"loss.{key}": value for key, value in loss.items()}}
    return [f"{key}={str(value).removesuffix('.0')}" for key, value in named.items()]


def check_overrides(overrides: Sequence[Override], recipe: Recipe, of_recipe: Collection[str]) -> None:
    """Raise where an override would change what is decided elsewhere, or would be ignored."""
    refused = dict(_REFUSED)
    values = {override.name: override.value for override in overrides}
    if REWARD_PATH not in values:
        refused[BOXED_ONLY] = "set run.answers=all or =boxed"
    elif recipe.reward in FORMAT_REWARDS:
        raise InputError(
            f"{REWARD_PATH}: tagrpo's reward function computes the recipe's reward, {recipe.reward}. Set "
            "reward=binary to use another function."
        )
    for override in overrides:
        name, value = override.name, override.value
        for key, way_out in refused.items():
            if name == key or name.startswith(f"{key}."):
                raise InputError(f"verl.{override.text}: {way_out}.")
        if name in of_recipe:
            raise InputError(
                f"verl.{override.text}: recipe {recipe.name} sets this. Change an axis instead "
                "(anchor=own, loss.clip_high=0.28; see `tagrpo train recipes`), so that the run's name "
                "states it."
            )
        inside = next((key for key in (*of_recipe, *refused) if key.startswith(f"{name}.")), None)
        if inside is not None:
            raise InputError(
                f"verl.{override.text}: this block contains {inside}, which tagrpo sets. Set individual "
                f"keys, as {name}.KEY=VALUE."
            )
        ends_with_epochs = value is None and name == "trainer.total_training_steps"
        is_positive = type(value) in (int, float) and 0 < value < math.inf
        if name in _ABOVE_0 and not is_positive and not ends_with_epochs:
            raise InputError(f"verl.{override.text}: give a number above 0.")
    rank = values.get(f"{_MODEL}.lora_rank")
    if values.get(f"{_MODEL}.lora_adapter_path") is not None and not rank:
        raise InputError(
            f"{_MODEL}.lora_adapter_path: verl loads no adapter if lora_rank is 0. Set the adapter's rank "
            f"with {_MODEL}.lora_rank."
        )
    other_manager = values.get("reward.reward_manager.name", "naive") != "naive"
    if recipe.sampling == "rescue" and (other_manager or values.get("reward.reward_model.enable") is True):
        raise InputError(
            f"recipe {recipe.name} grades where it samples: keep reward.reward_model.enable=false and "
            "reward.reward_manager.name=naive."
        )
    if values.get("reward.reward_model.enable") is True and values.get(REWARD_PATH) is None:
        raise InputError(
            "reward.reward_model.enable=true: recipes use a reward function, and tagrpo's reward function "
            f"uses no model. Set your own function with {REWARD_PATH}; it returns score and acc (1 for "
            "correct, else 0)."
        )


def updates_of_a_batch(batch: int, update: int) -> int:
    """Return by how many updates of so many questions a batch of questions is learnt from, once."""
    if update > batch or batch % update:
        raise InputError(
            f"a batch of {batch} questions is not a multiple of {update} questions per update. Pass another "
            f"verl.{_ACTOR}.ppo_mini_batch_size."
        )
    return batch // update
