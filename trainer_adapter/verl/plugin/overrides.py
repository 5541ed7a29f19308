"""A recipe as overrides of verl's config; nothing here imports verl."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from service.errors import InputError
from trainer_adapter.methods.recipes import FORMAT_REWARDS, Recipe
from trainer_adapter.verl.plugin import NAME
from trainer_adapter.verl.plugin.settings import RECIPE_KEY, SETTINGS_KEY, RunSettings

CORRECTNESS = "acc"
"""The reward function's name for correctness, in verl's validation and in dynamic sampling."""


FORMAT_REWARD = "reward.custom_reward_function.reward_kwargs.format_reward"
"""Makes tagrpo's reward function add 1 for thinking between tags."""


RECORD = "reward.custom_reward_function.reward_kwargs.record"
"""Folder into which tagrpo's reward function writes responses, with verl's own trainer."""

_NO_DUAL_CLIP = 1e9
_OF_BOTH_TRAINERS = (
    *("trainer", "answers", "seed", "engine_correction", "engine_threshold"),
    *("overlong_buffer", "record", "record_share"),
)


def recipe_overrides(recipe: Recipe, settings: RunSettings | None = None) -> dict[str, Any]:
    """Return the settings of stock `verl.trainer.main_ppo` for `recipe`: Hydra keys and plain values.

    A leading `+` marks keys that verl's own config lacks. With tagrpo's trainer the values of the loss only
    decide whether verl loads a reference policy; with verl's own trainer they are the loss.
    """
    settings = settings or RunSettings()
    actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    correction, loss = "algorithm.rollout_correction", recipe.loss
    overrides: dict[str, Any] = {
        "algorithm.adv_estimator": NAME,
        "algorithm.use_kl_in_reward": False,
        "trainer.critic_warmup": 0,  # else the first steps update nothing
        "algorithm.filter_groups.enable": recipe.drops_dead_groups,
        "algorithm.filter_groups.metric": CORRECTNESS,
        f"{correction}.bypass_mode": False,
        f"{correction}.rollout_is": None,
        f"{correction}.rollout_rs": None,
        f"{rollout}.n": recipe.rollouts,
        f"{rollout}.agent.default_agent_loop": NAME,
        f"{rollout}.calculate_log_probs": keeps_log_probs(recipe),
        # The routes of an expert model belong to positions after the sampled prompt, not after the anchor.
        f"{rollout}.enable_rollout_routing_replay": False,
        f"{actor}.shuffle": False,  # an update needs whole questions
        f"{actor}.policy_loss.loss_mode": "vanilla",
        f"{actor}.clip_ratio": loss.clip_low,
        f"{actor}.clip_ratio_low": loss.clip_low,
        f"{actor}.clip_ratio_high": loss.clip_high,
        f"{actor}.loss_agg_mode": loss.aggregation,
        f"{actor}.use_kl_loss": loss.kl_coef > 0,
        f"{actor}.kl_loss_coef": loss.kl_coef,
        f"{actor}.kl_loss_type": loss.kl,
        f"{actor}.use_prefix_grouper": False,
        f"+{RECIPE_KEY}": recipe.to_json(),
        f"+{SETTINGS_KEY}": settings.model_dump(),
    }
    if recipe.reward in FORMAT_REWARDS:
        overrides[f"+{FORMAT_REWARD}"] = True
    if loss.dual_clip is not None:
        overrides[f"{actor}.clip_ratio_c"] = loss.dual_clip
    if settings.trainer == "tagrpo":
        return overrides | {"trainer.use_v1": True, "trainer.v1.trainer_mode": NAME}
    _check_tier(recipe, settings)
    overrides["trainer.v1.trainer_mode"] = "sync"
    overrides[f"{actor}.clip_ratio_c"] = loss.dual_clip or _NO_DUAL_CLIP
    if settings.corrects_engine:
        overrides[f"{correction}.rollout_is"] = settings.engine_correction
        overrides[f"{correction}.rollout_is_threshold"] = settings.engine_threshold
    if settings.record is not None:
        overrides[f"+{RECORD}"] = settings.record
    return overrides


def _check_tier(recipe: Recipe, settings: RunSettings) -> None:
    """Raise unless verl's own trainer can train this recipe with these settings."""
    needed = recipe.whole_batch_axes
    needed += [
        f"run.{name}={getattr(settings, name)}"
        for name, field in type(settings).model_fields.items()
        if name not in _OF_BOTH_TRAINERS and getattr(settings, name) != field.default
    ]
    if settings.corrects_engine and not keeps_log_probs(recipe):
        needed.append(f"run.engine_correction={settings.engine_correction} with anchor={recipe.anchor}")
    if needed:
        raise InputError(
            f"recipe {recipe.name}: run.trainer=verl does not support {', '.join(needed)}. Set "
            "run.trainer=tagrpo, or change this."
        )


def keeps_log_probs(recipe: Recipe) -> bool:
    """Return whether verl gets the sampling log-probs of responses.

    Those of a neighbor's response belong to another prompt than the anchor's, so verl cannot compare them.
    """
    return recipe.anchor == "own" or recipe.neighbors == 0


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested mappings with their paths, dots between the keys."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def hydra_arguments(overrides: Mapping[str, Any]) -> list[str]:
    """Return the overrides as command-line arguments, one each, quoted for Hydra (not for a shell)."""
    return [f"{key}={_literal(value)}" for key, value in overrides.items()]


def _literal(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_literal(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_literal(each) for each in value) + "]"
    text = str(value)
    is_word = re.fullmatch(r"[A-Za-z_/][\w./-]*", text, re.ASCII)
    if is_word and text.lower() not in ("null", "true", "false", "nan", "inf"):
        return text
    # Hydra reads a quoted text literally, except for quotes, interpolations, and the backslashes before them
    # and before its end.
    escaped = re.sub(r"(\\*)(\$\{|'|\Z)", lambda end: 2 * end[1] + ("\\" + end[2] if end[2] else ""), text)
    return f"'{escaped}'"
