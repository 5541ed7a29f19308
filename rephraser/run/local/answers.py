"""Solvers on this machine: their cells are work for a sampler, their answers are kept as those of servers.

Their checkpoints are opened again, and found to be those of the run, when it goes on.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from rephraser.run.ask import Subject, read_subjects
from rephraser.run.spec import ANSWER, SolverSpec, cell_seed
from service.database import Database
from service.errors import InputError, PrerequisiteError
from service.models.drawing import CellsToDraw, DrawnCell, LeasedCell, Sampler
from service.models.offline import CheckpointSampler, open_engine
from service.models.rendering import PromptRoomError
from service.runs.cells import Cell, claim_cells, fail_cell, fill_cell
from service.runs.filling import Filled
from service.runs.tables import EMPTY, CellRow, RunCellRow

_OF_A_FOLDER = "weights_"  # the tag of `service.models.checkpoint.fingerprint`; else a commit of the Hub

_STORED = {"local": ("device", "dtype"), "vllm": ("dtype", "tensor_parallel", "max_model_len")}

NO_ROOM = "prompt"
"""The kind of failure where a text does not fit into the model's context."""

Report = Callable[[int, int, str], None]
"""Told how many answers are drawn, of how many, and a few words."""


@dataclass(frozen=True, kw_only=True)
class SolverCells(CellsToDraw):
    """The empty cells of a solver that a run needs, for any sampler."""

    solver_id: str
    by_subject: Mapping[str, Subject] = field(default_factory=dict)

    @property
    def scope(self) -> str:
        """The solver: its answers are shared by all runs."""
        return self.solver_id

    def leased(self, cell: Cell) -> LeasedCell:
        """Return a cell with a seed for each answer, which follows from the cell's."""
        subject, count = self.by_subject[cell.subject_id], int(cell.payload["count"])
        seeds = tuple(cell_seed(cell.payload["seed"], place) for place in range(count))
        return LeasedCell(cell, subject, count, seeds)

    def lease(self, limit: int) -> list[LeasedCell]:
        """Lease up to `limit` empty cells.

        Texts that another process has added since are left for the next pass: leased, so that the oldest free
        cells are others, and given back at its end.
        """
        with self.db.write() as session:
            cells = claim_cells(session, self.run_id, self.scope, owner=self.owner, limit=limit)
        return [self.leased(cell) for cell in cells if cell.subject_id in self.by_subject]

    def keep(self, session: Session, drawn: DrawnCell) -> None:
        """Fill a cell with its answers in the shape of a chat completion, to be read as those of servers."""
        choices = [
            {
                "message": {"content": response.text},
                "finish_reason": response.stop_reason,
                "seed": seed,
                "completion_tokens": response.completion_tokens,
            }
            for response, seed in zip(drawn.responses, drawn.leased.seeds, strict=True)
        ]
        body = {"choices": choices, "engine": json.loads(drawn.raw)}
        fill_cell(session, drawn.leased.cell.id, json.dumps(body, ensure_ascii=False), drawn.receipt)


def open_stored(solver: SolverSpec, options: Mapping[str, Any], *, grace_s: float) -> CheckpointSampler:
    """Return the sampler of a stored solver: its folder or its commit on the Hub, as it was described.

    `options` are those that shape no answer, as batch size and GPUs.

    Raises:
        InputError: an option of another engine.
        PrerequisiteError: the folder is not there.
    """
    engine = solver.engine or {}
    weights = str(engine["weights"])
    is_folder = weights.startswith(_OF_A_FOLDER)
    if is_folder and not Path(solver.model).is_dir():
        raise PrerequisiteError(
            f"the folder of the solver {solver.model} is not here; restore it, or run the command in the "
            "directory in which the run was started."
        )
    stored = {key: engine[key] for key in _STORED[engine["sampler"]]}
    stored["revision"] = None if is_folder else weights
    return open_engine(
        engine["sampler"], solver.model, {**options, **stored}, prefix="solver-", grace_s=grace_s
    )


