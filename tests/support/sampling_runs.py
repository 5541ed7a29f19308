"""Eval runs to be filled by a sampler of this machine, and what was stored of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eval_runs import make_eval_spec, make_problems
from sqlalchemy import select

from evaluator.evals.problems import PlacedProblem, Problem, run_problems
from evaluator.evals.running import EvalCells, plan_samples
from evaluator.evals.runs import open_eval_run
from evaluator.evals.tables import RunProblemRow, SampleRow, SampleTextRow
from service.database import Database
from service.models.drawing import CellsToDraw
from service.runs.tables import CellBodyRow, CellRow, RunCellRow


@dataclass(frozen=True)
class Stored:
    """A sample as stored."""

    position: int
    ordinal: int
    text: str
    seed: int | None
    stop_reason: str
    prompt_tokens: int | None
    completion_tokens: int | None


def plan_run(
    db: Database, n: int, *, problems: Sequence[Problem] | int = 3, name: str = "run", **settings: Any
) -> CellsToDraw:
    """Make a run (or open the one of this name) and plan `n` samples a problem; return its work."""
    made = make_problems(problems) if isinstance(problems, int) else problems
    spec = make_eval_spec(made, **{"template": "{question}", **settings})
    with db.write() as session:
        run, _ = open_eval_run(session, name, spec, [PlacedProblem(one) for one in made], {"tagrpo": "test"})
        stored = run_problems(session, run.id)
        plan_samples(session, run.id, stored, n, spec.sampling.samples_per_request)
    return EvalCells(db, run.id, spec, {problem.id: problem for problem in stored})


def stored_samples(work: CellsToDraw) -> list[Stored]:
    """Return the samples of a run by problem and ordinal."""
    query = (
        select(
            RunProblemRow.position,
            SampleRow.ordinal,
            SampleTextRow.text,
            SampleRow.seed,
            SampleRow.stop_reason,
            SampleRow.prompt_tokens,
            SampleRow.completion_tokens,
        )
        .join(SampleRow, SampleRow.run_problem_id == RunProblemRow.id)
        .join(SampleTextRow, SampleTextRow.sample_id == SampleRow.id)
        .where(RunProblemRow.run_id == work.run_id)
        .order_by(RunProblemRow.position, SampleRow.ordinal)
    )
    with work.db.read() as session:
        return [Stored(*row) for row in session.execute(query)]


def stored_texts(work: CellsToDraw) -> list[str]:
    """Return the texts of `stored_samples`."""
    return [one.text for one in stored_samples(work)]


def cells_of(work: CellsToDraw) -> list[CellRow]:
    """Return the cells of a run in order of their ids."""
    with work.db.read() as session:
        needed = select(RunCellRow.cell_id).where(RunCellRow.run_id == work.run_id)
        rows = session.scalars(select(CellRow).where(CellRow.id.in_(needed)).order_by(CellRow.id)).all()
        session.expunge_all()
        return list(rows)


def bodies_of(work: CellsToDraw) -> list[str]:
    """Return the raw answers of a run's cells, in order of their ids."""
    ids = [cell.id for cell in cells_of(work)]
    wanted = select(CellBodyRow.body).where(CellBodyRow.cell_id.in_(ids)).order_by(CellBodyRow.cell_id)
    with work.db.read() as session:
        return list(session.scalars(wanted))
