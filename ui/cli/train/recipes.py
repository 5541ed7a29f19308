"""`tagrpo recipes`: list, show."""

from typing import Annotated

from typer import Option

from ui.cli.output import Terminal
from ui.cli.train import reports
from ui.cli.train.settings import Changes, DataOption, MachineSettings, RecipeArgument


def list_(*, terminal: Terminal) -> None:
    """List the recipes, each as one choice on every axis.

    Example: [bold]tagrpo recipes list[/bold]
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
    model: Annotated[str | None, Option(help="Policy: a folder, or a name on the Hub.")] = None,
    changes: Changes,
    machine: MachineSettings,
    terminal: Terminal,
) -> None:
    """Show all that verl is told: the recipe on its axes, every override, and where each value comes from.

    Files, folders and the model appear where they are given.

    Example: [bold]tagrpo recipes show ta_grpo --model Qwen/Qwen3-1.7B --gpus 4[/bold]
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
