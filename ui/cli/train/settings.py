"""What the commands of recipes and trainings take: a recipe, changes to it, data, machines."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from typer import Argument, Option

if TYPE_CHECKING:
    from trainer_adapter.runs.assignments import Assigned
    from trainer_adapter.runs.composing import Machine
    from trainer_adapter.runs.presets import Preset
    from trainer_adapter.verl.export_rows import AnswerForm

RecipeArgument = Annotated[str, Argument(help="Name from `tagrpo recipes list`, or a TOML file.")]
PresetName = Literal["ta", "a_grae", "a_grae-geo3k", "a_grae-medical", "cw"]
ModelOption = Annotated[str, Option("--model", help="Policy: a folder, or a Hub name.")]
DataOption = Annotated[
    Path | None, Option("--data", help="Folder written by `tagrpo sets export --format verl`.")
]


@dataclass(frozen=True)
class Changes:
    """What is changed about a recipe."""

    changes: Annotated[
        tuple[str, ...],
        Argument(
            help="KEY=VALUE: a recipe axis (anchor=own, loss.kl_coef=0), a setting of the plug-in "
            "(tagrpo_run.seed=7), or an override of verl's config (trainer.save_freq=5)."
        ),
    ] = ()
    preset: Annotated[
        PresetName,
        Option(
            help="Settings of a paper, for any recipe: TA-GRPO, A-GRAE, CW-GRPO. Your overrides take "
            "precedence."
        ),
    ] = "ta"

    def made(self, recipe: str, *more: str) -> "tuple[Assigned, Preset]":
        """Return the recipe of that name or file with these changes and more, and the preset."""
        from trainer_adapter.methods.recipes import find_recipe
        from trainer_adapter.runs.assignments import assign
        from trainer_adapter.runs.presets import find_preset

        preset = find_preset(self.preset)
        return assign(find_recipe(recipe), [*self.changes, *more], preset=preset), preset


@dataclass(frozen=True)
class Cluster:
    """How many GPUs there are."""

    gpus: Annotated[int, Option(min=1, help="GPUs per node.")] = 1
    nodes: Annotated[int, Option(min=1, help="Nodes of the Ray cluster.")] = 1


@dataclass(frozen=True)
class MachineSettings(Cluster):
    """Where training runs."""

    panel: ClassVar[str] = "Machines"

    cpu: Annotated[bool, Option(help="Train on the CPU in float32: for trials with tiny models.")] = False
    ray_address: Annotated[
        str | None,
        Option(help="Running Ray cluster to use (auto on its head node). Default: verl starts its own."),
    ] = None

    def machine(self) -> "Machine":
        """Return the same as compositions take it."""
        from trainer_adapter.runs.composing import Machine

        return Machine(**asdict(self))


@dataclass(frozen=True)
class AnswerSettings:
    """How the answers of a set are graded in training."""

    panel: ClassVar[str] = "Answers"

    answer_kind: Annotated[
        Literal["latex", "integer", "choice", "tolerance"],
        Option(help="Kind of answer that the questions ask for."),
    ] = "latex"
    tolerance: Annotated[
        str | None, Option(help="For kind tolerance: 1e-2, or 1% of the answer. Default: 1%.")
    ] = None

    def form(self) -> "AnswerForm":
        """Return the same as exports take it."""
        from evaluator.grading import AnswerKind
        from trainer_adapter.verl.export_rows import AnswerForm

        return AnswerForm(AnswerKind(self.answer_kind), self.tolerance)
