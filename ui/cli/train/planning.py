"""`tagrpo train plan` and `recipes`: what a training takes, and the settings of verl that a recipe makes."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Option

from service.config import Reading, settings_of
from trainer_adapter.config import PlanAssumptions, TrainConfig
from ui.cli import exits, output
from ui.cli.configured import Verb
from ui.cli.output import Heading, Table, terminal
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

    The plan compares the recipe with GRPO, or with the recipes of --compare, for equal epochs and for equally
    many responses. --pilot adds a forecast of the groups without a gradient. Formulas estimate the memory;
    nothing is measured.

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


AXES = ("sampling", "group", "advantage", "weights", "anchor", "loss", "filter", "reward")


@Verb("train", TrainConfig, "recipe.name", {**FLAGS, "--cpu": "cpu"}, optional=True)
def recipes(config: TrainConfig | None) -> None:
    """List the recipes with their choice on every axis; with a name, show every verl setting of one.

    Paths of files, folders and the model are placeholders unless you give them.

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
