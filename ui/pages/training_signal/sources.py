"""Responses to diagnose: an evaluation run, or a stretch of a training run; results kept by their content."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from evaluator.evals.overview import runs_overview
from evaluator.signal.groups import Checkpoint, GroupTexts, usual_neighbors
from evaluator.signal.sources.eval_runs import load_runs, run_texts
from service.runs.store import find_run
from trainer_adapter.record.diagnosing import load_visits, visit_texts
from trainer_adapter.record.tables import RolloutShardRow
from ui.pages.state import settings
from ui.pages.state.database import cached, reading
from ui.pages.state.results import Results
from ui.pages.training_signal.runs import Run

R = TypeVar("R")

_slow = Results(96 * 2**20)  # a result may take an eighth of it: the audit of a large set


@dataclass(frozen=True)
class Source:
    """An evaluation run (`first` and `last` are 0), or the steps of a training run."""

    name: str
    first: int = 0
    last: int = 0

    @property
    def words(self) -> str:
        if not self.last:
            return f"evaluation {self.name}"
        steps = f"step {self.first}" if self.first == self.last else f"steps {self.first} to {self.last}"
        return f"training {self.name}, {steps}"


@dataclass(frozen=True)
class EvalChoice:
    """An evaluation run that could be diagnosed; `state` changes with its samples and grades."""

    name: str
    problems: int
    neighbors: bool
    state: str


@cached
def eval_choices(session: Session) -> list[EvalChoice]:
    """Return the evaluation runs, those with neighbors first."""
    found = [
        EvalChoice(
            one.run.name,
            one.problems,
            one.groups < one.problems,
            f"{one.run.id}:{one.grader}:{one.samples}:{one.correct}:{one.wrong}:{one.unknown}",
        )
        for one in runs_overview(session)
        if one.samples
    ]
    return sorted(found, key=lambda one: not one.neighbors)


@cached
def state_of(session: Session, source: Source) -> str:
    """Return a text that is another one whenever the source's responses are others."""
    if not source.last:
        return next((one.state for one in eval_choices() if one.name == source.name), "")
    run = find_run(session, source.name)
    hashes = session.scalars(
        select(RolloutShardRow.content)
        .where(RolloutShardRow.run_id == run.id, RolloutShardRow.step.between(source.first, source.last))
        .order_by(RolloutShardRow.step)
    )
    return f"{run.id}:{','.join(hashes)}"


def once(source: Source, what: Hashable, make: Callable[[], R]) -> R:
    """Return a slow result of a source, made again only when its responses have changed.

    The stamp of the database would not do: it changes with every write while a training is imported.
    """
    return _slow.get((str(settings.current().database), source, state_of(source), what), make)


def is_ready(source: Source, what: Hashable) -> bool:
    """Say whether `once` would answer at once."""
    return _slow.has((str(settings.current().database), source, state_of(source), what))


def load(source: Source) -> Checkpoint:
    """Return the graded groups of a source.

    Raises:
        InputError: nothing is there, or it is not graded.
    """
    with reading() as session:
        if not source.last:
            return load_runs(session, [source.name])[0]
        return load_visits(session, find_run(session, source.name), source.first, source.last)


def texts(source: Source, questions: int, seed: int = 0) -> list[GroupTexts]:
    """Return the responses to some questions of a source, drawn by the seed."""
    ids = list(dict.fromkeys(group.group_id for group in load(source).groups))
    places = sorted(np.random.default_rng(seed).permutation(len(ids))[:questions].tolist())
    return list(_texts(source, [ids[place] for place in places]))


def _texts(source: Source, ids: Sequence[str]) -> Iterator[GroupTexts]:
    if source.last:
        with reading() as session:
            yield from visit_texts(session, find_run(session, source.name), source.first, source.last, ids)
        return
    from service.database import Database

    with Database.open(settings.current().database, read_only=True) as database:
        yield from run_texts(database, source.name, ids)


def shape(checkpoint: Checkpoint) -> tuple[int, int]:
    """Return (G, N) as most prompts and questions of a checkpoint have them."""
    sizes = [prompt.known + prompt.unknown for group in checkpoint.groups for prompt in group.prompts]
    values, counts = np.unique(sizes, return_counts=True)
    return int(values[counts.argmax()]), usual_neighbors(checkpoint.groups)


def beginning(run: Run, steps: int) -> Source | None:
    """Return the first steps of a training run."""
    if run.first_step is None or run.last_step is None or not run.rollouts:
        return None
    return Source(run.name, run.first_step, min(run.last_step, run.first_step + steps - 1))
