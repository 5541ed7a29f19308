"""`tagrpo train recipes`: the training methods, and the settings of verl that each one makes."""

import json
from dataclasses import asdict

from trainer_adapter.config import TrainConfig
from ui.cli.configured import Verb
from ui.cli.output import Heading, Table, terminal
from ui.cli.train.planning import FLAGS

AXES = ("sampling", "group", "advantage", "weights", "anchor", "loss", "filter", "reward")


@Verb("train", TrainConfig, "recipe.name", {**FLAGS, "--cpu": "cpu"}, optional=True)
def recipes(config: TrainConfig | None) -> None:
    """List the recipes with their choice on every axis; with a name, show every verl setting of one.

    Each setting is printed with its source. Paths of files, folders and the model are placeholders unless you
    give them.

    Example: tagrpo train recipes

    Example: tagrpo train recipes ta_grpo --model Qwen/Qwen3-1.7B --gpus 4
    """
    from trainer_adapter.methods.recipes import RECIPES
    from trainer_adapter.runs.checking import check_formulas
    from trainer_adapter.runs.composing import compose_training
    from trainer_adapter.runs.data import read_data
    from trainer_adapter.runs.settings import SOURCES
    from ui.cli.records import record_parts

    if config is None:
        listed = [recipe.to_json() for recipe in RECIPES.values()]
        columns = f"recipe=name N=neighbors G=responses {' '.join(AXES)}"
        terminal.rows("recipes", listed, columns)
        return
    composition = compose_training(config, None if config.data is None else read_data(config.data))
    check_formulas(composition.recipe)
    record = {
        "preset": composition.preset.name,
        "recipe": composition.recipe.to_json(),
        "plug_in": composition.settings.model_dump(),
        "machine": asdict(composition.machine),
        "overrides": [asdict(each) for each in composition.values],
        "arguments": composition.arguments(),
    }
    recipe, preset = composition.recipe, composition.preset
    overrides = [each for each in composition.values if not isinstance(each.value, dict)]
    rows = [[each.key, json.dumps(each.value), each.source, each.reason] for each in overrides]
    terminal.emit(
        record,
        Heading(f"{recipe.name}: {recipe.summary}"),
        f"preset {preset.name}: {preset.summary}; the paper's prompt: {preset.prompt_words}",
        f"N={recipe.neighbors}, G={recipe.responses}: {recipe.rollouts} responses per question",
        *record_parts({"recipe": {name: record["recipe"][name] for name in AXES}}),
        *("", Heading(f"overrides of verl's configuration, {composition.machine.name}")),
        Table(["key", "value", "source", "why"], rows),
        *("", Heading("sources")),
        *(f"{source}: {SOURCES[source]}" for source in dict.fromkeys(each.source for each in overrides)),
    )
