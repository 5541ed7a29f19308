"""Find the runs that propose candidates."""

from sqlalchemy.orm import Session

from evaluator.evals.runs import EVAL
from service.errors import InputError
from service.runs.store import Run, find_run, list_runs

KIND = "propose"


def find_neighbor_run(session: Session, reference: str) -> Run:
    """Return the run with this name or id, which has to be one of neighbors."""
    run = find_run(session, reference)
    if run.kind != KIND:
        kind = "evaluates a model" if run.kind == EVAL else "is a training"
        raise InputError(
            f"run {run.name!r} {kind} and contains no neighbors. See `tagrpo runs show {run.name}`."
        )
    return run


def choose_run(session: Session, reference: str | None) -> Run:
    """Return the run named, or the only one of neighbors that there is."""
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
