"""Checks before a recipe is trained: versions, registrations, and a matching config."""

import importlib.util
import time
from collections.abc import Collection, Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from service.errors import InputError, PrerequisiteError
from trainer_adapter.methods.recipes import FORMAT_REWARDS, Recipe
from trainer_adapter.verl.contract import differences, installed_folders
from trainer_adapter.verl.hooks import PLUGIN, TESTED_VERSIONS, Hook
from trainer_adapter.verl.plugin import NAME, REGISTRATION
from trainer_adapter.verl.plugin.overrides import CORRECTNESS, FORMAT_REWARD, keeps_log_probs
from trainer_adapter.verl.plugin.settings import SETTINGS_KEY

_ENDING_S = 10.0
"""Seconds that Ray may take to remove a killed training."""

_ANOTHER = (
    "another training runs on this Ray cluster, and verl would store the responses of both in one place. "
    "Wait until it ends, or start a separate cluster."
)

_INSTALL = f"pip install 'verl=={TESTED_VERSIONS[-1]}'"


def check_version(hooks: tuple[Hook, ...] = PLUGIN) -> None:
    """Raise unless the installed verl is a tested one, or has all of these hooks in the tested form.

    Raises:
        PrerequisiteError: verl is missing, lacks a hook, or is installed with a TRL that it cannot import.
    """
    try:
        version = metadata.version("verl")
    except metadata.PackageNotFoundError as error:
        raise PrerequisiteError(
            f"verl is not installed. Training needs verl {TESTED_VERSIONS[-1]}: pip install 'tagrpo[train]'."
        ) from error
    if _trl_in_the_way():
        raise PrerequisiteError(
            f"TRL is installed next to verl {version}, which imports a class that TRL no longer has, and "
            "crashes at its start. Run pip uninstall trl, or use a separate environment for TRL."
        )
    if version in TESTED_VERSIONS:
        return
    lacking = differences(installed_folders(), hooks)
    if lacking:
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise PrerequisiteError(
            f"verl {version} is installed, which is not tested and differs in parts that tagrpo extends: "
            f"{lacking[0]}{more}. `tagrpo doctor --training` lists all. {_INSTALL}."
        )


def _trl_in_the_way() -> bool:
    """Return whether verl (0.9.1, `models/transformers/monkey_patch.py`) would fail on this TRL."""
    spec = importlib.util.find_spec("trl")
    if spec is None or spec.origin is None:
        return False
    folder, name = Path(spec.origin).parent, "AutoModelForCausalLMWithValueHead"
    return not (folder / "experimental" / "ppo").exists() and name not in Path(spec.origin).read_text("utf-8")


def untested_version() -> str | None:
    """Return a warning about an untested verl; None for a tested one."""
    version = metadata.version("verl")
    if version in TESTED_VERSIONS:
        return None
    return (
        f"verl {version} is not among the tested versions ({', '.join(TESTED_VERSIONS)}), but everything "
        "that tagrpo extends matches them"
    )


def check_queue() -> None:
    """Raise if another training runs on this Ray cluster: verl keeps the responses of both in one queue.

    Raises:
        PrerequisiteError: another training runs.
    """
    import ray

    ends = time.monotonic() + _ENDING_S
    while ray.is_initialized():
        try:
            queue = ray.get_actor("TransferQueueController", namespace="transfer_queue")
        except ValueError:
            return
        if _is_own(queue):
            return
        if time.monotonic() > ends:
            raise PrerequisiteError(_ANOTHER)
        time.sleep(1)


def check_connection() -> None:
    """Raise if verl has connected to the queue of a training that was started in the same seconds.

    The other's queue is forgotten first; otherwise verl would end it when it exits.

    Raises:
        PrerequisiteError: the queue belongs to another training.
    """
    import transfer_queue.interface as queues

    if queues._TQ_CONTROLLER is not None and not _is_own(queues._TQ_CONTROLLER):
        queues._TQ_CONTROLLER = None
        raise PrerequisiteError(_ANOTHER)


def _is_own(queue: Any) -> bool:
    import ray

    return bool(queue._actor_id.job_id.hex() == ray.get_runtime_context().get_job_id())


def check_registrations() -> None:
    """Raise unless verl knows trainer, agent loop and estimator in this process.

    verl swallows errors while it loads an entry point, so a missing one only shows here.

    Raises:
        PrerequisiteError: one is missing.
    """
    from verl.experimental.agent_loop.agent_loop import _agent_loop_registry
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY
    from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY

    registries: tuple[tuple[str, Mapping[str, Any]], ...] = (
        ("trainer", TRAINER_REGISTRY),
        ("agent loop", _agent_loop_registry),
        ("advantage estimator", ADV_ESTIMATOR_REGISTRY),
    )
    missing = [what for what, registry in registries if NAME not in registry]
    if missing:
        raise PrerequisiteError(
            f"verl does not know tagrpo's {' and '.join(missing)}. Set the environment variable "
            f"VERL_USE_EXTERNAL_MODULES={REGISTRATION}, which also shows why loading fails."
        )


