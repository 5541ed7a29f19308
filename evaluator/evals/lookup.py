"""Eval runs by the names users give: a run's own, its id, or the NAME that `eval run --name` was given."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from evaluator.evals.spec import EVAL
from service.errors import InputError, NotFoundError
from service.runs.store import Run, find_run, list_runs


def list_eval_runs(session: Session) -> list[Run]:
    """Return all eval runs, oldest first."""
    return [run for run in list_runs(session) if run.kind == EVAL]


def matching_runs(runs: Sequence[Run], name: str) -> list[Run]:
    """Return the run with this name or id, else all whose name is this one, a dot and more.

    Raises:
        NotFoundError: there is none; the message names those there are.
    """
    exact = [run for run in runs if name in (run.name, run.id)]
    found = exact or sorted((run for run in runs if run.name.startswith(f"{name}.")), key=_name)
    if not found and name.startswith("run_"):
        found = [run for run in runs if run.id.startswith(name)]
        found = found if len(found) == 1 else []
    if not found:
        names = ", ".join(run.name for run in runs)
        raise NotFoundError(
            f"there is no eval run {name!r}, and none called {name}.*, only: {names or 'none yet'}."
        )
    return found


def find_eval_run(session: Session, name: str) -> Run:
    """Return the one eval run that `name` stands for; see `matching_runs`.

    Raises:
        NotFoundError: there is none.
        InputError: there are several, or it is a run of another kind.
    """
    try:
        found = matching_runs(list_eval_runs(session), name)
    except NotFoundError:
        other = _run_of_another_kind(session, name)
        if other is None:
            raise
        raise InputError(f"run {other.name} is no eval run; `tagrpo eval list` lists those.") from None
    if len(found) > 1:
        names = ", ".join(run.name for run in found)
        raise InputError(f"{name} stands for several eval runs: {names}; name one of them.")
    return found[0]


def _run_of_another_kind(session: Session, name: str) -> Run | None:
    try:
        return find_run(session, name)
    except NotFoundError:
        return None


def _name(run: Run) -> str:
    return run.name
