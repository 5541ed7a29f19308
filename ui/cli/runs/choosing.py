"""Which run a command means."""

from typing import TYPE_CHECKING

from service.errors import InputError, NotFoundError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from service.runs.store import Run


def choose(session: "Session", reference: str | None) -> "Run":
    """Return the run of any kind that is named, or the only one there is.

    NAME also stands for the eval run NAME.BENCHMARK, where there is one of them.

    Raises:
        NotFoundError: no such run.
        InputError: none is named and there are several, or none at all; or several are called so.
    """
    from evaluator.evals.runs import list_eval_runs, matching_runs
    from service.runs.store import find_run, list_runs

    if reference is None:
        runs = list_runs(session)
        if len(runs) != 1:
            names = ", ".join(sorted(run.name for run in runs))
            raise InputError(f"name a run; there are: {names}." if runs else "there is no run yet.")
        return runs[0]
    try:
        return find_run(session, reference)
    except NotFoundError:
        try:
            matching = matching_runs(list_eval_runs(session), reference)
        except NotFoundError:
            matching = []
        if not matching:
            raise
    if len(matching) > 1:
        raise InputError(
            f"{reference} stands for {', '.join(run.name for run in matching)}; name one of them."
        )
    return matching[0]
