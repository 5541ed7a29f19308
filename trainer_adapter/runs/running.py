"""Start and resume a training run: export, checks, folder, database, process."""

import os
import signal
import tempfile
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rephraser.sets.store import load_set
from service.database import Database, utc_now
from service.errors import InputError, TagrpoError
from service.questions.images import image_loader
from service.runs.store import changed_settings, check_name, find_run, finish_run, keep_config, open_run
from service.writing import write_text
from trainer_adapter.config import TrainConfig
from trainer_adapter.record.runs import keep_folder
from trainer_adapter.record.tables import TRAIN
from trainer_adapter.record.writing import RolloutWriter
from trainer_adapter.runs import checking
from trainer_adapter.runs.assignments import changed_recipe, read_overrides
from trainer_adapter.runs.composing import Composition, command, compose_training, template_arguments
from trainer_adapter.runs.data import TrainingData, read_again, read_data
from trainer_adapter.runs.launching import (
    GRACE_S,
    hints,
    last_errors,
    make_ray_folder,
    run_child,
    shell_command,
    training_environment,
    worker_environment,
)
from trainer_adapter.runs.model_sizes import known_shape
from trainer_adapter.runs.presets import DEFAULT, PRESETS
from trainer_adapter.runs.resuming import loaded_parts, make_spec, mend
from trainer_adapter.runs.run_folder import COMMAND, RunFolder, TrainAttempt
from trainer_adapter.verl.export import export_verl
from trainer_adapter.verl.hooks import hooks_of
from trainer_adapter.verl.prompts import read_words, without_thinking


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A run that can be started."""

    name: str
    folder: RunFolder
    composition: Composition
    data: TrainingData
    spec: dict[str, Any]
    versions: dict[str, str]
    command: list[str]
    environment: dict[str, str]
    notes: list[str]

    @property
    def shell(self) -> str:
        """The exact command with the environment it adds, for a shell."""
        return shell_command(self.command, self.environment)


@dataclass(frozen=True)
class Trained:
    """How a start of a run ended."""

    run: str
    folder: RunFolder
    attempt: TrainAttempt

    @property
    def log(self) -> Path:
        return self.folder.log(self.attempt.number)

    @property
    def errors(self) -> list[str]:
        """The last errors in the log; none unless training failed."""
        return last_errors(self.log) if self.attempt.failed else []

    @property
    def hints(self) -> list[str]:
        """What these errors mean."""
        return hints(self.log) if self.attempt.failed else []

    def failure(self, resume: str) -> str:
        """Say why the run did not finish; `resume` is the command that continues it."""
        attempt = self.attempt
        saved = f"the checkpoint of step {attempt.checkpoint}"
        start = "step 1, since nothing was saved yet," if attempt.checkpoint is None else saved
        way_on = f"from {start} with {resume}."
        if attempt.stopped_by is not None:
            how = "verl had to be killed" if attempt.killed else "verl ended"
            return f"stopped by {attempt.stopped_by}, {how}. Resume {way_on}"
        ended = f"ended with exit code {attempt.returncode}"
        if attempt.returncode is not None and attempt.returncode < 0:
            ended = f"was killed by {signal.Signals(-attempt.returncode).name}"
            if attempt.returncode == -signal.SIGKILL:
                ended += " (the kernel does this if memory runs out)"
        errors = [f"  {line}" for line in self.errors] + [f"{hint}." for hint in self.hints]
        lines = [f"verl {ended}; the last errors in {self.log}:", *errors]
        return "\n".join([*lines, f"Fix the cause, then resume {way_on}"])


def dry_run(config: TrainConfig, open_database: Callable[[], Database]) -> Prepared:
    """Return the run as it would be started; nothing is written that stays."""
    name, folder = _named(config)
    with tempfile.TemporaryDirectory() as hidden:
        resume = folder.exists()
        made = folder.data if resume and folder.data.exists() else Path(hidden) / "data"
        data = _data(config, open_database, made, resume=resume)
        if config.set is not None:
            data = replace(data, folder=folder.data)
        return _prepare(config, name, folder, data, resume=resume)


def train(
    config: TrainConfig,
    open_database: Callable[[], Database],
    *,
    announce: Callable[[Prepared], None],
    echo: Callable[[str], None],
    grace_s: float = GRACE_S,
) -> Trained:
    """Train until the run is done, fails or is stopped; return how it ended.

    After an interruption the same call resumes from the last checkpoint. If the last step of the run is
    saved, nothing starts. The database is open for a moment before and after the training only.

    Args:
        announce: gets the run before it starts.
        echo: gets each line that verl prints.
    """
    name, folder = _named(config)
    recipe = changed_recipe(config)
    checking.check_packages(hooks_of(recipe, trainer=config.run.trainer == "tagrpo"))
    resume = folder.exists()
    with folder.locked():
        notes = []
        if ended := folder.end_leftovers():
            notes.append(f"stopped leftover processes of a killed run: {ended}")
        data = _data(config, open_database, folder.data, resume=resume)
        prepared = _prepare(config, name, folder, data, resume=resume)
        if resume and (ended_well := _finished(prepared, notes)) is not None:
            return ended_well
        notes += checking.check_machine(prepared.composition)
        prepared = replace(prepared, notes=[*prepared.notes, *notes])
        _keep(config, prepared, open_database)
        announce(prepared)
        return _start(prepared, open_database, echo, grace_s)


def _named(config: TrainConfig) -> tuple[str, RunFolder]:
    if config.model is None:
        raise InputError("the model is missing. Pass --model with a folder or Hub name.")
    model = Path(config.model).name or "model"
    wanted = changed_recipe(config).name
    recipe = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in wanted)
    of_preset = "" if config.preset == DEFAULT else f"-{config.preset}"
    name = check_name(config.name or f"{recipe.strip('-')}{of_preset}-{model}")
    return name, RunFolder((config.folder or Path("runs") / name).resolve()).checked()


def _data(
    config: TrainConfig, open_database: Callable[[], Database], target: Path, *, resume: bool
) -> TrainingData:
    """Return the export: the one that the run began with, or one made of the set."""
    if config.set is None:
        if config.data is None:
            raise InputError(
                "there is no training data. Pass a set with --set, or a verl export with --data."
            )
        return read_data(config.data.resolve(), verify=True)
    preset, answers = PRESETS[config.preset], config.answers  # a wrong tolerance is refused first
    limit = next(
        (each.value for each in read_overrides(config.verl) if each.name == "data.max_prompt_length"),
        preset.value("data.max_prompt_length"),
    )
    words = None if config.prompt_file is None else read_words(config.prompt_file)
    with open_database() as database:
        with database.read() as session:
            neighbor_set = load_set(session, config.set)
        template = without_thinking(preset.prompt(words, tokenizer=config.model, max_prompt_tokens=limit))
        if resume and (target / "manifest.json").is_file():
            return read_again(config, neighbor_set.header, target, template, answers)
        # A start that was killed before it began may have left an export.
        images = image_loader(database)
        export_verl(neighbor_set, target, config, template, load_images=images, overwrite=True)
        return read_data(target)


def _settle_thinking(data: TrainingData, model: str) -> TrainingData:
    """Turn thinking off if the export does not say and the model's chat template has a switch for it.

    The export did so if it counted with the model's own tokenizer. If the tokenizer cannot be loaded,
    `check_fit` says so.
    """
    arguments = data.template.chat_template_kwargs
    if known_shape(model) is not None:
        arguments = {**template_arguments(model), **arguments}
    elif data.template.tokenizer != model:
        with suppress(TagrpoError):
            arguments = without_thinking(replace(data.template, tokenizer=model)).chat_template_kwargs
    return replace(data, template=replace(data.template, chat_template_kwargs=arguments))


def _prepare(
    config: TrainConfig, name: str, folder: RunFolder, data: TrainingData, *, resume: bool
) -> Prepared:
    assert config.model is not None
    data = _settle_thinking(data, config.model)
    composition = compose_training(
        config,
        data,
        folder=folder.path,
        name=name,
        resume=resume,
        flash_attention=find_spec("flash_attn") is not None,
    )
    notes = checking.check_fit(composition, data)
    notes += checking.check_configuration(composition, folder.path)
    spec = make_spec(composition, data)
    if resume:
        changed = changed_settings(folder.read_spec(), spec)
        if changed:
            listed = "".join(f"\n  {line.removeprefix('settings.')}" for line in changed)
            raise InputError(
                f"{folder.path}: run {name} started with other settings, so it cannot continue with "
                f"these:{listed}\nUse its original settings, or choose another --name."
            )
    environment = training_environment(config.cpu, folder.metrics(folder.next_attempt()))
    return Prepared(
        name=name,
        folder=folder,
        composition=composition,
        data=data,
        spec=spec,
        versions=checking.versions(),
        command=command(composition, folder.path, worker_environment(environment)),
        environment=environment,
        notes=notes,
    )


def _finished(prepared: Prepared, notes: list[str]) -> Trained | None:
    """Return how the run ended where its last step is saved, else None; verl's tracker is mended before."""
    attempts, composition = prepared.folder.attempts(), prepared.composition
    ended = bool(attempts) and attempts[-1].finished
    mended = mend(prepared.folder.checkpoints, loaded_parts(composition), ended=ended)
    saved = prepared.folder.checkpoint()
    if mended or saved is None:
        notes.append(mended or "the run has no checkpoint yet; training restarts from step 1")
    if not ended or saved is None or saved < composition.count_steps(prepared.data.rows):
        return None
    # It logged no step itself where it was a resume of a run that had nothing left to do.
    last = replace(attempts[-1], step=attempts[-1].step or saved, checkpoint=saved)
    return Trained(prepared.name, prepared.folder, last)


