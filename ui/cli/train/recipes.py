"""`tagrpo recipes`: list, show."""

from trainer_adapter.config import TrainConfig
from ui.cli.configured import verb
from ui.cli.output import Terminal
from ui.cli.train import reports
from ui.cli.train.commands import PLAN_FLAGS


def list_(*, terminal: Terminal) -> None:
    """List the recipes with their choice on every axis.

    Example: tagrpo recipes list
    """
    from trainer_adapter.methods.recipes import RECIPES

    terminal.emit(
        {"recipes": [recipe.to_json() for recipe in RECIPES.values()]},
        reports.print_recipes,
        list(RECIPES.values()),
    )


@verb("train", TrainConfig, "recipe.name", {**PLAN_FLAGS, "--cpu": "cpu"})
def show(config: TrainConfig, *, terminal: Terminal) -> None:
    """Show all verl settings of a recipe: its choices, every override, and the source of each value.

    Paths of files, folders and the model are placeholders unless you give them.

    Example: tagrpo recipes show ta_grpo --model Qwen/Qwen3-1.7B --gpus 4
    """
    from trainer_adapter.runs.checking import check_formulas
    from trainer_adapter.runs.composing import compose_training
    from trainer_adapter.runs.data import read_data

    composition = compose_training(config, None if config.data is None else read_data(config.data))
    check_formulas(composition.recipe)
    terminal.emit(reports.composition_record(composition), reports.print_composition, composition)
