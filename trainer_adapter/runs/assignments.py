"""The recipe of a config, and its overrides of verl's config: what they may be."""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.errors import InputError
from trainer_adapter.config import RecipeConfig
from trainer_adapter.methods.recipes import FORMAT_REWARDS, Recipe, find_recipe
from trainer_adapter.runs.presets import Preset
from trainer_adapter.runs.settings import bare
from trainer_adapter.verl.plugin.settings import RECIPE_KEY, SETTINGS_KEY

_FORM = re.compile(r"(\+\+|\+|~)?([A-Za-z_][\w./@:-]*)(?:=(.*))?", re.DOTALL)
_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
_CORRECTION, _ENGINE = "algorithm.rollout_correction", "model_engine"
_MODEL = "actor_rollout_ref.model"
_SAVED = f"{_ACTOR}.checkpoint.save_contents"
_REWARD_PATH = "reward.custom_reward_function.path"
BOXED_ONLY = "reward.custom_reward_function.reward_kwargs.boxed_only"
TEMPLATE_KEY = "data.apply_chat_template_kwargs"
_RUN_KEYS = {
    "data.train_files": "give the export with --data, or the set with --set",
    f"{_MODEL}.path": "give the model with --model",
    "trainer.resume_mode": "resume a run with `tagrpo resume`, or start another one with another --name",
    "trainer.resume_from_path": "a run resumes from its own last checkpoint, with `tagrpo resume`",
    "trainer.default_local_dir": "checkpoints are in the run's folder; choose it with folder=FOLDER",
    "trainer.experiment_name": "name the run with --name",
    "hydra.run.dir": "Hydra's files are in the run's folder; choose it with folder=FOLDER",
    f"{_CORRECTION}.rollout_is": "set run.engine_correction=token, =sequence or =none",
    f"{_CORRECTION}.rollout_is_threshold": "set run.engine_threshold",
    "hydra.searchpath": "verl must find tagrpo's own folder of settings",
}
_GPU_KEYS = {
    "trainer.n_gpus_per_node": "use --gpus",
    "trainer.nnodes": "use --nodes",
    "trainer.device": "use --cpu or --gpus",
}
_UNREAD_KEYS = {
    f"{_ACTOR}.clip_ratio_c": "set loss.dual_clip",
    f"{_ACTOR}.optim.warmup_style": f"this is verl's old name; set {_ACTOR}.optim.lr_scheduler_type",
    f"{_ACTOR}.loss_scale_factor": "sums over tokens are divided by data.max_response_length",
    f"{_ACTOR}.checkpoint.async_save": "verl supports it for Megatron only, without a last checkpoint",
    f"{_ROLLOUT}.multi_turn": "recipes draw single-turn responses without tools",
    "algorithm.norm_adv_by_std_in_grpo": "set advantage=dr_grpo to skip the division by the deviation",
    f"{_CORRECTION}.rollout_is_batch_normalize": "importance weights are truncated, never normalised",
    "algorithm.filter_groups.max_num_gen_batches": "set run.max_gen_batches",
    "trainer.v1.sampler.custom_sampler": "the recipe's filter selects the groups of a step",
    "distillation.enabled": "no recipe supports a teacher model",
    _ENGINE: "trainings support only FSDP among verl's engines",
    **{
        f"{_MODEL}.lora.{name}": f"this is for Megatron; set {_MODEL}.lora_rank, .lora_alpha, .target_modules"
        for name in ("type", "rank", "alpha", "dropout", "target_modules", "exclude_modules", "adapter_path")
    },
    "custom_reward_function": "this is verl's old name; set reward.custom_reward_function.path, .name",
    "reward_model": "this is verl's old name; set reward.num_workers, reward.reward_manager.name and so on",
}
"""What verl would take and a recipe's training not look at, with the way out."""

_AS_VERL_HAS_THEM: dict[str, tuple[Any, str]] = {
    f"{_ACTOR}.shuffle": (
        False,
        "an update needs whole questions, which this would scatter; data.shuffle changes their order",
    ),
    f"{_ACTOR}.grad_clip": (1.0, f"verl's engine reads {_ACTOR}.optim.clip_grad; set that"),
    f"{_ACTOR}.freeze_vision_tower": (False, "verl's engine never reads it and trains the whole model"),
    f"{_ROLLOUT}.over_sample_rate": (0, "verl never reads it"),
    "algorithm.gamma": (1, "an advantage applies to a whole response, without a discount"),
    "algorithm.lam": (1, "an advantage applies to a whole response, without a discount"),
    "algorithm.use_pf_ppo": (False, "a step trains on the responses that it drew, each once"),
    "trainer.v1.sync.parameter_sync_step": (1, "a step's responses come from one policy, in one batch"),
    "trainer.balance_batch": (True, "updates are always balanced over the GPUs"),
    "trainer.critic_warmup": (0, "recipes have no critic, so the first steps would train nothing"),
}
"""Keys that may have verl's own value alone, with the reason."""