def _keep(config: TrainConfig, prepared: Prepared, open_database: Callable[[], Database]) -> None:
    """Write the run down, in its folder and in the database, before anything is spent on it."""
    folder, spec = prepared.folder, prepared.spec
    kept = config.model_copy(update={"name": prepared.name, "folder": folder.path})
    with open_database() as database, database.write() as session:
        run, _ = open_run(
            session,
            name=prepared.name,
            kind=TRAIN,
            spec=spec,
            question_ids=(),
            versions=prepared.versions,
        )
        finish_run(session, run.id, finished=False)
        keep_folder(session, run.id, folder.rollouts)
        keep_config(session, run.id, kept.stored())
    if not folder.exists():
        folder.write_config(
            {
                "name": prepared.name,
                "preset": prepared.composition.preset.name,
                "created_at": utc_now(),
                "spec": spec,
                "data": {"folder": str(prepared.data.folder), **prepared.data.identity()},
                "settings": [vars(setting) for setting in prepared.composition.values],
                "versions": prepared.versions,
            }
        )
    write_text(folder.path / COMMAND, f"#!/bin/sh\n{prepared.shell}\n", overwrite=True)
    (folder.path / COMMAND).chmod(0o755)
    # The record describes its run; written here, it has the very specification that the database has.
    RolloutWriter(
        folder.rollouts, prepared.name, spec=spec, versions=prepared.versions, background=False
    ).close()


def _start(
    prepared: Prepared, open_database: Callable[[], Database], echo: Callable[[str], None], grace_s: float
) -> Trained:
    folder, number, started_at = prepared.folder, prepared.folder.next_attempt(), utc_now()
    for file in (folder.log(number), folder.metrics(number)):
        file.parent.mkdir(exist_ok=True)
    mark = uuid.uuid4().hex
    ray_folder = None if prepared.composition.config.ray_address else make_ray_folder()
    environment = {**os.environ, **prepared.environment}
    if ray_folder is not None:
        environment |= {"RAY_TMPDIR": str(ray_folder)}
        environment.pop("RAY_ADDRESS", None)
    folder.note_process(number, started_at, mark, ray_folder)
    ended = run_child(
        prepared.command,
        environment,
        folder.log(number),
        folder=folder.path,
        mark=mark,
        ray_folder=ray_folder,
        echo=echo,
        grace_s=grace_s,
    )
    folder.forget_process()
    attempt = folder.end_attempt(number, started_at, ended)
    if attempt.finished:
        with open_database() as database, database.write() as session:
            finish_run(session, find_run(session, prepared.name).id, finished=True)
    return Trained(prepared.name, folder, attempt)
