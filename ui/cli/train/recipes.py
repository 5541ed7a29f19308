"""`tagrpo train recipes`: the training methods, and the settings of verl that each one makes."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from trainer_adapter.config import TrainConfig
from ui.cli.configured import Verb
from ui.cli.output import Heading, Table, terminal
from ui.cli.train.planning import FLAGS

if TYPE_CHECKING:
    from trainer_adapter.methods.recipes import Loss

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

    if config is None:
        recipes = [recipe.to_json() for recipe in RECIPES.values()]
        columns: dict[str, Any] = {"recipe": "name", "N": "neighbors", "G": "responses"}
        columns |= {name: name for name in AXES}
        terminal.rows("recipes", recipes, columns | {"loss": lambda row: _words(RECIPES[row["name"]].loss)})
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
    settings = "".join(f", {name} {value:g}" for name, value in recipe.settings.items())
    choices = {**recipe.to_json(), "advantage": recipe.advantage + settings, "loss": _words(recipe.loss)}
    choices["rollouts"] = (
        f"N={recipe.neighbors}, G={recipe.responses}: {recipe.rollouts} responses per question"
    )
    overrides = [each for each in composition.values if not isinstance(each.value, dict)]
    rows = [[each.key, _plain(each.value), each.source, each.reason] for each in overrides]
    terminal.emit(
        record,
        Heading(f"{recipe.name}: {recipe.summary}"),
        f"preset {preset.name}: {preset.summary}; the paper's prompt: {preset.prompt_words}",
        Table(["axis", "choice"], [[name, choices[name]] for name in ("rollouts", *AXES)]),
        *("", Heading(f"overrides of verl's configuration, {composition.machine.name}")),
        Table(["key", "value", "source", "why"], rows),
        *("", Heading("sources")),
        *(f"{source}: {SOURCES[source]}" for source in dict.fromkeys(each.source for each in overrides)),
    )


def _words(loss: "Loss") -> str:
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
