"""`tagrpo train`: plan, run."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from service.errors import InputError
from ui.cli import console, exits, output
from ui.cli.output import Terminal
from ui.cli.settings import Db, Seed
from ui.cli.train import reports
from ui.cli.train.settings import (
    AnswerSettings,
    Changes,
    Cluster,
    DataOption,
    MachineSettings,
    ModelOption,
    RecipeArgument,
)

if TYPE_CHECKING:
    from service.database import Database


keep: Any = None


def plan(
    recipe: RecipeArgument,
    model: ModelOption,
    *,
    changes: Changes,
    data: DataOption = None,
    questions: Annotated[
        int | None, Option(min=1, help="Number of training questions, instead of --data.")
    ] = None,
    cluster: Cluster,
    gpu_memory_gib: Annotated[float, Option(min=1, max=10_000, help="Memory of one GPU in GiB.")] = 80.0,
    tokens_per_second: Annotated[
        float | None, Option(help="Tokens that one GPU generates per second.")
    ] = None,
    training_tflops: Annotated[
        float | None, Option(help="Speed that one GPU reaches in training, in 10^12 operations per second.")
    ] = None,
    mean_tokens: Annotated[
        float | None, Option(help="Mean tokens per response. Default: the pilot's.")
    ] = None,
    pilot: Annotated[str | None, Option(help="Eval run of this model over the neighbor set.")] = None,
    assume_shift_sd: Annotated[
        float | None,
        Option(
            help="Assumed spread of the neighbors' difficulty (logit scale), for a pilot without neighbors."
        ),
    ] = None,
    compare: Annotated[
        str | None,
        Option(help="Recipes to compare with at equal responses, separated by commas. Default: GRPO."),
    ] = None,
    responses: Annotated[
        int | None, Option(min=1, help="Total responses of each training. Default: those of the recipe.")
    ] = None,
    script: Annotated[
        Path | None,
        Option(
            help="With --data and --compare: write a script that trains all recipes at equal responses, "
            "evaluates them and writes the report."
        ),
    ] = None,
    seed: Seed = 0,
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
    """
    from trainer_adapter.methods.recipes import find_recipe
    from trainer_adapter.plans.compute import Speed, plan_compute, uncounted, warnings
    from trainer_adapter.plans.memory import plan_memory
    from trainer_adapter.runs.composing import Machine, compose_run
    from trainer_adapter.runs.data import read_data
    from trainer_adapter.runs.model_sizes import find_shape
    from ui.cli.train.pilot import read_pilot
    from ui.cli.train.script import comparison_script, write_script

    if (data is None) == (questions is None):
        raise typer.BadParameter("give an export with --data, or the number of questions with --questions")
    if script is not None and (data is None or compare is None):
        raise typer.BadParameter("--script requires --data and --compare")
    changed, preset = changes.made(recipe)
    export = None if data is None else read_data(data)
    composition = compose_run(
        machine=Machine(**vars(cluster), ray_address="auto" if cluster.nodes > 1 else None),
        model=model,
        data=export,
        preset=preset,
        **vars(changed),
    )
    if script is not None and composition.lora_rank:
        raise InputError("--script evaluates whole models; merge adapters by hand (docs/train.md).")
    shape = find_shape(model)
    forecast = None
    if pilot is not None:
        forecast = read_pilot(pilot, changed.recipe, assume_shift_sd, seed, db)
        mean_tokens = mean_tokens or forecast.mean_tokens
    elif assume_shift_sd is not None:
        raise typer.BadParameter("--assume-shift-sd requires --pilot")
    speed = Speed(tokens_per_second, training_tflops, mean_tokens)
    asked = questions if export is None else export.rows
    beside = [name.strip() for name in compare.split(",")] if compare else []
    plans = plan_compute(
        composition,
        shape,
        asked or 0,
        speed,
        None if forecast is None else forecast.no_gradient,
        compare=[preset.applied(find_recipe(name)) for name in beside],
        responses=responses,
    )
    memory = plan_memory(composition, shape, gpu_memory_gib)
    if script is not None and data is not None:
        text = comparison_script(
            script,
            composition,
            plans,
            [recipe, *beside],
            changes.changes,
            model=model,
            data=data,
            questions=asked or 0,
        )
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


