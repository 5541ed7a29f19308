"""The checkpoints of a run: which ones are whole, and from which training goes on after a kill."""

import re
import zipfile
from pathlib import Path

from service.errors import InputError
from service.writing import write_file

TRACKER = "latest_checkpointed_iteration.txt"
"""The file in which verl keeps the last step it saved; written last, but not at one stroke."""

_STEP = re.compile(r"global_step_(\d+)")


def tracked_step(folder: Path) -> int | None:
    """Return the step that verl says it saved last; None where it says none."""
    try:
        return int((folder / TRACKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def is_whole(folder: Path, step: int) -> bool:
    """Return whether the checkpoint of a step was written to its end.

    verl writes the parts of all ranks first and the state of the data loader after them; the parts of ranks
    on other nodes may lie there.
    """
    place = folder / f"global_step_{step}"
    written = [place / "data.pt", *place.glob("*/*_world_size_*_rank_*.pt")]
    has_actor = next((place / "actor").glob("*"), None) is not None
    return has_actor and all(zipfile.is_zipfile(path) for path in written)


def whole_steps(folder: Path) -> list[int]:
    """Return the steps whose checkpoints are whole, in order."""
    found = [_STEP.fullmatch(path.name) for path in folder.glob("global_step_*")]
    steps = sorted(int(match[1]) for match in found if match)
    return [step for step in steps if is_whole(folder, step)]


def mend(folder: Path) -> str | None:
    """Let verl's tracker name the last whole checkpoint; return what had to be done, None where nothing had.

    verl stops at a tracker that a kill left empty, and begins at step 1 without a word where the checkpoint
    it names is gone.

    Raises:
        InputError: a checkpoint was saved, and none is whole.
    """
    tracker, step = folder / TRACKER, tracked_step(folder)
    if not tracker.exists() or (step is not None and is_whole(folder, step)):
        return None
    said = "does not say which" if step is None else f"names step {step}, which is not whole"
    steps = whole_steps(folder)
    if steps:
        write_file(tracker, lambda place: _write(place, str(steps[-1])), overwrite=True)
        return f"{tracker.name} {said}; training goes on from the checkpoint of step {steps[-1]}"
    if step is None:  # killed while it saved for the first time
        tracker.unlink()
        return f"{tracker.name} {said}, and no checkpoint is whole; training begins at step 1 again"
    raise InputError(
        f"{folder}: {tracker.name} {said}, and no other checkpoint is whole; put the files back, or remove "
        "the folder to begin at step 1 again."
    )


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
