"""Start and resume a training run: export, checks, folder, database, process."""

import os
import signal
import tempfile
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rephraser.sets import load_set
from service.database import Database, utc_now
from service.errors import InputError, TagrpoError
from service.runs.store import check_name, find_run, finish_run, keep_config, open_run
from trainer_adapter.config import TrainConfig
from trainer_adapter.record.runs import keep_folder
from trainer_adapter.record.tables import TRAIN
from trainer_adapter.record.writing import RolloutWriter
from trainer_adapter.runs import checking
from trainer_adapter.runs.assignments import changed_recipe, read_overrides
from trainer_adapter.runs.composing import Composition, command, compose_training, template_arguments
from trainer_adapter.runs.data import TrainingData, export_data, read_again, read_data
from trainer_adapter.runs.launching import (
    GRACE_S,
    hints,
    last_errors,
    last_step,
    make_ray_folder,
    run_child,
    shell_command,
    training_environment,
    worker_environment,
)
from trainer_adapter.runs.model_sizes import known_shape
from trainer_adapter.runs.presets import DEFAULT, PRESETS
from trainer_adapter.runs.resuming import differences, loaded_parts, make_spec, mend
from trainer_adapter.runs.run_folder import Attempt, RunFolder
from trainer_adapter.verl.hooks import hooks_of
from trainer_adapter.verl.prompts import PromptTemplate, read_words, without_thinking


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A run that can be started: nothing about it is open any more."""

    name: str
    folder: RunFolder
    composition: Composition
    data: TrainingData
    spec: Mapping[str, Any]
    versions: Mapping[str, str]
    command: tuple[str, ...]
    environment: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def shell(self) -> str:
        """The exact command with the environment it adds, for a shell."""
        return shell_command(self.command, self.environment)


@dataclass(frozen=True)
class Trained:
    """How a start of a run ended; `errors` and `hints` are empty where it went well."""

    run: str
    folder: Path
    attempt: Attempt
    killed: bool
    left_behind: int
    log: Path
    errors: tuple[str, ...]
    hints: tuple[str, ...]

    @property
    def finished(self) -> bool:
        return self.attempt.returncode == 0 and self.attempt.stopped_by is None

    def failure(self, resume: str) -> str:
        """Say why the run did not finish; `resume` is the command that continues it."""
        attempt = self.attempt
        saved = f"the checkpoint of step {attempt.checkpoint}"
        start = "step 1, since nothing was saved yet," if attempt.checkpoint is None else saved
        way_on = f"from {start} with {resume}."
        if attempt.stopped_by is not None:
            how = "verl had to be killed" if self.killed else "verl ended"
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

    After an interruption the same call goes on from the last checkpoint. Where the last step of the run is
    saved, nothing is started and its end is returned again.

    Args:
        config: The recipe, the policy, the data, the machine, and settings for verl.
        open_database: opens the database that holds the set and keeps the run; it is open for a moment before
            and after the training, not during it.
        announce: gets the run before it is started.
        echo: gets each line that verl prints.
        grace_s: see `run_child`.

    Example:
        config = TrainConfig(
            recipe=RecipeConfig(name="ta_grpo", anchor="own"),
            model="Qwen/Qwen3-1.7B",
            set="math@1",
            gpus=4,
            verl=("trainer.save_freq=5",),
        )
        train(config, lambda: Database.open("tagrpo.db"), announce=lambda run: None, echo=print)
    """
    name, folder = _named(config)
    recipe = changed_recipe(config.recipe, PRESETS[config.preset])
    checking.check_packages(hooks_of(recipe, trainer=config.run.trainer == "tagrpo"))
    resume = folder.exists()
    with folder.locked():
        notes = []
        if ended := folder.end_leftovers():
            notes.append(f"stopped leftover processes of a killed run: {ended}")
        try:
            data = _data(config, open_database, folder.data, resume=resume)
            prepared = _prepare(config, name, folder, data, resume=resume)
            if resume and (ended_well := _finished(prepared, notes)) is not None:
                return ended_well
            notes += checking.check_machine(prepared.composition)
            prepared = replace(prepared, notes=(*prepared.notes, *notes))
            _keep(config, prepared, open_database)
        except TagrpoError:
            folder.forget_refused()
            raise
        announce(prepared)
        return _start(prepared, open_database, echo, grace_s)


def _named(config: TrainConfig) -> tuple[str, RunFolder]:
    if config.model is None:
        raise InputError("the model is missing. Pass --model with a folder or Hub name.")
    model = Path(config.model).name or "model"
    preset = PRESETS[config.preset]
    wanted = changed_recipe(config.recipe, preset).name
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
    preset, share, answers = PRESETS[config.preset], config.validation_share, config.answers
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
            return read_again(target, neighbor_set.header, template, answers, config.strategies, share)
        return export_data(database, neighbor_set, target, template, answers, config.strategies, share)


