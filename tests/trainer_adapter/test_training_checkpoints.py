"""Which checkpoint a killed run goes on from."""

import zipfile
from pathlib import Path

import pytest

from service.errors import InputError
from trainer_adapter.runs.resuming import TRACKER, is_whole, mend, tracked_step, whole_steps


def save(folder: Path, step: int, *, ranks: int = 2) -> Path:
    """Write files as verl's FSDP engine does, as small as can be."""
    actor = folder / f"global_step_{step}" / "actor"
    actor.mkdir(parents=True)
    names = [
        f"{what}_world_size_{ranks}_rank_{rank}.pt" for what in ("model", "optim") for rank in range(ranks)
    ]
    for path in [*(actor / name for name in names), actor.parent / "data.pt"]:
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("data.pkl", b"state" * 100)
    (actor / "fsdp_config.json").write_text("{}")
    (folder / TRACKER).write_text(str(step))
    return actor.parent


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def test_a_tracker_that_names_a_whole_checkpoint_is_left_alone(tmp_path: Path) -> None:
    assert (mend(tmp_path / "none"), tracked_step(tmp_path)) == (None, None)
    save(tmp_path, 2)
    save(tmp_path, 10)
    assert mend(tmp_path) is None
    assert (tracked_step(tmp_path), whole_steps(tmp_path)) == (10, [2, 10])


@pytest.mark.parametrize("part", ["model_world_size_2_rank_1.pt", "optim_world_size_2_rank_0.pt"])
def test_a_checkpoint_is_whole_with_the_parts_of_this_nodes_ranks(tmp_path: Path, part: str) -> None:
    place = save(tmp_path, 2)
    assert is_whole(tmp_path, 2)
    cut(place / "actor" / part)
    assert not is_whole(tmp_path, 2)
    (place / "actor" / part).unlink()  # it lies on another node
    assert is_whole(tmp_path, 2)


def test_a_checkpoint_is_whole_once_the_loaders_state_is_written(tmp_path: Path) -> None:
    place = save(tmp_path, 2)
    cut(place / "data.pt")
    assert not is_whole(tmp_path, 2)
    (place / "data.pt").unlink()
    assert not is_whole(tmp_path, 2)


def test_files_of_other_engines_are_not_looked_into(tmp_path: Path) -> None:
    place = save(tmp_path, 2)
    for path in (place / "actor").glob("*.pt"):
        path.unlink()
    assert is_whole(tmp_path, 2)
    (place / "actor" / "fsdp_config.json").unlink()
    assert not is_whole(tmp_path, 2)


def test_a_tracker_that_a_kill_left_empty_is_written_anew(tmp_path: Path) -> None:
    save(tmp_path, 2)
    save(tmp_path, 4)
    (tmp_path / TRACKER).write_text("")
    assert mend(tmp_path) == (f"{TRACKER} does not say which; training goes on from the checkpoint of step 4")
    assert (tmp_path / TRACKER).read_text() == "4"


def test_a_checkpoint_that_is_gone_gives_way_to_the_one_before(tmp_path: Path) -> None:
    save(tmp_path, 2)
    cut(save(tmp_path, 4) / "actor" / "model_world_size_2_rank_0.pt")
    assert mend(tmp_path) == (
        f"{TRACKER} names step 4, which is not whole; training goes on from the checkpoint of step 2"
    )
    assert tracked_step(tmp_path) == 2


def test_without_a_whole_checkpoint_training_is_refused_or_begins_anew(tmp_path: Path) -> None:
    cut(save(tmp_path, 4) / "data.pt")
    with pytest.raises(
        InputError, match=r"names step 4, which is not whole, and no other .* put the files back"
    ):
        mend(tmp_path)
    assert tracked_step(tmp_path) == 4
    (tmp_path / TRACKER).write_text("")  # killed while it saved for the first time
    assert mend(tmp_path) == (
        f"{TRACKER} does not say which, and no checkpoint is whole; training begins at step 1 again"
    )
    assert not (tmp_path / TRACKER).exists()
