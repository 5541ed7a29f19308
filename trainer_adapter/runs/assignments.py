"""What a user writes as `key=value`: an axis of the recipe, a setting of the plug-in, or one of verl's."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from service.errors import InputError
from trainer_adapter.methods.recipes import Recipe
from trainer_adapter.runs.presets import DEFAULT, PRESETS, Preset
from trainer_adapter.runs.settings import bare
from trainer_adapter.verl.plugin.settings import RECIPE_KEY, SETTINGS_KEY, RunSettings

_FORM = re.compile(r"(\+\+|\+|~)?([A-Za-z_][\w./@:-]*)(?:=(.*))?", re.DOTALL)
_AXES = tuple(each.name for each in fields(Recipe) if each.name != "loss")


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


@dataclass(frozen=True)
class Assigned:
    """A recipe with the user's changes, the plug-in's settings, and overrides for verl."""

    recipe: Recipe
    settings: RunSettings
    overrides: tuple[Override, ...]


def assign(
    recipe: Recipe,
    texts: Iterable[str],
    *,
    preset: Preset = PRESETS[DEFAULT],
) -> Assigned:
    """Return what `texts` make of a recipe.

    `anchor=own` and `loss.kl_coef=0` change an axis, `tagrpo_run.seed=7` a setting of the plug-in; anything
    else is an override of verl's configuration, as `trainer.save_freq=5`, in Hydra's grammar. The changed
    recipe's name says what was changed; axes that a preset sets are no part of it, and give way to these.

    Raises:
        InputError: none of these forms, an unknown axis, setting or choice, a combination that makes no
            sense, or a key given twice.
    """
    axes: dict[str, Any] = {}
    loss: dict[str, Any] = {}
    run: dict[str, Any] = {}
    overrides: dict[str, Override] = {}
    for text in texts:
        override = _parse(text)
        name, plain = override.name, override.key == override.name
        taken: dict[str, Any]
        if plain and name in _AXES:
            taken, key = axes, name
        elif plain and name.startswith("loss."):
            taken, key = loss, name.removeprefix("loss.")
        elif name.startswith(f"{SETTINGS_KEY}."):
            taken, key = run, name.removeprefix(f"{SETTINGS_KEY}.")
        elif name.startswith((RECIPE_KEY, SETTINGS_KEY)):
            raise InputError(
                f"{text}: set an axis (anchor=own) or {SETTINGS_KEY}.seed=7, not the whole block."
            )
        else:
            taken, key = overrides, name
        if key in taken:
            raise InputError(f"{text}: {name} is given twice.")
        taken[key] = override if taken is overrides else override.value
    return Assigned(_changed(recipe, axes, loss, preset), _run_settings(run), tuple(overrides.values()))


def _parse(text: str) -> Override:
    match = _FORM.fullmatch(text)
    if match is None or (match[3] is None and match[1] != "~"):
        raise InputError(f"{text!r} is no override; write key=value, as anchor=own or trainer.save_freq=5.")
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


def _changed(recipe: Recipe, axes: dict[str, Any], loss: dict[str, Any], preset: Preset) -> Recipe:
    if not axes and not loss and not preset.changes(recipe):
        return recipe
    changes = [f"{key}={_spelled(value)}" for key, value in axes.items() if key not in ("name", "summary")]
    changes += [f"loss.{key}={_spelled(value)}" for key, value in loss.items()]
    named = {
        "name": f"{recipe.name}[{','.join(changes)}]" if changes else recipe.name,
        "summary": f"{recipe.name} with {', '.join(changes)}" if changes else recipe.summary,
    }
    return preset.applied(recipe, {**named, **axes, "loss": loss})


def _spelled(value: Any) -> str:
    return "none" if value is None else str(value)


def _run_settings(values: dict[str, Any]) -> RunSettings:
    names = {each.name for each in fields(RunSettings)} - {"record"}
    unknown = sorted(set(values) - names)
    if unknown:
        raise InputError(
            f"no setting {SETTINGS_KEY}.{unknown[0]}; there are: {', '.join(sorted(names))} (the record "
            "stands in the run's folder)."
        )
    try:
        return RunSettings(**values)
    except TypeError as error:
        listed = ", ".join(f"{SETTINGS_KEY}.{key}={value}" for key, value in values.items())
        raise InputError(f"{listed}: a number is needed ({error}).") from error
