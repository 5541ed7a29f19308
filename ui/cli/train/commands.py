"""`tagrpo train`: plan, run."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from service.config import Reading, settings_of
from service.errors import InputError
from trainer_adapter.config import PlanAssumptions, TrainConfig
from ui.cli import console, exits, output
from ui.cli.configured import verb
from ui.cli.output import Terminal
from ui.cli.settings import Db
from ui.cli.train import reports

if TYPE_CHECKING:
    from service.database import Database

FLAGS = {
    "--model": "model",
    "--set": "set",
    "--data": "data",
    "--preset": "preset",
    "--name": "name",
    "--gpus": "gpus",
    "--nodes": "nodes",
    "--cpu": "cpu",
}
PLAN_FLAGS = {flag: FLAGS[flag] for flag in ("--model", "--data", "--preset", "--gpus")}


@verb("train", TrainConfig, "recipe.name", PLAN_FLAGS)
def plan(
    config: TrainConfig,
    *,
    questions: Annotated[
        int | None, Option(min=1, help="Number of training questions, instead of --data.")
    ] = None,
    pilot: Annotated[str | None, Option(help="Eval run of this model over the neighbor set.")] = None,
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
    from trainer_adapter.methods.recipes import find_recipe
    from trainer_adapter.plans.compute import Speed, plan_compute, uncounted, warnings
    from trainer_adapter.plans.memory import plan_memory
    from trainer_adapter.runs.composing import compose_training
    from trainer_adapter.runs.data import read_data
    from trainer_adapter.runs.model_sizes import find_shape
    from ui.cli.train.pilot import read_pilot
    from ui.cli.train.script import comparison_script, write_script

    model = config.model
    if model is None or config.cpu:
        raise InputError("a plan is for a model on GPUs: give --model, and no cpu.")
    if (config.data is None) == (questions is None):
        raise typer.BadParameter("give an export with --data, or the number of questions with --questions")
    if script is not None and (config.data is None or compare is None):
        raise typer.BadParameter("--script requires --data and --compare")
    reading = Reading(PlanAssumptions)
    reading.add_words(assume or ())
    assumed = reading.build()
    if config.nodes > 1 and config.ray_address is None:
        config = config.model_copy(update={"ray_address": "auto"})
    export = None if config.data is None else read_data(config.data)
    composition = compose_training(config, export)
    if script is not None and composition.lora_rank:
        raise InputError("--script evaluates whole models; merge adapters by hand (docs/train.md).")
    shape = find_shape(model)
    forecast, mean_tokens = None, assumed.mean_tokens
    if pilot is not None:
        forecast = read_pilot(pilot, composition.recipe, assumed.shift_sd, assumed.seed, db)
        mean_tokens = mean_tokens or forecast.mean_tokens
    elif assumed.shift_sd is not None:
        raise typer.BadParameter("--assume shift_sd requires --pilot")
    speed = Speed(assumed.tokens_per_second, assumed.training_tflops, mean_tokens)
    asked = questions if export is None else export.rows
    beside = [name.strip() for name in compare.split(",")] if compare else []
    plans = plan_compute(
        composition,
        shape,
        asked or 0,
        speed,
        None if forecast is None else forecast.no_gradient,
        compare=[composition.preset.applied(find_recipe(name)) for name in beside],
        responses=responses,
    )
    memory = plan_memory(composition, shape, assumed.gpu_memory_gib)
    if script is not None:
        text = comparison_script(script, config, composition, plans, beside, questions=asked or 0)
        write_script(script, text)
        output.note(f"comparison script: {script}. Try it with --dry-run first")
    for note in uncounted(plans):
        output.note(note)
    doubts = warnings(composition, plans[0])
    if memory.shortage is not None:
        doubts.insert(0, memory.shortage)
    estimate = reports.Estimate(
        composition=composition,
        shape=shape,
        memory=memory,
        plans=plans,
        speed=speed,
        pilot=forecast,
        warnings=doubts,
    )
    terminal.emit(reports.plan_record(estimate), reports.print_plan, estimate)
    if doubts:
        raise exits.needs_attention("; ".join(doubts))


@verb("train", TrainConfig, "recipe.name", FLAGS)
def run(
    config: TrainConfig,
    *,
    dry_run: Annotated[bool, Option(help="Print the command; write and start nothing.")] = False,
    hide_log: Annotated[
        bool, Option(help="Write verl's output and command to the run's folder; show only the steps.")
    ] = False,
    db: Db,
    terminal: Terminal,
) -> None:
    """Train with verl, from a neighbor set to checkpoints; resume after an interruption.

    KEY=VALUE is an axis of the recipe (anchor=own, loss.kl_coef=0), a setting of the plug-in (run.seed=7), or
    with `verl.` before it one of verl (verl.trainer.save_freq=5).

    The exact verl command is printed and stored with the run. The run's folder contains checkpoints, log,
    metrics, the rollout record and every setting with its source. The UI and `tagrpo rollouts` read the
    record, also during the training. Ctrl-C and SIGTERM stop verl and every process it started. Run the same
    command again, or `tagrpo resume NAME`, to resume from the last checkpoint.

    Exit codes: 1 training failed, 130 or 143 it was stopped (Ctrl-C, SIGTERM).

    Example: tagrpo train run ta_grpo --set math@1 --model Qwen/Qwen3-1.7B --gpus 4

    Example: tagrpo train run ta_grpo --data out/verl --model tiny --cpu verl.trainer.total_epochs=1
    """
    from trainer_adapter.runs import running
    from trainer_adapter.runs.run_folder import COMMAND

    def opened() -> "Database":
        return db.open(create=config.set is None)

    if dry_run:
        prepared = running.dry_run(config, opened)
        for remark in prepared.notes:
            output.note(remark)
        terminal.emit(reports.prepared_record(prepared), output.say, prepared.shell)
        return

    def announce(prepared: running.Prepared) -> None:
        for remark in prepared.notes:
            output.note(remark)
        kept = f"command in {COMMAND}, verl's output in logs/" if hide_log else f"\n{prepared.shell}"
        output.note(f"run {prepared.name} in {prepared.folder.path}: {kept}")

    with terminal.progress(config.name or config.recipe.name, quiet=not hide_log) as bar:
        echo = _show_steps(bar) if hide_log else console.write_line
        trained = running.train(config, opened, announce=announce, echo=echo)
    terminal.emit(reports.trained_record(trained), reports.print_trained, trained)
    if not trained.finished:
        raise exits.stopped_training(trained.attempt.stopped_by, reports.why_unfinished(trained))


def _show_steps(bar: output.Bar) -> Callable[[str], None]:
    """Return what takes verl's lines and shows how far training is."""
    from trainer_adapter.runs.launching import step_of, total_steps_of
    from trainer_adapter.verl.alarms import MARK

    total: int | None = None
    step = 0
    bar.update(0, None, "verl starts")

    def take(line: str) -> None:
        nonlocal total, step
        if MARK in line:
            output.note(line[line.index(MARK) :])
        total, step = total_steps_of(line) or total, step_of(line) or step
        bar.update(step, total, "steps" if step else "verl starts")

    return take
