"""Which checkpoint a killed run goes on from."""

import zipfile
from pathlib import Path

import pytest
from training_configs import composed

from service.errors import InputError
from trainer_adapter.runs import resuming
from trainer_adapter.runs.resuming import TRACKER, loaded_parts, tracked_step

PARTS = ("model", "optim", "extra_state")


def fault_of(folder: Path, step: int) -> str | None:
    return resuming.fault_of(folder, step, PARTS)


def mend(folder: Path) -> str | None:
    return resuming.mend(folder, PARTS)


def save(folder: Path, step: int) -> Path:
    """Write files as verl's FSDP engine does, as small as can be."""
    actor = folder / f"global_step_{step}" / "actor"
    actor.mkdir(parents=True)
    names = [f"{part}_world_size_2_rank_{rank}.pt" for part in PARTS for rank in range(2)]
    for path in [*(actor / name for name in names), actor.parent / "data.pt"]:
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("data.pkl", b"state" * 100)
    (actor / "fsdp_config.json").write_text("{}")
    (folder / TRACKER).write_text(str(step))
    return actor.parent


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def test_parts_that_verl_does_not_load_may_be_missing(tmp_path):
    key = "actor_rollout_ref.actor.checkpoint"

    def parts(*texts: str) -> tuple[str, ...]:
        return loaded_parts(composed("grpo", *texts))

    assert parts() == parts(f"{key}.save_contents=[model,optimizer,extra,hf_model]") == PARTS
    assert parts(f"{key}.save_contents=[model]") == ("model",)
    assert parts(f"{key}.save_contents=[hf_model]") == ()
    assert parts(f"{key}.load_contents=[model,extra]") == ("model", "extra_state")
    place = save(tmp_path, 2)
    for path in (place / "actor").glob("optim*"):
        path.unlink()
    assert fault_of(tmp_path, 2) == "has no actor/optim_world_size_*.pt"
    assert resuming.fault_of(tmp_path, 2, ("model",)) is None


def test_checkpoints_without_weights_are_not_gone_on_with(tmp_path):
    save(tmp_path, 2)
    with pytest.raises(InputError, match="no weights that verl can resume from"):
        resuming.mend(tmp_path, ("optim",))
    assert resuming.mend(tmp_path, (), ended=True) is None


def test_a_tracker_that_a_kill_left_empty_is_written_anew(tmp_path):
    save(tmp_path, 2)
    save(tmp_path, 4)
    (tmp_path / TRACKER).write_text("")
    assert mend(tmp_path) == (
        f"{TRACKER} does not contain a step number; training resumes from the checkpoint at step 4"
    )
    assert (tmp_path / TRACKER).read_text() == "4"


def test_a_checkpoint_that_is_gone_gives_way_to_the_one_before(tmp_path):
    save(tmp_path, 2)
    cut(save(tmp_path, 4) / "actor" / "model_world_size_2_rank_0.pt")
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
        InputError, match=r"points to step 4, which has a damaged data\.pt, and no other .* Restore the files"
    ):
        mend(tmp_path)
    assert tracked_step(tmp_path) == 4
    (tmp_path / TRACKER).write_text("")  # killed while it saved for the first time
    assert mend(tmp_path) == (
        f"{TRACKER} does not contain a step number, and no checkpoint is complete; training starts again at "
        "step 1"
    )
    assert not (tmp_path / TRACKER).exists()
