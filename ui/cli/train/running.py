"""`tagrpo train run` and `merge`: train with verl, and make a model of a checkpoint."""

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from service.errors import InputError, Interrupted, Terminated
from trainer_adapter.config import TrainConfig
from ui.cli import console, exits, output
from ui.cli.configured import Verb
from ui.cli.output import terminal
from ui.cli.settings import db, resume_command
from ui.cli.train import planning

if TYPE_CHECKING:
    from trainer_adapter.runs.running import Prepared

FLAGS = {**planning.FLAGS, "--set": "set", "--name": "name", "--nodes": "nodes", "--cpu": "cpu"}


@Verb("train", TrainConfig, "recipe.name", FLAGS)
def run(config: TrainConfig, *, dry_run: bool = False, hide_log: bool = False) -> None:
    """Train with verl, from a neighbor set to checkpoints; resume after an interruption.

    KEY=VALUE is an axis of the recipe (anchor=own, loss.kl_coef=0), a setting of the plug-in (run.seed=7), or
    with the prefix `verl.` one of verl (verl.trainer.save_freq=5).

    The run's folder contains checkpoints, log, metrics, responses and every setting with its source. `tagrpo
    ui`, `tagrpo train metrics` and `tagrpo train rollouts` read it, also during the training. Run the same
    command again, or `tagrpo resume NAME`, to resume from the last checkpoint.

    Exit codes: 1 training failed, 130 or 143 it was stopped (Ctrl-C, SIGTERM).

    Example: tagrpo train run ta_grpo --set math@1 --model Qwen/Qwen3-1.7B --gpus 4

    Example: tagrpo train run ta_grpo --data out/verl --model tiny --cpu verl.trainer.total_epochs=1

    Args:
        dry_run: Print the command without writing or starting anything.
        hide_log: Write verl's output and command only to the run's folder; show steps.
    """
    from trainer_adapter.runs import running
    from trainer_adapter.runs.run_folder import COMMAND, RunFolder

    open_database = partial(db.open, create=config.set is None)

    def announce(prepared: "Prepared") -> None:
        for remark in prepared.notes:
            output.note(remark)
        if not dry_run:
            kept = f"command in {COMMAND}, verl's output in logs/" if hide_log else f"\n{prepared.shell}"
            output.note(f"run {prepared.name} in {prepared.folder.path}: {kept}")

    if dry_run:
        prepared = running.dry_run(config, open_database)
        announce(prepared)
        names = ("command", "environment", "spec", "versions", "notes")
        record = {"run": prepared.name, "folder": prepared.folder.path}
        record |= {"settings": prepared.composition.values}
        terminal.emit({**record, **{name: getattr(prepared, name) for name in names}}, prepared.shell)
        return
    with terminal.progress(config.name or config.recipe.name, quiet=not hide_log) as bar:
        echo = _show_steps(bar) if hide_log else console.write_line
        trained = running.train(config, open_database, announce=announce, echo=echo)
    alarms = list(RunFolder(trained.folder).alarms())
    attempt = trained.attempt
    record = {**vars(trained), "finished": trained.finished, **vars(attempt), "alarms": alarms}
    del record["attempt"]
    terminal.show(record)
    if not trained.finished:
        why = trained.failure(resume_command(trained.run, *(["--hide-log"] if hide_log else [])))
        if attempt.stopped_by is None:
            raise exits.failed(why)
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
        raise exits.failed(f"verl's tool ended with exit code {done.returncode}; its last lines say why.")
    terminal.show({"model": out})


def _show_steps(bar: output.Bar) -> Callable[[str], None]:
    """Return what takes verl's lines and shows how far training is."""
    from trainer_adapter.runs.launching import step_of, total_steps_of
    from trainer_adapter.verl.alarms import MARK

    step, total = 0, None
    bar.update(0, None, "verl starts")

    def take(line: str) -> None:
        nonlocal step, total
        if MARK in line:
            output.note(line[line.index(MARK) :])
        step, total = step_of(line) or step, total_steps_of(line) or total
        bar.update(step, total, "steps" if step else "verl starts")

    return take
