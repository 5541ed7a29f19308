"""`tagrpo recipes`: list, show."""

from typing import Annotated

from typer import Option

from ui.cli.output import Terminal
from ui.cli.train import reports
from ui.cli.train.settings import Changes, DataOption, MachineSettings, RecipeArgument


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


def show(
    recipe: RecipeArgument,
    *,
    data: DataOption = None,
    model: Annotated[str | None, Option(help="Policy: a folder, or a Hub name.")] = None,
    changes: Changes,
    machine: MachineSettings,
    terminal: Terminal,
) -> None:
    """Show all verl settings of a recipe: its choices, every override, and the source of each value.

    Paths of files, folders and the model are placeholders unless you give them.

    Example: tagrpo recipes show ta_grpo --model Qwen/Qwen3-1.7B --gpus 4
    """
    from trainer_adapter.runs.checking import check_formulas
    from trainer_adapter.runs.composing import compose_run
    from trainer_adapter.runs.data import read_data

    changed, preset = changes.made(recipe)
    check_formulas(changed.recipe)
    composition = compose_run(
        machine=machine.machine(),
        model=model,
        data=None if data is None else read_data(data),
        preset=preset,
        **vars(changed),
    )
    terminal.emit(reports.composition_record(composition), reports.print_composition, composition)
