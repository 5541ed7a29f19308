"""Opening the checkpoints of solvers on this machine, and telling whether they are those of a run."""

from pathlib import Path

from rephraser.run.spec import SolverSpec
from service.errors import InputError, PrerequisiteError
from service.models.drawing import Sampler
from service.models.local import LocalSampler

_OF_A_FOLDER = "weights_"  # the tag of `service.models.checkpoint.fingerprint`; else a commit of the Hub


def open_stored(solver: SolverSpec, *, batch_size: int | None) -> LocalSampler:
    """Return the sampler of a stored solver: its folder or its commit on the Hub, its device and its dtype.

    Raises:
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
    return LocalSampler(
        solver.model,
        revision=None if is_folder else weights,
        device=str(engine["device"]),
        dtype=str(engine["dtype"]),
        batch_size=batch_size,
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
