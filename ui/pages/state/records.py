"""Records of trainings for the pages; answers are kept until their files change."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import pyarrow
from sqlalchemy.orm import Session

from service.errors import InputError
from service.runs.store import Run, list_runs
from trainer_adapter.record.reading import Record
from trainer_adapter.record.runs import TrainRun, open_folder, read_numbers, stored_folder
from trainer_adapter.record.tables import TRAIN
from ui.pages.state.database import cached, keep

P = ParamSpec("P")
R = TypeVar("R")

_POOL = pyarrow.system_memory_pool()
pyarrow.set_memory_pool(_POOL)


@cached
def stored_trainings(session: Session) -> dict[str, tuple[Run, Path | None]]:
    """Return all training runs with the folders of their records by id, oldest first."""
    return {run.id: (run, stored_folder(session, run)) for run in list_runs(session, TRAIN)}


def open_run(run_id: str) -> Record:
    """Return the record of a training; raises InputError if it cannot be opened."""
    return open_folder(*stored_trainings()[run_id])


def recorded(function: Callable[Concatenate[Record, P], R]) -> Callable[Concatenate[str, P], R]:
    """Turn `function(record, *arguments)` into `function(run_id, *arguments)`, cached until files change."""

    @wraps(function)
    def kept(run_id: str, /, *arguments: P.args, **named: P.kwargs) -> R:
        record = open_run(run_id)
        key = function.__module__, function.__qualname__, str(record.folder), record.stamp(), arguments

        def ask() -> R:
            result = function(record, *arguments, **named)
            _POOL.release_unused()  # otherwise 30 to 40 MB of what was freed stay with the process
            return result

        return keep((*key, sorted(named.items())), ask)

    return kept


_numbers = recorded(read_numbers)


def list_trainings() -> list[TrainRun]:
    """Return all training runs with their numbers, oldest first."""
    listed = []
    for run, _ in stored_trainings().values():
        try:
            listed.append(TrainRun(run, _numbers(run.id)))
        except InputError as error:
            listed.append(TrainRun(run, problem=str(error)))
    return listed


def method_of(training: TrainRun) -> str:
    """Return a training's recipe, or its name if the recipe is unknown."""
    return training.recipe or training.run.name
