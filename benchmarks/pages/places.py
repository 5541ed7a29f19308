"""What is in a large database, for queries to choose their places from."""

from dataclasses import dataclass

from sqlalchemy import select

from evaluator.evals.overview import shown_grader
from evaluator.evals.problems import run_problems
from evaluator.evals.runs import list_eval_runs
from rephraser.reviews.audit import list_audits
from rephraser.run.spec import ANSWER
from rephraser.sets.store import list_sets
from rephraser.tables import CandidateRow
from service.asks.tables import AskRow
from service.database import Database
from service.questions.tables import QuestionRow
from service.runs.store import Run, list_runs
from trainer_adapter.record.reading import Record
from trainer_adapter.record.runs import open_record


@dataclass(frozen=True)
class World:
    """What is in the database, to choose from."""

    neighbor_run: Run
    solver: str
    eval_runs: tuple[Run, ...]
    problems: dict[str, list[int]]
    graders: dict[str, int]
    trainings: dict[str, Record]
    steps: int
    question_ids: tuple[str, ...]
    answered: tuple[str, ...]
    trained: tuple[str, ...]
    candidate_ids: tuple[str, ...]
    set_ids: tuple[str, ...]
    set_positions: int
    audit_id: int


def read_world(db: Database) -> World:
    """Return what the queries choose their places from."""
    with db.read() as session:
        runs = list_runs(session)
        eval_runs = tuple(list_eval_runs(session))
        neighbor_run = next(run for run in runs if run.kind == "propose")
        trainings = {run.id: open_record(session, run) for run in runs if run.kind == "train"}
        counts = next(iter(trainings.values())).counts()
        is_answer = AskRow.kind == ANSWER
        solver = session.scalars(select(AskRow.scope).where(is_answer).limit(1)).one()
        answered = session.scalars(select(AskRow.about).where(is_answer).distinct()).all()
        shown = {run.id: shown_grader(session, run.id) for run in eval_runs}
        headers = list_sets(session)
        return World(
            neighbor_run=neighbor_run,
            solver=solver,
            eval_runs=eval_runs,
            problems={run.id: [one.id for one in run_problems(session, run.id)] for run in eval_runs},
            graders={id: grader.id for id, grader in shown.items() if grader is not None},
            trainings=trainings,
            steps=len(counts.page_steps()),
            question_ids=tuple(session.scalars(select(QuestionRow.id).order_by(QuestionRow.id))),
            answered=tuple(answered),
            trained=tuple(counts.texts["question_id"]),
            candidate_ids=tuple(session.scalars(select(CandidateRow.id))),
            set_ids=tuple(header.id for header in headers),
            set_positions=headers[-1].counts["questions"],
            audit_id=list_audits(session, neighbor_run.id)[0].id,
        )
