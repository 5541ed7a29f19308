"""`tagrpo train plan`: what a training takes before it starts."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from service.config import Reading, settings_of
from trainer_adapter.config import PlanAssumptions, TrainConfig
from ui.cli import exits, output
from ui.cli.configured import verb
from ui.cli.output import Terminal
from ui.cli.settings import Db

if TYPE_CHECKING:
    from trainer_adapter.plans.planning import TrainingPlan

FLAGS = {"--model": "model", "--data": "data", "--preset": "preset", "--gpus": "gpus"}


@verb("train", TrainConfig, "recipe.name", FLAGS)
def plan(
    config: TrainConfig,
    *,
    questions: Annotated[
        int | None, Option(min=1, help="Number of training questions, instead of --data.")
    ] = None,
    pilot: Annotated[str | None, Option(help="Pilot: eval run of the model on the set.")] = None,
    compare: Annotated[
        str | None,
        Option(help="Recipes to compare with at equal responses, separated by commas. Default: GRPO."),
    ] = None,
    responses: Annotated[
        int | None, Option(min=1, help="Total responses of each training. Default: those of the recipe.")
    ] = None,
    assume: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=VALUE",
            help=f"{', '.join(each.path for each in settings_of(PlanAssumptions))}: what a plan cannot know. "
            "Repeat the option for several.",
        ),
    ] = None,
    script: Annotated[
        Path | None,
        Option(
            help="With --data and --compare: write a script that trains all recipes at equal responses, "
            "evaluates them and writes the report."
        ),
    ] = None,
    db: Db,
    terminal: Terminal,
) -> None:
    """Estimate memory, responses, tokens and time of a training before it starts.

    The recipe is compared with GRPO at equal epochs and at equal responses, or with the recipes of --compare.
    --pilot adds a forecast of the groups without a gradient. Memory is calculated by formulas that are
    printed with it; nothing is measured.

    Exit code 3: the training does not fit the GPUs, or the forecast advises against it.

    Example: tagrpo train plan ta_grpo --model Qwen/Qwen3-4B --questions 7498 --gpus 4

    Example: tagrpo train plan ta_rescue --compare grpo --model Qwen/Qwen3-4B --questions 7498
    --assume tokens_per_second=2500
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
    composition, memory = made.composition, made.memory
    record = {
        "preset": composition.preset.name,
        "recipe": composition.recipe.to_json(),
        "model": composition.value("actor_rollout_ref.model.path"),
        "parameters": made.shape.parameters,
        "machine": asdict(composition.machine),
        "speed": asdict(made.speed),
        "methods": [{**asdict(method), "hours": method.hours} for method in made.methods],
        "memory": {
            **asdict(memory),
            "rollout_gib": memory.total("rollout"),
            "update_gib": memory.total("update"),
            "fits": memory.fits,
        },
        "pilot": made.pilot
        and {name: getattr(made.pilot, name) for name in ("run", "interval", "mean_tokens")},
        "warnings": made.warnings,
    }
    terminal.emit(record, _print, made)
    if made.warnings:
        raise exits.needs_attention("; ".join(made.warnings))


def _print(plan: "TrainingPlan") -> None:
    composition, memory = plan.composition, plan.memory
    adapter = (
        f", A = {memory.adapter_parameters / 1e9:.3g}B of an adapter" if memory.adapter_parameters else ""
    )
    output.heading(
        f"{composition.recipe.name}, {composition.value('actor_rollout_ref.model.path')} "
        f"({plan.shape.parameters / 1e9:.2f}B parameters{adapter}), {composition.machine.name} with "
        f"{memory.gpu_gib:g} GiB each"
    )
    output.say(f"preset {composition.preset.name}: settings of {composition.preset.summary}")
    rows = [
        {
            "method": method.method,
            "responses per question": method.responses_per_question,
            "epochs": method.epochs,
            "steps": method.steps,
            "updates": method.updates,
            "responses": method.responses,
            "max tokens" if method.at_most else "tokens": f"{method.tokens:.3g}",
            "generation h": method.generation_hours,
            "training h": method.training_hours,
            "no gradient": None if method.no_gradient is None else f"{method.no_gradient:.1%}",
        }
        for method in plan.methods
    ]
    columns = [name for name in rows[0] if plan.pilot is not None or name != "no gradient"]
    output.table(columns, [[row[name] for name in columns] for row in rows])
    for method in plan.methods:
        if method.drawn is not None:
            dropped = "including those that dynamic sampling drops"
            output.say(f"{method.method}, {dropped}: {method.drawn:,.0f} responses")
    if plan.pilot is not None and plan.pilot.interval is not None:
        low, high = plan.pilot.interval
        output.say(
            f"groups without a gradient at the start, by pilot {plan.pilot.run}: "
            f"{plan.methods[0].no_gradient:.1%} [{low:.1%}, {high:.1%}]"
        )
    for name in ("tokens_per_second", "training_tflops"):
        if getattr(plan.speed, name) is None:
            output.say(f"time is not fully known: give --assume {name}=N")
    output.say()
    output.heading("memory of one GPU, GiB (estimated)")
    parts = [[part.phase, part.what, round(part.gib, 1), part.formula] for part in memory.parts]
    output.table(["phase", "part", "GiB", "formula"], parts)
    output.say(
        f"rollout: {memory.total('rollout'):.1f} of {memory.gpu_gib:g} GiB",
        f"update: {memory.total('update'):.1f} of {memory.gpu_gib:g} GiB",
        f"cache: {memory.cache_tokens:,} tokens per replica, {memory.concurrent:.0f} responses of maximum "
        "length at once",
    )
    if memory.host_gib:
        output.say(f"host memory for data kept off the GPUs: {memory.host_gib:.0f} GiB")
    disk = memory.checkpoint_gib
    output.say(
        f"disk: {f'{disk:.0f}' if disk >= 1 else f'{disk:.2g}'} GiB per checkpoint",
        "assumed: flash-attn is installed, so rows are packed; without it, add "
        "verl.actor_rollout_ref.model.use_remove_padding=false"
        if memory.packed
        else "assumed: no flash-attn, so the rows of a micro-batch are padded",
    )
