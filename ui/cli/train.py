"""`tagrpo train plan`, `recipes`, `run` and `merge`: what a training takes, and training with verl."""

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from service.config import Reading, settings_of
from service.errors import InputError, Interrupted, Terminated
from trainer_adapter.config import PlanAssumptions, TrainConfig
from ui.cli import output
from ui.cli.configured import Verb
from ui.cli.output import Heading, Table, terminal
from ui.cli.settings import db, resume_command

if TYPE_CHECKING:
    from trainer_adapter.runs.running import Prepared

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

    Args:
        questions: Number of training questions, instead of --data.
        pilot: Pilot: eval run of the model on the set.
        compare: Recipes to compare with at equal responses, separated by commas. Default: GRPO.
        responses: Total responses of each training run. Default: the recipe's.
        script: With --data and --compare: write a script that trains, evaluates and reports all recipes.
    """
    from trainer_adapter.plans.planning import plan_training
    from trainer_adapter.plans.script import write_script

    reading = Reading(PlanAssumptions)
    reading.add_words(assume or ())
    others = [name.strip() for name in compare.split(",")] if compare else []
    asked: dict[str, Any] = {"questions": questions, "pilot": pilot, "responses": responses}
    made = plan_training(config, reading.build(), db.open, compare=others, **asked)
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
        raise output.needs_attention("; ".join(made.warnings))


AXES = ("sampling", "group", "advantage", "weights", "anchor", "loss", "filter", "reward")


@Verb("train", TrainConfig, "recipe.name", {**FLAGS, "--cpu": "cpu"}, optional=True)
def recipes(config: TrainConfig | None) -> None:
    """List the recipes with their choice on every axis; with a name, show every verl setting of one.

    Paths of files, folders and the model are placeholders unless you give them.

    Example: tagrpo train recipes ta_grpo --model Qwen/Qwen3-1.7B --gpus 4
    """
    from trainer_adapter.methods.recipes import RECIPES
    from trainer_adapter.methods.registry import user_sources
    from trainer_adapter.runs import composing, data, settings
    from ui.cli.records import record_parts

    if config is None:
        columns = (
            "recipe=name N=neighbors G=responses sampling group advantage weights anchor filter reward "
            "clip_high=loss.clip_high dual_clip=loss.dual_clip aggregation=loss.aggregation kl=loss.kl_coef"
        )
        terminal.rows("recipes", [recipe.to_json() for recipe in RECIPES.values()], columns)
        return
    exported = None if config.data is None else data.read_data(config.data)
    composition = composing.compose_training(config, exported)
    user_sources(composition.recipe.formulas)  # which have to be there
    recipe, preset = composition.recipe, composition.preset
    record: dict[str, Any] = {
        "preset": preset.name,
        "recipe": recipe.to_json(),
        "plug_in": composition.settings.model_dump(),
        "machine": config.machine,
        "overrides": composition.values,
        "arguments": composition.arguments(),
    }
    gpus = f"{config.gpus} GPU{'s' if config.gpus > 1 else ''}"
    machine = "CPU" if config.cpu else gpus if config.nodes == 1 else f"{config.nodes} nodes of {gpus}"
    overrides = [each for each in composition.values if not isinstance(each.value, dict)]
    rows = [[each.key, json.dumps(each.value), each.source, each.reason] for each in overrides]
    terminal.emit(
        record,
        Heading(f"{recipe.name}: {recipe.summary}"),
        f"preset {preset.name}: {preset.summary}; the paper's prompt: {preset.prompt_words}",
        f"N={recipe.neighbors}, G={recipe.responses}: {recipe.rollouts} responses per question",
        *record_parts({"recipe": {name: record["recipe"][name] for name in AXES}}),
        *("", Heading(f"overrides of verl's configuration, {machine}")),
        Table(["key", "value", "source", "why"], rows),
        *("", Heading("sources")),
        *(
            f"{source}: {settings.SOURCES[source]}"
            for source in dict.fromkeys(each.source for each in overrides)
        ),
    )


RUN_FLAGS = {**FLAGS, "--set": "set", "--name": "name", "--nodes": "nodes", "--cpu": "cpu"}


@Verb("train", TrainConfig, "recipe.name", RUN_FLAGS)
def run(config: TrainConfig, *, dry_run: bool = False, hide_log: bool = False) -> None:
    """Train with verl, from a neighbor set to checkpoints; resume after an interruption.

    A recipe is a training method, such as grpo or ta_grpo (`tagrpo train recipes` lists them). KEY=VALUE is
    an axis of the recipe (anchor=own, loss.kl_coef=0), a setting of the plug-in (run.seed=7), or with the
    prefix `verl.` one of verl (verl.trainer.save_freq=5).

    The run's folder contains checkpoints, log, metrics, responses and every setting with its source. `tagrpo
    ui`, `tagrpo train metrics` and `tagrpo train rollouts` read it, also during the training. Run the same
    command again, or `tagrpo resume NAME`, to resume from the last checkpoint.

    Exit codes: 1 training failed, 130 or 143 it was stopped (Ctrl-C, SIGTERM).

    Example: tagrpo train run ta_grpo --set math@1 --model Qwen/Qwen3-1.7B --gpus 4

    Args:
        dry_run: Print the command without writing or starting anything.
        hide_log: Write verl's output and command only to the run's folder; show steps.
    """
    from trainer_adapter.runs import running
    from trainer_adapter.runs.run_folder import COMMAND

    def announce(prepared: "Prepared") -> None:
        for remark in prepared.notes:
            output.note(remark)
        if not dry_run:
            kept = f"command in {COMMAND}, verl's output in logs/" if hide_log else f"\n{prepared.shell}"
            output.note(f"run {prepared.name} in {prepared.folder.path}: {kept}")

    open_database = partial(db.open, create=config.set is None)
    if dry_run:
        prepared = running.dry_run(config, open_database)
        announce(prepared)
        names = ("command", "environment", "spec", "versions", "notes")
        planned = {"run": prepared.name, "folder": prepared.folder.path}
        planned |= {"settings": prepared.composition.values}
        terminal.emit(planned | {name: getattr(prepared, name) for name in names}, prepared.shell)
        return
    with terminal.progress(config.name or config.recipe.name, quiet=not hide_log) as bar:
        echo = _show_steps(bar) if hide_log else output.write_line
        trained = running.train(config, open_database, announce=announce, echo=echo)
    attempt, folder = trained.attempt, trained.folder
    record: dict[str, Any] = {"run": trained.run, "folder": folder.path, **vars(attempt)}
    record |= {name: getattr(trained, name) for name in ("log", "errors", "hints")}
    terminal.show({**record, "finished": attempt.finished, "alarms": list(folder.alarms())})
    if not attempt.finished:
        why = trained.failure(resume_command(trained.run, *(["--hide-log"] if hide_log else [])))
        if attempt.stopped_by is None:
            raise output.failed(why)
        raise (Interrupted if attempt.stopped_by == "SIGINT" else Terminated)(why)


def merge(checkpoint: Path, out: Annotated[Path, Option()]) -> None:
    """Merge a checkpoint into a folder that transformers and vLLM read.

    verl saves a checkpoint in shards; its own tool merges them in bfloat16.

    Example: tagrpo train merge runs/ta/checkpoints/global_step_56 --out ta-grpo-4b

    Args:
        checkpoint: Checkpoint of a training run: runs/NAME/checkpoints/global_step_N.
        out: New folder for the merged model.
    """
    shards = checkpoint / "actor" if (checkpoint / "actor").is_dir() else checkpoint
    if not any(shards.glob("model_world_size_*")):
        raise InputError(f"{checkpoint}: contains no verl checkpoint. Give .../checkpoints/global_step_N.")
    if out.exists():
        raise InputError(f"{out} already exists. Choose another folder.")
    words = ["--backend", "fsdp", "--local_dir", str(shards), "--target_dir", str(out)]
    done = subprocess.run([sys.executable, "-m", "verl.model_merger", "merge", *words], stdout=2)
    if done.returncode:
        raise output.failed(f"verl's tool ended with exit code {done.returncode}; its last lines say why.")
    terminal.show({"model": out})


def _show_steps(bar: output.Bar) -> Callable[[str], None]:
    """Return what takes verl's lines and shows how far training is."""
    from trainer_adapter.runs.launching import step_of, total_steps_of
    from trainer_adapter.verl.alarms import MARK

    step, total = 0, 0
    bar.update(0, None, "verl starts")

    def take(line: str) -> None:
        nonlocal step, total
        if MARK in line:
            output.note(line[line.index(MARK) :])
        step, total = step_of(line) or step, total_steps_of(line) or total
        bar.update(step, total or None, "steps" if step else "verl starts")

    return take
