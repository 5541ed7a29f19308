"""Proposers and solvers on this machine: their cells are work for a sampler, answers are kept as servers'.

A model proposes or solves; either way a cell is a text that is put to it, and what it answers.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from rephraser.run.ask import read_proposing, read_subjects
from rephraser.run.spec import ANSWER, PROPOSE, RunSpec, SolverSpec, cell_seed
from service.database import Database
from service.models.drawing import CellsToDraw, DrawnCell, LeasedCell, ProblemToDraw, Sampler, Subject
from service.models.rendering import PromptRoomError
from service.models.settings import PromptSpec
from service.runs.cells import Cell, claim_cells, fail_cell, fill_cell, read_cells
from service.runs.filling import Filled
from service.runs.tables import EMPTY, CellRow, RunCellRow
from service.telling import TellStage

NO_ROOM = "prompt"
"""The kind of failure where a text does not fit into the model's context."""


@dataclass(frozen=True, kw_only=True)
class ModelCells(CellsToDraw):
    """The empty cells of a model that a run needs, for any sampler.

    `by_cell` is what each cell puts to the model, `prompts` how, by a text's id, where not by the spec's
    prompt. `asked_in` is the scope: the run for its proposer, the solver for its answers, which all runs
    share.
    """

    asked_in: str
    by_cell: Mapping[int, ProblemToDraw]
    prompts: Mapping[int, PromptSpec] = field(default_factory=dict)

    @property
    def scope(self) -> str:
        """What the cells belong to."""
        return self.asked_in

    def prompt_of(self, problem: ProblemToDraw) -> PromptSpec:
        """Return how a text is put to the model."""
        return self.prompts.get(problem.id, self.spec.prompt)

    def leased(self, cell: Cell) -> LeasedCell:
        """Return a cell with a seed for each answer, which follows from the cell's."""
        seed = cell.payload["seed"]
        if cell.kind == PROPOSE:  # one answer, with all its candidates
            return LeasedCell(cell, self.by_cell[cell.id], 1, (seed,))
        count = int(cell.payload["count"])
        seeds = tuple(cell_seed(seed, place) for place in range(count))
        return LeasedCell(cell, self.by_cell[cell.id], count, seeds)

    def lease(self, limit: int) -> list[LeasedCell]:
        """Lease up to `limit` empty cells.

        Those that another process has added since are left for the next pass: leased, so that the oldest free
        cells are others, and given back at its end.
        """
        with self.db.write() as session:
            cells = claim_cells(session, self.run_id, self.scope, owner=self.owner, limit=limit)
        return [self.leased(cell) for cell in cells if cell.id in self.by_cell]

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

    def fail_without_room(self, reasons: Mapping[int, str]) -> int:
        """Fail for good those empty cells whose texts leave no room, by the texts' ids; return how many."""
        faults = {
            cell_id: f"{NO_ROOM}: {reasons[text.id]} ({text.problem_id})"
            for cell_id, text in self.by_cell.items()
            if text.id in reasons
        }
        with self.db.write() as session:
            empty = set(session.scalars(_empty_cells(self.run_id, self.scope)))
            for cell_id in empty & faults.keys():
                fail_cell(session, cell_id, faults[cell_id], attempts=0, cost_usd=0.0, final=True)
        return len(empty & faults.keys())


def solver_cells(db: Database, run_id: str, solver: SolverSpec) -> ModelCells | None:
    """Return the answers of a solver that a run lacks, None without any."""
    with db.read() as session:
        rows = session.execute(
            _empty_cells(run_id, solver.id)
            .with_only_columns(CellRow.id, CellRow.subject_id)
            .where(CellRow.kind == ANSWER)
        ).all()
        subjects = read_subjects(session, list(dict.fromkeys(subject_id for _, subject_id in rows)))
    if not rows:
        return None
    by_id = {subject.problem_id: subject for subject in subjects}
    return ModelCells(
        db,
        run_id,
        solver.drawing,
        {subject.id: subject for subject in subjects},
        asked_in=solver.id,
        by_cell={cell_id: by_id[subject_id] for cell_id, subject_id in rows},
    )


def proposer_cells(db: Database, run_id: str, spec: RunSpec) -> ModelCells | None:
    """Return what a run has to ask its proposer, None if nothing."""
    with db.read() as session:
        cells = read_cells(session, CellRow.id.in_(_empty_cells(run_id, run_id)), CellRow.kind == PROPOSE)
    if not cells:
        return None
    asked: dict[int, Subject] = {}
    prompts: dict[int, PromptSpec] = {}
    by_strategy = [spec.proposing_prompt(place) for place in range(len(spec.strategies))]
    for position, (cell, each) in enumerate(zip(cells, read_proposing(db, run_id, spec, cells), strict=True)):
        text, prompt = each.user, by_strategy[cell.ordinal]
        if each.images:  # shown where the question names them, not where an instruction does
            before, text, behind = each.user.rpartition(each.question)
            template = f"{before.replace('{question}', '{ question }')}{{question}}{behind}"
            prompt = replace(prompt, template=template)
        asked[cell.id] = Subject(cell.id, position, cell.subject_id, text, each.images)
        prompts[cell.id] = prompt
    return ModelCells(db, run_id, spec.drawing, asked, asked_in=run_id, by_cell=asked, prompts=prompts)


def draw_cells(
    find: Callable[[], ModelCells | None], sampler: Sampler, report: TellStage, stage: str
) -> Filled:
    """Draw all cells that `find` returns, whole cells stored as they come; `stage` is what `report` is told.

    A text that leaves no room in the model's context fails, and the others are drawn.

    Raises:
        InputError: the model or its prompts cannot be used.
        PrerequisiteError: the model cannot be loaded.
    """
    failed = 0
    while (cells := find()) is not None:
        try:
            filled = sampler.fill(cells, _Progress(report, stage, cells))
        except PromptRoomError as error:
            failed += cells.fail_without_room(error.reasons)
            continue
        filled.failed += failed
        if failed:
            filled.failures[NO_ROOM] = failed
        return filled
    return Filled(failed=failed, failures={NO_ROOM: failed} if failed else {})


class _Progress:
    """Adds up what a sampler has drawn."""

    def __init__(self, report: TellStage, stage: str, cells: ModelCells) -> None:
        self._report, self._stage, self._drawn = report, stage, 0
        self._total = len(cells.by_cell) * cells.spec.sampling.samples_per_request

    def __call__(self, drawn: int, words: str) -> None:
        self._drawn = min(self._drawn + drawn, self._total)  # cells that other processes left count too
        self._report(self._stage, self._drawn, self._total, words)


def _empty_cells(run_id: str, scope: str) -> Select[int]:
    return (
        select(CellRow.id)
        .join(RunCellRow, RunCellRow.cell_id == CellRow.id)
        .where(
            RunCellRow.run_id == run_id,
            CellRow.scope == scope,
            CellRow.state == EMPTY,
            CellRow.outcome.is_(None),  # always so where empty; it lets the index find them
        )
        .order_by(CellRow.id)
    )