def _settle_thinking(data: TrainingData, model: str) -> TrainingData:
    """Return an export without thinking where it says nothing, and the model's chat template asks.

    What the model's own tokenizer counted was settled by the export; where none is to be loaded, `check_fit`
    says so.
    """
    if known_shape(model) is not None:
        return replace(data, chat_template_kwargs={**template_arguments(model), **data.chat_template_kwargs})
    if data.tokenizer == model:
        return data
    template = PromptTemplate(tokenizer=model, chat_template_kwargs=data.chat_template_kwargs)
    with suppress(TagrpoError):
        template = without_thinking(template)
    return replace(data, chat_template_kwargs=template.chat_template_kwargs)


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
        changed = differences(folder.read_config()["spec"], spec)
        if changed:
            listed = "".join(f"\n  {line}" for line in changed)
            raise InputError(
                f"{folder.path}: run {name} started with other settings, so it cannot continue with "
                f"these:{listed}\nUse its original settings, or choose another --name."
            )
    environment = training_environment(composition.machine, folder.metrics(folder.next_attempt()))
    return Prepared(
        name=name,
        folder=folder,
        composition=composition,
        data=data,
        spec=spec,
        versions=checking.versions(),
        command=tuple(command(composition, folder.path, worker_environment(environment))),
        environment=environment,
        notes=tuple(notes),
    )


def _finished(prepared: Prepared, notes: list[str]) -> Trained | None:
    """Return how the run ended where its last step is saved, else None; verl's tracker is mended before."""
    attempts, composition = prepared.folder.attempts(), prepared.composition
    ended = bool(attempts) and attempts[-1].returncode == 0 and attempts[-1].stopped_by is None
    mended = mend(prepared.folder.checkpoints, loaded_parts(composition.user), ended=ended)
    saved = prepared.folder.checkpoint()
    if mended or saved is None:
        notes.append(mended or "the run has no checkpoint yet; training restarts from step 1")
    if not ended or saved is None or saved < composition.count_steps(prepared.data.rows):
        return None
    # It logged no step itself where it was a resume of a run that had nothing left to do.
    last = replace(attempts[-1], step=attempts[-1].step or saved, checkpoint=saved)
    log = prepared.folder.log(last.number)
    return Trained(prepared.name, prepared.folder.path, last, False, 0, log, (), ())


def _keep(config: TrainConfig, prepared: Prepared, open_database: Callable[[], Database]) -> None:
    """Write the run down, in its folder and in the database, before anything is spent on it."""
    folder, spec = prepared.folder, dict(prepared.spec)
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
                "user": [override.text for override in prepared.composition.user],
                "versions": dict(prepared.versions),
            }
        )
    folder.write_command(prepared.shell)
    # The record describes its run; written here, it has the very specification that the database has.
    RolloutWriter(
        folder.rollouts, prepared.name, spec=spec, versions=prepared.versions, background=False
    ).close()


def _start(
    prepared: Prepared, open_database: Callable[[], Database], echo: Callable[[str], None], grace_s: float
) -> Trained:
    folder, number, started_at = prepared.folder, prepared.folder.next_attempt(), utc_now()
    log, metrics = folder.log(number), folder.metrics(number)
    log.parent.mkdir(exist_ok=True)
    metrics.parent.mkdir(exist_ok=True)
    mark = uuid.uuid4().hex
    ray_folder = None if prepared.composition.machine.ray_address else make_ray_folder()
    environment = {**os.environ, **prepared.environment}
    if ray_folder is not None:
        environment |= {"RAY_TMPDIR": str(ray_folder)}
        environment.pop("RAY_ADDRESS", None)
    folder.note_process(number, started_at, mark, ray_folder)
    ended = run_child(
        prepared.command,
        environment,
        log,
        folder=folder.path,
        mark=mark,
        ray_folder=ray_folder,
        echo=echo,
        grace_s=grace_s,
    )
    folder.forget_process()
    attempt = Attempt(
        number,
        started_at,
        round(ended.seconds, 1),
        ended.returncode,
        ended.stopped_by,
        last_step(log),
        folder.checkpoint(),
    )
    folder.add_attempt(attempt)
    if ended.returncode == 0 and ended.stopped_by is None:
        with open_database() as database, database.write() as session:
            finish_run(session, find_run(session, prepared.name).id, finished=True)
    failed = ended.returncode != 0 and ended.stopped_by is None
    return Trained(
        prepared.name,
        folder.path,
        attempt,
        ended.killed,
        ended.left_behind,
        log,
        tuple(last_errors(log)) if failed else (),
        tuple(hints(log)) if failed else (),
    )
