"""`tagrpo train plan`: what a training takes before it starts."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from service.config import Reading, settings_of
from trainer_adapter.config import PlanAssumptions, TrainConfig
from ui.cli import exits, output
from ui.cli.configured import Verb
from ui.cli.output import Heading, Part, Table, Terminal
from ui.cli.settings import Db

if TYPE_CHECKING:
    from trainer_adapter.plans.planning import TrainingPlan

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
    db: Db,
    terminal: Terminal,
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
    terminal.emit(record, *_parts(made))
    if made.warnings:
        raise exits.needs_attention("; ".join(made.warnings))


def _parts(plan: "TrainingPlan") -> Iterator[Part]:
    composition, memory = plan.composition, plan.memory
    adapter = f", A = {memory.adapter_parameters / 1e9:.3g}B of an adapter"
    model = composition.value("actor_rollout_ref.model.path")
    yield Heading(
        f"{composition.recipe.name}, {model} ({plan.shape.parameters / 1e9:.2f}B parameters"
        f"{adapter if memory.adapter_parameters else ''}), {composition.machine.name} with "
        f"{memory.gpu_gib:g} GiB each"
    )
    yield f"preset {composition.preset.name}: settings of {composition.preset.summary}"
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
    yield Table(columns, [[row[name] for name in columns] for row in rows])
    for method in plan.methods:
        if method.drawn is not None:
            dropped = "including those that dynamic sampling drops"
            yield f"{method.method}, {dropped}: {method.drawn:,.0f} responses"
    if plan.pilot is not None and plan.pilot.interval is not None:
        low, high = plan.pilot.interval
        yield (
            f"groups without a gradient at the start, by pilot {plan.pilot.run}: "
            f"{plan.methods[0].no_gradient:.1%} [{low:.1%}, {high:.1%}]"
        )
    for name in ("tokens_per_second", "training_tflops"):
        if getattr(plan.speed, name) is None:
            yield f"the time estimate is incomplete; add --assume {name}=N"
    yield from ("", Heading("memory of one GPU, GiB (estimated)"))
    rows_of_memory = [[part.phase, part.what, round(part.gib, 1), part.formula] for part in memory.parts]
    yield Table(["phase", "part", "GiB", "formula"], rows_of_memory)
    for phase in ("rollout", "update"):
        yield f"{phase}: {memory.total(phase):.1f} of {memory.gpu_gib:g} GiB"
    concurrent = f"{memory.concurrent:.0f} responses of maximum length at once"
    yield f"cache: {memory.cache_tokens:,} tokens per replica, {concurrent}"
    if memory.host_gib:
        yield f"host memory for data offloaded from the GPUs: {memory.host_gib:.0f} GiB"
    disk = memory.checkpoint_gib
    yield f"disk: {f'{disk:.0f}' if disk >= 1 else f'{disk:.2g}'} GiB per checkpoint"
    yield (
        "assumed: flash-attn is installed, so rows are packed; without it, add "
        "verl.actor_rollout_ref.model.use_remove_padding=false"
        if memory.packed
        else "assumed: no flash-attn, so the rows of a micro-batch are padded"
    )
