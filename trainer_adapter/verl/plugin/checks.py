"""Checks before a recipe is trained: verl's version, and a config that matches."""

from collections.abc import Mapping
from importlib import metadata
from typing import Any

from service.errors import InputError, PrerequisiteError, missing_extra
from trainer_adapter.methods.recipes import Recipe
from trainer_adapter.verl.contract import differences, installed_folders
from trainer_adapter.verl.hooks import TESTED_VERSIONS, Hook
from trainer_adapter.verl.plugin.overrides import FORMAT_REWARD, recipe_overrides
from trainer_adapter.verl.plugin.settings import RECIPE_KEY, SETTINGS_KEY, RunSettings

_INSTALL = f"pip install 'verl=={TESTED_VERSIONS[-1]}'"


def check_version(hooks: tuple[Hook, ...]) -> None:
    """Raise unless the installed verl is a tested one, or has all of these hooks in the tested form."""
    try:
        version = metadata.version("verl")
    except metadata.PackageNotFoundError as error:
        raise missing_extra(f"training needs verl {TESTED_VERSIONS[-1]}", "train") from error
    if version in TESTED_VERSIONS:
        return
    lacking = differences(installed_folders(), hooks)
    if lacking:
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise PrerequisiteError(
            f"verl {version} is installed, which is untested and differs in parts that tagrpo extends: "
            f"{lacking[0]}{more}. `tagrpo doctor --training` lists all, and the recipes that run. {_INSTALL}."
        )


def untested_version() -> str | None:
    """Return a warning about an untested verl; None for a tested one."""
    version = metadata.version("verl")
    if version in TESTED_VERSIONS:
        return None
    return (
        f"verl {version} is not among the tested versions ({', '.join(TESTED_VERSIONS)}), but the parts "
        "that tagrpo extends are identical"
    )


def check_config(config: Mapping[str, Any], recipe: Recipe, settings: RunSettings | None = None) -> None:
    """Raise unless verl's config trains `recipe` and nothing else."""
    settings = settings or RunSettings()
    expected = {key.removeprefix("+"): value for key, value in recipe_overrides(recipe, settings).items()}
    # The first two were read already, and the trainer renames itself before workers get the config.
    for key in (RECIPE_KEY, SETTINGS_KEY, "trainer.v1.trainer_mode"):
        del expected[key]
    if value_at(config, FORMAT_REWARD):
        expected.setdefault(FORMAT_REWARD, False)
    problems = [
        f"{key} is {_spelled(value_at(config, key))}, but the recipe has {_spelled(value)}"
        for key, value in expected.items()
        if value_at(config, key) != value
    ]
    if settings.trainer == "verl":
        problems += _problems_without_trainer(config, recipe)
    lengths = [value_at(config, f"data.max_{part}_length") for part in ("prompt", "response")]
    limit = value_at(config, "actor_rollout_ref.rollout.max_model_len")
    if limit is not None and None not in lengths and limit < sum(lengths):
        problems.append(
            f"actor_rollout_ref.rollout.max_model_len={limit} truncates responses, because prompt and "
            f"response together may have {sum(lengths)} tokens"
        )
    if problems:
        raise InputError(f"recipe {recipe.name}: " + "; ".join(problems) + ".")


def _problems_without_trainer(config: Mapping[str, Any], recipe: Recipe) -> list[str]:
    """Return what verl's own trainer would train silently wrong."""
    problems = []
    scale, longest = (
        value_at(config, key)
        for key in ("actor_rollout_ref.actor.loss_scale_factor", "data.max_response_length")
    )
    if recipe.loss.aggregation == "seq-mean-token-sum-norm" and scale != longest:
        problems.append(f"actor_rollout_ref.actor.loss_scale_factor is {scale} instead of {longest}")
    if value_at(config, "trainer.use_v1") is not False:
        return problems
    if recipe.filter != "none":
        problems.append("trainer.use_v1=false ignores the filter")
    if recipe.sampling == "rescue":
        problems.append("trainer.use_v1=false samples the responses to a question in several processes")
    questions = value_at(config, "data.train_batch_size")
    workers = value_at(config, "actor_rollout_ref.rollout.agent.num_workers")
    if recipe.neighbors and questions is not None and workers is not None and questions % workers:
        problems.append(
            f"with trainer.use_v1=false, data.train_batch_size={questions} must be a multiple of "
            f"actor_rollout_ref.rollout.agent.num_workers={workers}"
        )
    return problems


def value_at(config: Any, key: str) -> Any:
    """Return the value at a dotted key, or None."""
    for part in key.split("."):
        if not isinstance(config, Mapping) or part not in config:
            return None
        config = config[part]
    return config


def _spelled(value: Any) -> str:
    return {"True": "true", "False": "false", "None": "null"}.get(str(value), str(value))