_ABOVE_0 = {
    "trainer.total_training_steps": int,
    "trainer.total_epochs": int,
    "data.train_batch_size": int,
    "data.max_prompt_length": int,
    "data.max_response_length": int,
    f"{_ACTOR}.ppo_mini_batch_size": int,
    f"{_ACTOR}.ppo_epochs": int,
    f"{_ACTOR}.ppo_max_token_len_per_gpu": int,
    "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu": int,
    f"{_ROLLOUT}.log_prob_max_token_len_per_gpu": int,
    f"{_ROLLOUT}.max_model_len": int,
    f"{_ACTOR}.optim.lr": float,
    f"{_ROLLOUT}.val_kwargs.n": int,
    f"{_ROLLOUT}.temperature": float,
    f"{_ROLLOUT}.tensor_model_parallel_size": int,
    f"{_ROLLOUT}.gpu_memory_utilization": float,
}
"""What plans count with, what decides how fast is trained, and what log-probs are divided by."""

_LOOKED_UP = {
    "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu",
    f"{_ROLLOUT}.log_prob_max_token_len_per_gpu",
    f"{_ROLLOUT}.max_model_len",
    f"{_ACTOR}.optim.lr",
    f"{_ROLLOUT}.val_kwargs.n",
    f"{_ROLLOUT}.temperature",
    "trainer.save_freq",
    "trainer.test_freq",
}
"""Which verl may look up (`${...}`); the others are counted with here."""

_OR_NULL = ("trainer.total_training_steps", f"{_ROLLOUT}.max_model_len")

_WHOLE = ("trainer.save_freq", "trainer.test_freq")
"""Which verl reads at the end of a step alone."""


@dataclass(frozen=True)
class Override:
    """An override in Hydra's grammar, handed on as it was written."""

    text: str
    key: str
    value: Any

    @property
    def name(self) -> str:
        """The key without Hydra's marks."""
        return bare(self.key)


def read_overrides(texts: Iterable[str]) -> tuple[Override, ...]:
    """Return overrides of verl's config from Hydra's grammar; of those with one key the last counts.

    Raises:
        InputError: it is none, or sets what belongs to tagrpo.
    """
    overrides: dict[str, Override] = {}
    for text in texts:
        override = _parse(text)
        if override.name.startswith((RECIPE_KEY, SETTINGS_KEY)):
            raise InputError(f"verl.{text}: set an axis, as anchor=own, or a setting as run.seed=7.")
        overrides.pop(override.name, None)
        overrides[override.name] = override
    return tuple(overrides.values())


def _parse(text: str) -> Override:
    match = _FORM.fullmatch(text)
    if match is None or (match[3] is None and match[1] != "~"):
        raise InputError(
            f"verl.{text} is not an override. Write verl.KEY=VALUE, as in verl.trainer.save_freq=5."
        )
    return Override(text, (match[1] or "") + match[2], plain_value(match[3] or ""))


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


def changed_recipe(config: RecipeConfig, preset: Preset) -> Recipe:
    """Return the recipe of a config; its name says what was changed.

    Axes that a preset sets are no part of the name, and give way to those of the config.

    Raises:
        InputError: no such recipe, an unknown choice, or a combination that makes no sense.
    """
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


