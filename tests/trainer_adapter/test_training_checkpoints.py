"""Which checkpoint a killed run goes on from."""

import zipfile
from pathlib import Path

import pytest

from service.errors import InputError
from trainer_adapter.runs.resuming import TRACKER, mend, tracked_step


def save(folder: Path, step: int) -> Path:
    """Write files as verl's FSDP engine does, as small as can be."""
    actor = folder / f"global_step_{step}" / "actor"
    actor.mkdir(parents=True)
    names = [
        f"{part}_world_size_2_rank_{rank}.pt"
        for part in ("model", "optim", "extra_state")
        for rank in range(2)
    ]
    for path in [*(actor / name for name in names), actor.parent / "data.pt"]:
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("data.pkl", b"state" * 100)
    (actor / "fsdp_config.json").write_text("{}")
    (folder / TRACKER).write_text(str(step))
    return actor.parent


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def test_checkpoints_without_weights_are_not_gone_on_with(tmp_path):
    for path in (save(tmp_path, 2) / "actor").glob("model*"):
        path.unlink()
    with pytest.raises(InputError, match=r"step 2, which has no actor/model_world_size_\*\.pt"):
        mend(tmp_path)
    assert mend(tmp_path, ended=True) is None


def test_an_empty_tracker_is_written_anew_and_a_broken_checkpoint_gives_way(tmp_path):
    save(tmp_path, 2)
    save(tmp_path, 4)
    (tmp_path / TRACKER).write_text("")
    assert mend(tmp_path) == (
        f"{TRACKER} does not contain a step number; training resumes from the checkpoint at step 4"
    )
    assert (tmp_path / TRACKER).read_text() == "4"
    cut(tmp_path / "global_step_4" / "actor" / "model_world_size_2_rank_0.pt")
    assert mend(tmp_path) == (
        f"{TRACKER} points to step 4, which has a damaged actor/model_world_size_2_rank_0.pt; training "
        "resumes from the checkpoint at step 2"
    )
    assert tracked_step(tmp_path) == 2
    (tmp_path / TRACKER).write_text("6")
    assert mend(tmp_path) == (
        f"{TRACKER} points to step 6, which does not exist; training resumes from the checkpoint at step 2"
    )


def test_without_a_whole_checkpoint_training_is_refused_or_begins_anew(tmp_path):
    cut(save(tmp_path, 4) / "data.pt")
    with pytest.raises(
        InputError,
        match=r"points to step 4, which has a damaged data\.pt, and no other .* Restore the files",
    ):
        mend(tmp_path)
    assert tracked_step(tmp_path) == 4
    (tmp_path / TRACKER).write_text("")  # killed while it saved for the first time
    assert mend(tmp_path) == (
        f"{TRACKER} does not contain a step number, and no checkpoint is complete; training starts again at "
        "step 1"
    )
    assert not (tmp_path / TRACKER).exists()
