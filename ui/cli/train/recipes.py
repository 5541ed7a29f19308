"""`tagrpo train recipes`: the training methods, and the settings of verl that each one makes."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from trainer_adapter.config import TrainConfig
from ui.cli import output
from ui.cli.configured import verb
from ui.cli.output import Terminal
from ui.cli.train.planning import FLAGS

if TYPE_CHECKING:
    from trainer_adapter.methods.recipes import Loss
    from trainer_adapter.runs.composing import Composition


@verb("train", TrainConfig, "recipe.name", {**FLAGS, "--cpu": "cpu"}, optional=True)
def recipes(config: TrainConfig | None, *, terminal: Terminal) -> None:
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

    if config is None:
        columns = {"recipe": "name", "N": "neighbors", "G": "responses"}
        axes = ("sampling", "group", "advantage", "weights", "anchor", "loss", "filter", "reward")
        columns |= {axis: axis for axis in axes}
        rows = [{**vars(recipe), "loss": _in_words(recipe.loss)} for recipe in RECIPES.values()]
        cells = [[row[name] for name in columns.values()] for row in rows]
        record: dict[str, Any] = {"recipes": [recipe.to_json() for recipe in RECIPES.values()]}
        terminal.emit(record, output.table, list(columns), cells)
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
    terminal.emit(record, _print, composition)


def _print(composition: "Composition") -> None:
    from trainer_adapter.runs.settings import SOURCES

    recipe, preset = composition.recipe, composition.preset
    settings = "".join(f", {name} {value:g}" for name, value in recipe.settings.items())
    output.heading(f"{recipe.name}: {recipe.summary}")
    output.say(f"preset {preset.name}: {preset.summary}; the paper's prompt: {preset.prompt_words}")
    rollouts = f"N={recipe.neighbors}, G={recipe.responses}: {recipe.rollouts} responses per question"
    output.table(
        ["axis", "choice"],
        [
            ["rollouts", rollouts],
            ["sampling", recipe.sampling],
            ["group", recipe.group],
            ["advantage", recipe.advantage + settings],
            ["token weights", recipe.weights],
            ["anchor", recipe.anchor],
            ["loss", _in_words(recipe.loss)],
            ["filter", recipe.filter],
            ["reward", recipe.reward],
        ],
    )
    output.say()
    output.heading(f"overrides of verl's configuration, {composition.machine.name}")
    overrides = [each for each in composition.values if not isinstance(each.value, dict)]
    rows = [[each.key, _plain(each.value), each.source, each.reason] for each in overrides]
    output.table(["key", "value", "source", "why"], rows)
    output.say()
    output.heading("sources")
    for source in dict.fromkeys(each.source for each in overrides):
        output.say(f"{source}: {SOURCES[source]}")


def _in_words(loss: "Loss") -> str:
    clip = f"clip {loss.clip_low:g}/{loss.clip_high:g}"
    dual = "" if loss.dual_clip is None else f", dual clip {loss.dual_clip:g}"
    kl = f"KL {loss.kl_coef:g} {loss.kl}" if loss.kl_coef else "no KL"
    return f"{clip}{dual}, {loss.aggregation}, {kl}"


def _plain(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return "[" + ", ".join(map(str, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)