def check_overrides(
    overrides: Sequence[Override], recipe: Recipe, of_recipe: Collection[str], *, on_cpu: bool
) -> None:
    """Raise where an override would change what is decided elsewhere, or would be ignored.

    Args:
        of_recipe: keys that the recipe decides.
        on_cpu: whether ranks and device may be changed, as tests on one machine do.

    Raises:
        InputError: with the way out.
    """
    refused = _RUN_KEYS | _UNREAD_KEYS | ({} if on_cpu else _GPU_KEYS)
    if not rewards_by_another(overrides):
        refused[BOXED_ONLY] = "set run.answers=all or =boxed"
    elif recipe.reward in FORMAT_REWARDS:
        raise InputError(
            f"{_REWARD_PATH}: tagrpo's reward function computes the recipe's reward, {recipe.reward}. Set "
            "reward=binary to use another function."
        )
    for override in overrides:
        name = override.name
        for key, way_out in refused.items():
            if name == key or name.startswith(f"{key}."):
                raise InputError(f"verl.{override.text}: {way_out}.")
        if name in of_recipe:
            raise InputError(
                f"verl.{override.text}: recipe {recipe.name} decides this. Change an axis instead "
                "(anchor=own, loss.clip_high=0.28; see `tagrpo recipes list`), so that the run's name "
                "states it."
            )
        if name == TEMPLATE_KEY or name.startswith(f"{TEMPLATE_KEY}."):
            raise InputError(
                f"verl.{override.text}: prompts were measured with the export's arguments. Export with "
                "--chat-template-kwargs and pass --data."
            )
        inside = next((key for key in (*of_recipe, *refused) if key.startswith(f"{name}.")), None)
        if inside is not None:
            raise InputError(
                f"verl.{override.text}: this block contains {inside}, which is decided elsewhere. Set single "
                f"keys, as {name}.KEY=VALUE."
            )
        if name == f"{_ACTOR}.strategy" and override.value not in ("fsdp", "fsdp2"):
            raise InputError(f"verl.{override.text}: {refused[_ENGINE]}. Use fsdp2 or fsdp.")
        if name in _AS_VERL_HAS_THEM and override.value != _AS_VERL_HAS_THEM[name][0]:
            raise InputError(f"verl.{override.text}: {_AS_VERL_HAS_THEM[name][1]}.")
        _check_number(override)
    values = {override.name: override.value for override in overrides}
    _check_lora(values, on_cpu=on_cpu)
    _check_reward_model(values, recipe)


def _check_number(override: Override) -> None:
    name, value = override.name, override.value
    if name in _LOOKED_UP and isinstance(value, str) and "${" in value:
        return
    if name in _ABOVE_0 and not (value is None and name in _OR_NULL):
        whole = _ABOVE_0[name] is int
        fits = type(value) in ((int,) if whole else (int, float))
        if not (fits and 0 < value < math.inf):
            raise InputError(f"verl.{override.text}: give a {'whole ' if whole else ''}number above 0.")
    if name in _WHOLE and type(value) is not int:
        raise InputError(f"verl.{override.text}: give a whole number of steps; -1 is never.")


def _check_lora(values: Mapping[str, Any], *, on_cpu: bool) -> None:
    rank, adapter = (values.get(f"{_MODEL}.lora_{name}") for name in ("rank", "adapter_path"))
    if rank is not None and not (type(rank) is int and rank >= 0):
        raise InputError(f"{_MODEL}.lora_rank={rank}: give a whole number; 0 trains the whole model.")
    if rank and "hf_model" in str(values.get(_SAVED)):
        raise InputError(
            f"{_SAVED}: with an adapter, verl writes an hf_model that nothing reads. Remove it, and merge "
            "the checkpoint afterwards (docs/train.md, The checkpoint)."
        )
    if adapter is not None and not rank:
        raise InputError(
            f"{_MODEL}.lora_adapter_path={adapter}: verl loads no adapter if lora_rank is 0. Set the "
            f"adapter's rank with {_MODEL}.lora_rank."
        )
    if on_cpu and rank and values.get(f"{_MODEL}.lora.merge") is not True:
        raise InputError(
            f"{_MODEL}.lora_rank={rank}: on the CPU, responses are drawn from whole weights. Set "
            f"{_MODEL}.lora.merge=true."
        )


def _check_reward_model(values: Mapping[str, Any], recipe: Recipe) -> None:
    model = "reward.reward_model"
    if values.get(f"{model}.enable") is not True:
        return
    if values.get(_REWARD_PATH) is None:
        raise InputError(
            f"{model}.enable=true: recipes use a reward function, and tagrpo's does not ask a model. Name "
            f"your own function with {_REWARD_PATH}; it returns score and acc (1 for correct, else 0)."
        )
    if recipe.sampling == "rescue" and values.get(f"{model}.enable_resource_pool") is not True:
        raise InputError(
            f"{model}.enable=true: a rescue grades half of a question's responses before it draws others, "
            f"while a reward model on the same GPUs sleeps. Set {model}.enable_resource_pool=true."
        )


def updates_of_a_batch(batch: int, update: int) -> int:
    """Return by how many updates of so many questions a batch of questions is learnt from, once.

    Raises:
        InputError: they do not divide it.
    """
    if update > batch or batch % update:
        raise InputError(
            f"updates of {update} questions do not divide a batch of {batch}. Pass another "
            f"{_ACTOR}.ppo_mini_batch_size."
        )
    return batch // update


def rewards_by_another(overrides: Sequence[Override]) -> bool:
    """Return whether the user names a reward function of their own."""
    return any(override.name == _REWARD_PATH for override in overrides)
