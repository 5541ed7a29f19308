"""Find the runs that propose candidates."""

from sqlalchemy.orm import Session

from evaluator.evals.runs import EVAL
from service.errors import InputError
from service.runs.store import Run, find_run, only_run

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
    """Return the run named, or the only one of neighbors that there is.

    Raises:
        NotFoundError: no such run.
        InputError: none is named and there are several, or none at all; or a run of another kind is named.
    """
    return only_run(session, KIND) if reference is None else find_neighbor_run(session, reference)
