"""What the commands of recipes and trainings take: a recipe, changes to it, data, machines."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from typer import Argument, Option

if TYPE_CHECKING:
    from trainer_adapter.runs.assignments import Assigned
    from trainer_adapter.runs.composing import Machine

RecipeArgument = Annotated[str, Argument(help="Name of `tagrpo recipes list`, or a TOML file.")]
ChangesArgument = Annotated[
    list[str] | None,
    Argument(
        help="KEY=VALUE: an axis (anchor=own, loss.kl_coef=0), a setting of the plug-in (tagrpo_run.seed=7), "
        "or an override of verl's configuration (trainer.save_freq=5)."
    ),
]
DataOption = Annotated[Path | None, Option("--data", help="Folder of `tagrpo sets export --format verl`.")]


@dataclass(frozen=True)
class MachineSettings:
    """Where training runs."""

    panel: ClassVar[str] = "The machines"

    gpus: Annotated[int, Option(min=1, help="GPUs of each node.")] = 1
    nodes: Annotated[int, Option(min=1, help="Nodes of the Ray cluster.")] = 1
    cpu: Annotated[bool, Option(help="Without a GPU: for trials with tiny models, in float32.")] = False
    ray_address: Annotated[
        str | None,
        Option(help="A running Ray cluster (auto on its head node); by default verl starts its own."),
    ] = None

    def machine(self) -> "Machine":
        """Return the same as compositions take it."""
        from trainer_adapter.runs.composing import Machine

        return Machine(**asdict(self))


def assigned(recipe: str, changes: list[str] | None) -> "Assigned":
    """Return the recipe of that name or file with these changes."""
    from trainer_adapter.methods.recipes import find_recipe
    from trainer_adapter.runs.assignments import assign

    return assign(find_recipe(recipe), changes or [])
