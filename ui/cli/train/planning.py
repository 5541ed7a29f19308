"""`tagrpo train plan`: what a training takes before it starts."""

from pathlib import Path
from typing import Annotated

from typer import Option

from service.config import Reading, settings_of
from trainer_adapter.config import PlanAssumptions, TrainConfig
from ui.cli import exits, output
from ui.cli.configured import Verb
from ui.cli.output import terminal
from ui.cli.settings import db

FLAGS = {"--model": "model", "--data": "data", "--preset": "preset", "--gpus": "gpus"}


@Verb("train", TrainConfig, "recipe.name", FLAGS)
def plan(
    config: TrainConfig,
    *,
    questions: Annotated[int | None, Option(min=1)] = None,
    pilot: str | None = None,
    compare: str | None = None,
    responses: Annotated[int | None, Option(min=1)] = None,
    assume: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=VALUE",
            help=f"{', '.join(each.path for each in settings_of(PlanAssumptions))}: what a plan cannot know. "
            "Repeat the option for several.",
        ),
    ] = None,
    script: Path | None = None,
) -> None:
    """Estimate memory, responses, tokens and time of a training run before it starts.

    The recipe is compared with GRPO, or with the recipes of --compare, once for equal epochs and once for
    equally many responses.
    --pilot adds a forecast of the groups without a gradient. Memory is calculated by formulas that are
    printed with it; nothing is measured.

    Exit code 3: the training does not fit the GPUs, or the forecast advises against it.

    Example: tagrpo train plan ta_grpo --model Qwen/Qwen3-4B --questions 7498 --gpus 4

    Example: tagrpo train plan ta_rescue --compare grpo --model Qwen/Qwen3-4B --questions 7498
    --assume tokens_per_second=2500

    Args:
        questions: Number of training questions, instead of --data.
        pilot: Pilot: eval run of the model on the set.
        compare: Recipes to compare with at equal responses, separated by commas. Default: GRPO.
        responses: Total responses of each training run. Default: the recipe's.
        script: With --data and --compare: write a script that trains all recipes at equal responses,
            evaluates them and writes the report.
    """
    from trainer_adapter.plans.planning import plan_training
    from trainer_adapter.plans.script import write_script

    reading = Reading(PlanAssumptions)
    reading.add_words(assume or ())
    others = [name.strip() for name in compare.split(",")] if compare else []
    made = plan_training(
        config,
        reading.build(),
        db.open,
        questions=questions,
        pilot=pilot,
        compare=others,
        responses=responses,
    )
    if script is not None:
        write_script(script, made, others)
        output.note(f"comparison script: {script}. Try it with --dry-run first")
    for note in made.notes:
        output.note(note)
    missing = [name for name in ("tokens_per_second", "training_tflops") if getattr(made.speed, name) is None]
    terminal.show(
        made.to_json(),
        "",
        *(f"the time estimate is incomplete; add --assume {name}=N" for name in missing),
        "memory is estimated, in GiB; phases: rollout and update",
        hidden=("recipe", "warnings"),
    )
    if made.warnings:
        raise exits.needs_attention("; ".join(made.warnings))
