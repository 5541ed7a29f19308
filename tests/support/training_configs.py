"""Configs of trainings from words, and what is composed of them."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from service.config import Reading
from trainer_adapter.config import TrainConfig
from trainer_adapter.methods.recipes import Recipe
from trainer_adapter.runs.assignments import changed_recipe, read_overrides
from trainer_adapter.runs.presets import DEFAULT, PRESETS, Preset


def training_config(recipe: str, texts: Sequence[str] = (), **given: Any) -> TrainConfig:
    """Return the config of a recipe with KEY=VALUE texts; keys of verl may lack their prefix."""
    reading = Reading(TrainConfig)
    reading.set("recipe.name", recipe, "")
    for key, value in given.items():
        reading.set(key, value, "")
    reading.add_words([_as_word(text) for text in texts])
    return reading.build()


def assign(recipe: Recipe, texts: Sequence[str], *, preset: Preset = PRESETS[DEFAULT]) -> SimpleNamespace:
    """Return the changed recipe, the settings of the plug-in and the overrides of texts."""
    config = training_config(recipe.name, texts)
    return SimpleNamespace(
        recipe=changed_recipe(config.recipe, preset),
        settings=config.run,
        overrides=read_overrides(config.verl),
    )


def _as_word(text: str) -> str:
    key = text.partition("=")[0]
    own = key.startswith(("run.", "recipe.", "loss.", "verl.")) or ("." not in key and key != "model_engine")
    return text if own else f"verl.{text}"
