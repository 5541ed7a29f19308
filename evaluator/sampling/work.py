"""The work of a sampler: cells to lease, draw and store, whatever the engine behind it."""

import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from evaluator.database import Database
from evaluator.errors import DatabaseError
from evaluator.evals.samples import Drawn, sample_seed, store_samples
from evaluator.runs.cells import (
    Cell,
    Receipt,
    claim_cells,
    fail_cell,
    fill_cell,
    release_leases,
    renew_leases,
)
from evaluator.runs.leases import LEASE_S, this_owner
from evaluator.sampling.asked import AskedProblem, DrawingSpec


@dataclass(frozen=True)
class SampleRequest:
    """One cell to draw: `count` responses to a problem's prompt, with a seed for each.

    `question` is the problem's text; the prompt is made from it by the spec and the sampler.
    """

    cell: Cell
    problem: AskedProblem
    question: str
    count: int
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class DrawnCell:
    """What was drawn for a request, with what it took. `raw` is JSON of what the engine said besides."""

    request: SampleRequest
    responses: Sequence[Drawn]
    receipt: Receipt
    raw: str = "{}"


@dataclass(frozen=True)
class SamplingWork:
    """The empty cells of an eval run, and how to lease and fill them.

    A subclass for other cells says in `scope` which, in `request` what is drawn for one, and in `keep` how it
    is stored.
    """

    db: Database
    run_id: str
    spec: DrawingSpec
    problems: Mapping[int, AskedProblem]  # by id
    # Told apart within a process too: giving back its own leases must not give back another thread's.
    owner: str = field(default_factory=lambda: this_owner(f"sampling-{uuid.uuid4().hex[:8]}"))

    @property
    def scope(self) -> str:
        """What the cells belong to."""
        return self.run_id

    def request(self, cell: Cell) -> SampleRequest:
        """Return the request of a cell."""
        problem = self.problems[cell.payload["run_problem"]]
        first, count = cell.payload["first"], cell.payload["count"]
        seeds = tuple(
            sample_seed(self.spec.sampling.seed, problem.problem_id, ordinal)
            for ordinal in range(first, first + count)
        )
        return SampleRequest(cell, problem, problem.text, count, seeds)

    def lease(self, limit: int) -> list[SampleRequest]:
        """Lease up to `limit` empty cells to this process; empty where none is left for it."""
        with self.db.write() as session:
            cells = claim_cells(session, self.run_id, self.scope, owner=self.owner, limit=limit)
        return [self.request(cell) for cell in cells]

    def store(self, drawn: Sequence[DrawnCell]) -> None:
        """Commit drawn cells in one transaction. A cell that another process filled keeps its samples."""
        with self.db.write() as session:
            for one in drawn:
                self.keep(session, one)

    def keep(self, session: Session, one: DrawnCell) -> None:
        """Fill a cell and write its samples in the transaction of `session`."""
        if fill_cell(session, one.request.cell.id, one.raw, one.receipt):
            store_samples(session, one.request.cell, one.responses, one.request.seeds)

    def fail(self, request: SampleRequest, error: str) -> None:
        """Note that a request cannot be drawn; a later invocation tries again."""
        with self.db.write() as session:
            fail_cell(session, request.cell.id, error, attempts=1, cost_usd=0.0)

    @contextmanager
    def keep_leases(self, every_s: float = LEASE_S / 10) -> Iterator[None]:
        """Renew this process's leases in a thread, and give back at the end what was not drawn."""
        done = threading.Event()

        def beat() -> None:
            while not done.wait(every_s):
                with suppress(DatabaseError), self.db.write() as session:  # the next beat comes in time
                    renew_leases(session, self.owner)

        thread = threading.Thread(target=beat, name="sampling-leases", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            with self.db.write() as session:
                release_leases(session, self.owner)