def check_config(config: Mapping[str, Any], recipe: Recipe) -> None:
    """Raise unless verl's config trains `recipe` and nothing else.

    Args:
        config: verl's config as plain dictionaries.

    Raises:
        InputError: lists every reason, not only the first.
    """
    problems = list(_problems(config, recipe))
    if problems:
        raise InputError(f"recipe {recipe.name}: " + "; ".join(problems) + ".")


def check_columns(columns: Collection[str], recipe: Recipe) -> None:
    """Raise unless `recipe` can be trained on data with these columns.

    Raises:
        InputError: the recipe needs neighbors and the data has none, or the data names an agent loop.
    """
    if "agent_name" in columns:
        raise InputError(
            f"recipe {recipe.name}: the training data has a column agent_name, with which verl would use "
            "its own agent loop. Remove it."
        )
    if recipe.neighbors and "neighbors" not in columns:
        raise InputError(
            f"recipe {recipe.name} needs {recipe.neighbors} neighbors per question, but the training data "
            "has no column neighbors. Export the set with the layout grouped, or choose a recipe without "
            "neighbors."
        )


def _problems(config: Mapping[str, Any], recipe: Recipe) -> Iterable[str]:
    yield from _anchor_problems(config, recipe)
    actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    loss = recipe.loss
    expected: dict[str, Any] = {
        f"{rollout}.n": recipe.rollouts,
        f"{rollout}.agent.default_agent_loop": NAME,
        "algorithm.adv_estimator": NAME,
        "algorithm.use_kl_in_reward": False,
        "algorithm.filter_groups.enable": recipe.drops_dead_groups,
        f"{actor}.use_kl_loss": loss.kl_coef > 0,
        f"{actor}.policy_loss.loss_mode": "vanilla",
    }
    if not keeps_log_probs(recipe):
        expected[f"{rollout}.calculate_log_probs"] = False
    if recipe.drops_dead_groups:
        expected["algorithm.filter_groups.metric"] = CORRECTNESS
    if recipe.reward in FORMAT_REWARDS or value_at(config, FORMAT_REWARD):
        expected[FORMAT_REWARD] = recipe.reward in FORMAT_REWARDS
    for key, value in expected.items():
        setting = value_at(config, key)
        if setting != value:
            yield f"{key} is {_spelled(setting)}, but the recipe has {_spelled(value)}"
    if value_at(config, f"{actor}.shuffle"):
        yield f"{actor}.shuffle scatters the responses to a question over a step's updates; set it to false"
    if value_at(config, "trainer.critic_warmup"):
        yield (
            "trainer.critic_warmup skips the first updates for a critic, which recipes do not have; set it "
            "to 0"
        )


def _anchor_problems(config: Mapping[str, Any], recipe: Recipe) -> Iterable[str]:
    """Yield settings that would condition log-probs on another prompt than the recipe's anchor."""
    correction = "algorithm.rollout_correction"
    weighed = value_at(config, f"{correction}.rollout_is")
    if weighed is not None:
        yield (
            f"{correction}.rollout_is={weighed} would weight responses a second time; set it to null, and "
            f"set {SETTINGS_KEY}.engine_correction={weighed}, which keeps engine and prompt separate"
        )
    if recipe.neighbors == 0:
        return
    if value_at(config, f"{correction}.rollout_rs") is not None:
        yield (
            f"{correction}.rollout_rs drops responses to neighbors that are unlikely under the question; "
            "set it to null"
        )
    if value_at(config, f"{correction}.bypass_mode"):
        yield (
            f"{correction}.bypass_mode uses the sampling log-probs as the old ones, which belong to the "
            "sampled prompt instead of the anchor; set it to false"
        )
    if value_at(config, "actor_rollout_ref.actor.use_prefix_grouper"):
        yield (
            "actor.use_prefix_grouper uses one prompt of a question for all its responses; set it to false"
        )
    if value_at(config, "actor_rollout_ref.rollout.enable_rollout_routing_replay") or any(
        mode not in (None, "disabled") for mode in _replay_modes(config)
    ):
        yield (
            "router replay routes tokens by their position after the sampled prompt, whose length differs "
            "from the anchor's; disable it"
        )


def _replay_modes(config: Mapping[str, Any]) -> Iterable[Any]:
    for engine in ("fsdp_config", "megatron", "veomni"):
        yield value_at(config, f"actor_rollout_ref.actor.{engine}.router_replay.mode")
    yield value_at(config, "actor_rollout_ref.actor.router_replay.mode")


def value_at(config: Any, key: str) -> Any:
    """Return the value at a dotted key, or None."""
    for part in key.split("."):
        if not isinstance(config, Mapping) or part not in config:
            return None
        config = config[part]
    return config


def _spelled(value: Any) -> str:
    return (
        {True: "true", False: "false", None: "null"}[value]
        if value is None or isinstance(value, bool)
        else str(value)
    )