def run(
    context: typer.Context,
    recipe: RecipeArgument,
    model: ModelOption,
    *,
    set_ref: Annotated[
        str | None, Option("--set", help="Neighbor set NAME@VERSION; it is exported for this run.")
    ] = None,
    data: DataOption = None,
    changes: Changes,
    prompt_file: Annotated[
        Path | None,
        Option(
            help="With --set: file with the prompt's instruction, for example a paper's. It replaces the "
            "preset's instruction in the same place (below the question, or as system message)."
        ),
    ] = None,
    validation_share: Annotated[
        float, Option(min=0, max=0.99, help="Share of the questions of --set used for validation.")
    ] = 0.0,
    name: Annotated[str | None, Option(help="Name of the run. Default: RECIPE-MODEL.")] = None,
    folder: Annotated[Path | None, Option(help="Folder of the run. Default: runs/NAME.")] = None,
    record_share: Annotated[
        float | None,
        Option(
            help="Share of the questions whose responses are recorded, the same ones at every step. Metrics "
            "cover all responses. Default: 1, all."
        ),
    ] = None,
    dry_run: Annotated[bool, Option(help="Print the command; write and start nothing.")] = False,
    hide_log: Annotated[
        bool, Option(help="Write verl's output and command to the run's folder; show only the steps.")
    ] = False,
    answers: AnswerSettings,
    machine: MachineSettings,
    db: Db,
    terminal: Terminal,
) -> None:
    """Train with verl, from a neighbor set to checkpoints; resume after an interruption.

    The exact verl command is printed and stored with the run. The run's folder contains checkpoints, log,
    metrics, the rollout record and every setting with its source. The UI and `tagrpo rollouts` read the
    record, also during the training. Ctrl-C and SIGTERM stop verl and every process it started. Run the same
    command again, or `tagrpo resume NAME`, to resume from the last checkpoint.

    Exit codes: 1 training failed, 130 or 143 it was stopped (Ctrl-C, SIGTERM).

    Example: tagrpo train run ta_grpo --set math@1 --model Qwen/Qwen3-1.7B --gpus 4

    Example: tagrpo train run ta_grpo --data out/verl --model tiny --cpu trainer.total_epochs=1
    """
    from service.runs.store import find_run
    from trainer_adapter.runs import running
    from trainer_adapter.runs.run_folder import COMMAND
    from trainer_adapter.verl.prompts import read_words

    if (set_ref is None) == (data is None):
        raise typer.BadParameter("give a neighbor set with --set, or an export with --data")
    form = answers.form()
    if set_ref is None and (prompt_file is not None or form != AnswerSettings().form()):
        raise typer.BadParameter(
            "--prompt-file, --answer-kind and --tolerance require --set. An export already contains its "
            "prompts and answers: give --system, --instruction, --answer-kind to `tagrpo sets export`"
        )
    share = [] if record_share is None else [f"tagrpo_run.record_share={record_share:g}"]
    changed, preset = changes.made(recipe, *share)
    wanted = running.TrainRequest(
        model=model,
        machine=machine.machine(),
        name=name,
        folder=folder,
        set_ref=set_ref,
        data=data,
        validation_share=validation_share,
        preset=preset,
        prompt_words=None if prompt_file is None else read_words(prompt_file),
        answers=form,
        **vars(changed),
    )

    def opened() -> "Database":
        return db.open(create=set_ref is None)

    if dry_run:
        prepared = running.dry_run(wanted, opened)
        for remark in prepared.notes:
            output.note(remark)
        terminal.emit(reports.prepared_record(prepared), output.say, prepared.shell)
        return

    def announce(prepared: running.Prepared) -> None:
        with opened() as database:
            with database.read() as session:
                begun = find_run(session, prepared.name)
            keep(context, database, [begun])
        for remark in prepared.notes:
            output.note(remark)
        kept = f"command in {COMMAND}, verl's output in logs/" if hide_log else f"\n{prepared.shell}"
        output.note(f"run {prepared.name} in {prepared.folder.path}: {kept}")

    with terminal.progress(name or recipe, quiet=not hide_log) as bar:
        echo = _show_steps(bar) if hide_log else console.write_line
        trained = running.train(wanted, opened, resume=running.is_begun(wanted), announce=announce, echo=echo)
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
