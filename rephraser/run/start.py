"""Starting a run, and finding it again: its questions, its strategies, its place in the database."""

from collections.abc import Callable

from sqlalchemy.orm import Session

from evaluator.evals.runs import EVAL
from rephraser.config import RephraseConfig
from rephraser.run.spec import RunSpec
from service.asks.store import add_tasks
from service.database import Database
from service.errors import InputError
from service.questions import load_question_set
from service.runs.store import (
    Run,
    find_run,
    find_same_run,
    keep_config,
    list_runs,
    open_run,
    package_versions,
    run_question_ids,
)

KIND = "propose"


def start_run(
    db: Database, config: RephraseConfig, spec: RunSpec, *, note: Callable[[str], None] = lambda _: None
) -> Run:
    """Return the run of this name, made if there is none; it holds the usable questions of its set.

    Raises:
        NotFoundError: there is no such question set.
        InputError: the set has no usable question, or a run of this name has other settings.
    """
    with db.write() as session:
        questions = wanted_questions(session, spec, config.limit)
        known = find_same_run(
            session, name=config.name, kind=KIND, spec=spec.to_json(), question_ids=questions
        )
        if known is not None:
            note(f"resuming run {config.name}")
            before = len(run_question_ids(session, known.id))
            if len(questions) > before:
                now = f"{len(questions):,} question{'s' * (len(questions) != 1)}"
                note(f"run {config.name} grows from {before:,} to {now}")
        run, _ = open_run(
            session,
            name=config.name,
            kind=KIND,
            spec=spec.to_json(),
            question_ids=questions,
            versions=package_versions(),
        )
        add_tasks(session, run.id, questions)
        keep_config(session, run.id, config.stored())
        return run


def find_neighbor_run(session: Session, reference: str) -> Run:
    """Return the run with this name or id, which has to be one of neighbors.

    Raises:
        NotFoundError: no such run.
        InputError: it is an eval run, or one of training.
    """
    run = find_run(session, reference)
    if run.kind == EVAL:
        raise InputError(
            f"run {run.name!r} evaluates a model and contains no neighbors. See `tagrpo runs show "
            f"{run.name}`."
        )
    if run.kind != KIND:
        raise InputError(
            f"run {run.name!r} is a training run without neighbors; see `tagrpo train rollouts`."
        )
    return run


def choose_run(session: Session, reference: str | None) -> Run:
    """Return the run named, or the only one of neighbors that there is.

    Raises:
        NotFoundError: no such run.
        InputError: none is named and there are several, or none at all; or a run of another kind is named.
    """
    if reference is not None:
        return find_neighbor_run(session, reference)
    runs = [run for run in list_runs(session) if run.kind == KIND]
    if len(runs) != 1:
        names = ", ".join(sorted(run.name for run in runs))
        raise InputError(
            f"there are several runs. Choose one: {names}."
            if runs
            else "there are no runs yet. Start one with `tagrpo rephrase run`."
        )
    return runs[0]


def wanted_questions(session: Session, spec: RunSpec, limit: int | None) -> list[str]:
    """Return the usable questions of a run's set, at most `limit`.

    Raises:
        InputError: there is none.
    """
    questions = load_question_set(session, spec.questions)[:limit]
    if not questions:
        raise InputError(
            f"question set {spec.questions!r} has no usable questions. `tagrpo questions list "
            f"{spec.questions} --held` lists the reasons."
        )
    return [question.id for question in questions]
