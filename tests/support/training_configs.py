"""Configs of trainings from words, and the settings that verl gets for them."""

from collections.abc import Sequence
from typing import Any

from service.config.reading import Reading
from trainer_adapter.config import TrainConfig
from trainer_adapter.runs.composing import Composition, compose_training
from trainer_adapter.runs.data import TrainingData


def training_config(recipe: str, texts: Sequence[str] = (), **given: Any) -> TrainConfig:
    """Return the config of a recipe with KEY=VALUE texts; keys of verl may lack their prefix."""
    reading = Reading(TrainConfig)
    reading.set("recipe.name", recipe)
    for key, value in given.items():
        reading.set(key, value)
    reading.add_words([_as_word(text) for text in texts])
    return reading.build()


def composed(recipe: str, *texts: str, data: TrainingData | None = None, **given: Any) -> Composition:
    """Return the settings for a recipe with KEY=VALUE texts; `given` is of `compose_training`."""
    return compose_training(training_config(recipe, texts), data, **given)


def _as_word(text: str) -> str:
    key = text.partition("=")[0]
    own = key.startswith(("run.", "recipe.", "loss.", "verl.")) or ("." not in key and key != "model_engine")
    return text if own else f"verl.{text}" + ("" if "=" in text else "=")
