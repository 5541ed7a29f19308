"""Drawing responses: cells to lease, draw and store, and what a sampler is, whatever the engine behind it."""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlalchemy.orm import Session

from service.database import Database
from service.hashing import content_hash
from service.models.settings import DrawingSpec, PromptSpec
from service.runs.cells import Cell, Receipt, claim_cells, fail_cell
from service.runs.filling import Filled
from service.runs.leases import keep_leases, release_leases, this_owner


class ProblemToDraw(Protocol):
    """A text that is put to a model. `id` is what prompts are looked up by, `problem_id` its content id.

    Problems of eval runs are such (`RunProblem`); `Subject` is whatever else a model is asked.
    """

    @property
    def id(self) -> int: ...

    @property
    def position(self) -> int: ...

    @property
    def problem_id(self) -> str: ...

    @property
    def text(self) -> str: ...


@dataclass(frozen=True)
class Subject:
    """A question, a candidate or what a judge is asked, as samplers know it: the numbers are its place."""

    id: int
    position: int
    problem_id: str
    text: str
    images: tuple[str, ...] = ()


def images_of(problem: ProblemToDraw) -> tuple[str, ...]:
    """Return the ids of the images that a problem's text refers to; texts of some kinds never have any."""
    return getattr(problem, "images", ())


@dataclass(frozen=True)
class Response:
    """A response as a sampler returns it. Token counts are None where the server gives none of its own.

    `stop_reason` is stop, length (cut at the limit of tokens), content_filter, or the server's own word.
    """

    text: str
    stop_reason: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


def with_thought_opened(text: str) -> str:
    """Return a response to a prompt that ends in `<think>` with that before it; one that has it stays.

    So a thought that was cut off is known as one.
    """
    return text if "<think>" in text else f"<think>\n{text}"


def sample_seed(seed: int | None, problem_id: str, ordinal: int) -> int | None:
    """Return the seed of a sample (31 bits): of the run's seed, the problem and its ordinal, nothing else."""
    if seed is None:
        return None
    return int(content_hash("sample-seed", [seed, problem_id, ordinal])[:8], 16) >> 1


@dataclass(frozen=True)
class LeasedCell:
    """One cell to draw: `count` responses to a problem's prompt, with a seed for each (None: none is sent).

    The prompt is made from the problem's text by the spec and the sampler.
    """

    cell: Cell
    problem: ProblemToDraw
    count: int
    seeds: tuple[int | None, ...]


@dataclass(frozen=True)
class DrawnCell:
    """What was drawn for a cell, with what it took. `raw` is JSON of what the engine said besides.

    `seeded` is False where the engine took no seed.
    """

    leased: LeasedCell
    responses: Sequence[Response]
    receipt: Receipt
    raw: str = "{}"
    seeded: bool = True


@dataclass(frozen=True)
class CellsToDraw(ABC):
    """Empty cells, and how to lease and fill them.

    A subclass says in `leased` what is drawn for a cell and in `keep` how it is stored; `scope` says what
    the cells belong to.
    """

    db: Database
    run_id: str
    spec: DrawingSpec
    problems: Mapping[int, ProblemToDraw]  # by id
    # Told apart within a process too: giving back its own leases must not give back another thread's.
    owner: str = field(default_factory=lambda: this_owner(f"sampling-{uuid.uuid4().hex[:8]}"))

    @property
    def scope(self) -> str:
        """What the cells belong to."""
        return self.run_id

    def prompt_of(self, problem: ProblemToDraw) -> PromptSpec:
        """Return how a problem is put to the model: the spec's prompt, where a subclass says nothing else."""
        return self.spec.prompt

    @abstractmethod
    def leased(self, cell: Cell) -> LeasedCell:
        """Return a cell with its problem and seeds."""

    def lease(self, limit: int) -> list[LeasedCell]:
        """Lease up to `limit` empty cells to this process; empty where none is left for it."""
        cells = self.db.write_again(
            lambda session: claim_cells(session, self.run_id, self.scope, owner=self.owner, limit=limit)
        )
        return [self.leased(cell) for cell in cells]

    def store(self, cells: Sequence[DrawnCell]) -> None:
        """Commit drawn cells in one transaction. A cell that another process filled keeps its samples."""

        def store(session: Session) -> None:
            for drawn in cells:
                self.keep(session, drawn)

        self.db.write_again(store)

    @abstractmethod
    def keep(self, session: Session, drawn: DrawnCell) -> None:
        """Fill a cell and store its responses in the transaction of `session`."""

    def fail(self, leased: LeasedCell, error: str) -> None:
        """Note that a cell cannot be drawn; a later invocation tries again."""
        self.db.write_again(
            lambda session: fail_cell(session, leased.cell.id, error, attempts=1, cost_usd=0.0)
        )

    @contextmanager
    def keep_leases(self) -> Iterator[None]:
        """Renew this process's leases meanwhile, and give back at the end what was not drawn."""
        try:
            with keep_leases(self.db, self.owner):
                yield
        finally:
            self.db.write_again(lambda session: release_leases(session, self.owner))


ReportSamples = Callable[[int, str], None]
"""Told how many samples have come since the last call, and a few words (speed, cost) to show."""


class Sampler(Protocol):
    """Draws the samples of an eval run. Three rooms hold one each: remote, vllm, local.

    A sampler fills cells of `CellsToDraw`: it leases some, draws their responses and stores them at
    once, so that a kill loses at most what was in flight.
    """

    def describe(self) -> Mapping[str, Any]:
        """Return what shapes its responses beside model, prompt and sampling: it is part of the run's key.

        Always: `sampler` (remote, vllm, local). Engines add their versions, the weights' revision or
        fingerprint, dtype, device kind, the chat template's hash (None where the model has none).

        Raises:
            PrerequisiteError: the engine is not installed, the model cannot be found or reached.
        """
        ...

    def check(self, spec: DrawingSpec) -> None:
        """See that a run can be drawn with these settings, before it is made.

        Raises:
            InputError: a setting that the engine does not draw by, or a prompt that the model does not take.
            PrerequisiteError: the endpoint takes no such prompts or drops a setting.
        """
        ...

    @property
    def notices(self) -> Sequence[str]:
        """What the user should know of the responses so far: raw text for want of a chat template, ..."""
        ...

    def fill(self, cells: CellsToDraw, report: ReportSamples) -> Filled:
        """Draw until no cell of the run is empty or it has to stop; see `Filled.stopped`."""
        ...

    def close(self) -> None:
        """End what it holds outside of this process, such as an engine on a GPU; whoever opened it does."""
        ...
