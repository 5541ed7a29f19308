"""Responses to diagnose: an evaluation run, or a stretch of a training run; results kept by their content."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy.orm import Session

from evaluator.evals.overview import runs_overview
from evaluator.signal.diagnosis import Diagnosis, DiagnosisSettings, Part, diagnose
from evaluator.signal.groups import ResponseSource
from evaluator.signal.sources.eval_runs import eval_source
from trainer_adapter.record.diagnosing import training_source
from trainer_adapter.record.reading import Record
from ui.pages.state import settings
from ui.pages.state.database import cached
from ui.pages.state.records import open_run, recorded, run_id_of
from ui.pages.state.results import Results
from ui.pages.training_signal.runs import Run

_slow = Results(96 * 2**20)  # a result may take an eighth of it: the audit of a large set


@dataclass(frozen=True)
class Responses:
    """Those of an evaluation run (`first` and `last` are 0), or of the steps of a training run.

    `neighbors` says whether there are any to neighbors.
    """

    name: str
    first: int = 0
    last: int = 0
    neighbors: bool = True

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
    choices = [
        EvalChoice(
            row.run.name,
            row.problems,
            row.groups < row.problems,
            f"{row.run.id}:{row.grader}:{row.samples}",
        )
        for row in runs_overview(session)
        if row.samples
    ]
    return sorted(choices, key=lambda choice: not choice.neighbors)


def state_of(responses: Responses) -> str:
    """Return a text that changes whenever the responses do."""
    if not responses.last:
        return next((choice.state for choice in eval_choices() if choice.name == responses.name), "")
    return _content(run_id_of(responses.name), responses.first, responses.last)


@recorded
def _content(record: Record, first: int, last: int) -> str:
    of_steps = [content for step, content in record.contents().items() if first <= step <= last]
    return f"{record.folder}:{','.join(of_steps)}"


def diagnosed(
    responses: Responses, parts: Sequence[Part], wanted: DiagnosisSettings = DiagnosisSettings()
) -> Diagnosis:
    """Return the diagnosis of responses, made again only when they have changed.

    Raises:
        InputError: nothing is there, it is not graded, or it does not allow what is asked.
    """

    def make() -> Diagnosis:
        with _opened(responses) as source:
            return diagnose(source, parts, wanted)

    return _slow.get(_key(responses, parts, wanted), make)


def is_ready(responses: Responses, parts: Sequence[Part]) -> bool:
    """Say whether `diagnosed` would answer at once."""
    return _slow.has(_key(responses, parts, DiagnosisSettings()))


def _key(responses: Responses, parts: Sequence[Part], wanted: DiagnosisSettings) -> tuple[object, ...]:
    return str(settings.current().database), responses, state_of(responses), tuple(parts), wanted


@contextmanager
def _opened(responses: Responses) -> Iterator[ResponseSource]:
    if responses.last:
        record = open_run(run_id_of(responses.name))
        yield training_source(record, responses.name, [(responses.first, responses.last)])
        return
    from service.database import Database

    with Database.open(settings.current().database, read_only=True) as database:
        yield eval_source(database, [responses.name])


def beginning(run: Run, steps: int) -> Responses | None:
    """Return the first steps of a training run."""
    if run.first_step is None or run.last_step is None or not run.rollouts:
        return None
    last = min(run.last_step, run.first_step + steps - 1)
    return Responses(run.name, run.first_step, last, neighbors=run.n > 0)
