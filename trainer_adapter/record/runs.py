"""Training runs in the database: one row each, with the folder of its record."""

from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from service.errors import InputError
from service.runs.store import Run, check_name, find_run, list_runs, open_run
from trainer_adapter.record.reading import Record
from trainer_adapter.record.tables import TRAIN, TrainFolderRow


@dataclass(frozen=True)
class TrainNumbers:
    """Steps of a training with rollouts or metrics, the first and last of them, and all rollouts."""

    steps: int = 0
    first_step: int | None = None
    last_step: int | None = None
    rollouts: int = 0


@dataclass(frozen=True)
class TrainRun:
    """A training run; `problem` says why its record cannot be read, which leaves no numbers."""

    run: Run
    numbers: TrainNumbers = TrainNumbers()
    problem: str | None = None

    @property
    def recipe(self) -> str | None:
        recipe = self.run.spec.get("recipe")
        return str(recipe.get("name")) if isinstance(recipe, dict) else recipe

    @property
    def model(self) -> str | None:
        model = self.run.spec.get("model")
        return None if model is None else str(model)

    def to_json(self) -> dict[str, Any]:
        """Return the machine-readable form; the spec is in `runs show`."""
        return {"recipe": self.recipe, "model": self.model, **asdict(self.numbers)}


_record_in = lru_cache(maxsize=100)(Record)
"""The record in a folder; those used last stay open."""


def register(session: Session, record: Record, name: str | None = None) -> Run:
    """Store where a training has its record; also the new place of a folder that was moved."""
    about, folder = record.run, record.folder
    if (run_name := name or about.name) is None:
        raise InputError(f"{folder}: the folder does not name its run. Add it as `NAME={folder}`.")
    there = next((run for run in list_runs(session) if run.name == check_name(run_name)), None)
    if there is not None and there.kind != TRAIN:
        raise InputError(f"run {run_name!r} is not a training run. Use another name: `NAME={folder}`.")
    if there is None or about.name is not None:
        there, _ = open_run(
            session, name=run_name, kind=TRAIN, spec=about.spec, question_ids=(), versions=about.versions
        )
    keep_folder(session, there.id, folder)
    return there


def keep_folder(session: Session, run_id: str, folder: Path) -> None:
    """Store the folder of a training's record."""
    session.merge(TrainFolderRow(run_id=run_id, folder=str(folder.resolve())))


def stored_folder(session: Session, run: Run) -> Path | None:
    """Return the folder of a training's record; None if the database does not say it."""
    row = session.get(TrainFolderRow, run.id)
    return None if row is None else Path(row.folder)


def open_folder(run: Run, folder: Path | None) -> Record:
    """Return the record of a training in its stored folder."""
    if folder is None:
        raise InputError(
            f"the database has no rollout folder for run {run.name!r}. Add it: "
            f"`tagrpo train rollouts {run.name}=FOLDER --add`."
        )
    if not folder.is_dir():
        raise InputError(
            f"{folder}: run {run.name!r} had its rollouts here, but the folder is missing. If you moved it, "
            f"add the new path: `tagrpo train rollouts {run.name}=FOLDER --add`."
        )
    return _record_in(folder)


def open_record(session: Session, run: Run) -> Record:
    """Return the record of a training."""
    return open_folder(run, stored_folder(session, run))


def read_numbers(record: Record) -> TrainNumbers:
    """Return the numbers of a training."""
    counted = record.counts().page_steps()
    steps = sorted({step.step for step in counted} | record.metrics().keys())
    first, last = (steps[0], steps[-1]) if steps else (None, None)
    return TrainNumbers(len(steps), first, last, sum(step.responses for step in counted))


def read_train_run(session: Session, run: Run) -> TrainRun:
    """Return a training run with its numbers, or with the problem of its record."""
    try:
        return TrainRun(run, read_numbers(open_record(session, run)))
    except InputError as error:
        return TrainRun(run, problem=str(error))


def list_train_runs(session: Session) -> list[TrainRun]:
    """Return all training runs with their numbers, oldest first."""
    return [read_train_run(session, run) for run in list_runs(session) if run.kind == TRAIN]


def choose_train_run(session: Session, reference: str | None) -> Run:
    """Return the training run named, or the only one there is."""
    return find_run(session, reference, TRAIN)