def check_engine(solver: SolverSpec, sampler: Sampler) -> None:
    """See that a sampler is what a solver's answers so far were drawn with.

    Raises:
        InputError: weights, versions, device or chat template are others; they are listed.
        PrerequisiteError: the engine is not installed, or the model cannot be found.
    """
    there, now = dict(solver.engine or {}), dict(sampler.describe())
    changed = [
        f"{key} ({there.get(key, 'not set')} there, {now.get(key, 'not set')} now)"
        for key in sorted(set(there) | set(now))
        if there.get(key) != now.get(key)
    ]
    if changed:
        raise InputError(
            f"the solver {solver.model} is not what this run was made with: {'; '.join(changed)}. Restore "
            "it, or start a run of another --name: answers of two models are not mixed."
        )


def draw_answers(db: Database, run_id: str, solver: SolverSpec, sampler: Sampler, report: Report) -> Filled:
    """Draw all answers of a solver that a run lacks, whole cells stored as they come.

    A text that leaves no room in the model's context fails, and the others are drawn.

    Raises:
        InputError: the model or its prompts cannot be used.
        PrerequisiteError: the model cannot be loaded.
    """
    failed = 0
    while (open_work := _find_work(db, run_id, solver)) is not None:
        work, answers = open_work
        try:
            filled = sampler.fill(work, _Progress(report, answers))
        except PromptRoomError as error:
            failed += _fail(work, error.reasons)
            continue
        filled.failed += failed
        if failed:
            filled.failures[NO_ROOM] = failed
        return filled
    return Filled(failed=failed, failures={NO_ROOM: failed} if failed else {})


class _Progress:
    """Adds up what a sampler has drawn."""

    def __init__(self, report: Report, total: int) -> None:
        self._report, self._total, self._drawn = report, total, 0

    def __call__(self, drawn: int, words: str) -> None:
        self._drawn = min(self._drawn + drawn, self._total)  # cells that other processes left count too
        self._report(self._drawn, self._total, words)


def _find_work(db: Database, run_id: str, solver: SolverSpec) -> tuple[SolverCells, int] | None:
    """Return the work on a solver's empty cells and the number of answers they hold; None without any."""
    with db.read() as session:
        rows = session.execute(
            select(CellRow.subject_id, func.count())
            .join(RunCellRow, RunCellRow.cell_id == CellRow.id)
            .where(
                RunCellRow.run_id == run_id,
                CellRow.scope == solver.id,
                CellRow.kind == ANSWER,
                CellRow.state == EMPTY,
                CellRow.outcome.is_(None),  # always so where empty; it lets the index find them
            )
            .group_by(CellRow.subject_id)
            .order_by(func.min(CellRow.id))
        ).all()
        subjects = read_subjects(session, [subject_id for subject_id, _ in rows])
    if not rows:
        return None
    work = SolverCells(
        db,
        run_id,
        solver.drawing,
        {subject.id: subject for subject in subjects},
        solver_id=solver.id,
        by_subject={subject.problem_id: subject for subject in subjects},
    )
    return work, sum(count for _, count in rows) * solver.samples_per_request


def _fail(work: SolverCells, faults: Mapping[int, str]) -> int:
    """Fail the empty cells of texts without room, for good; return how many."""
    reasons = {work.problems[number].problem_id: reason for number, reason in faults.items()}
    with work.db.write() as session:
        cells = session.execute(
            select(CellRow.id, CellRow.subject_id).where(
                CellRow.scope == work.scope,
                CellRow.kind == ANSWER,
                CellRow.subject_id.in_(reasons),
                CellRow.state == EMPTY,
            )
        ).all()
        for cell_id, subject_id in cells:
            error = f"{NO_ROOM}: {reasons[subject_id]} ({subject_id})"
            fail_cell(session, cell_id, error, attempts=0, cost_usd=0.0, final=True)
    return len(cells)
