"""Groups of earlier steps that are replayed: which ones, what they weigh, what becomes of verl's batch."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import torch

from trainer_adapter.methods.replaying import MixedGroup, MixedGroups, replay_weights
from trainer_adapter.verl.plugin.steps.replaying import ReplayStep


def group(question: str, step: int) -> MixedGroup:
    return MixedGroup(question, step, [f"{question}{step}"])


def named(groups: Sequence[MixedGroup]) -> list[str]:
    return [row for each in groups for row in each.rows]


def test_the_latest_groups_come_first_and_a_question_has_one() -> None:
    memory = MixedGroups(steps=3, most=9)
    assert memory.choose(2, 1) == []
    memory.keep([group("a", 1), group("b", 1)])
    memory.keep([group("c", 2), group("a", 2)])
    assert named(memory.choose(9, 3)) == ["a2", "c2", "b1"]
    assert named(memory.choose(2, 3)) == ["a2", "c2"]
    assert named(memory.choose(9, 3, {"a", "x"})) == ["c2", "b1"]
    assert named(memory.choose(9, 4)) == ["a2", "c2", "b1"]  # replayed, and there again
    assert named(memory.choose(9, 5)) == ["a2", "c2"]  # b1 is four steps old
    assert len(memory) == 2


def test_a_token_weighs_what_the_page_derives() -> None:
    """By hand in docs/reference/methods.md: .3 / .2, .3 / .6, and .9 / .3 cut at 2."""
    old, drawn = torch.tensor([0.3, 0.3, 0.9]).log(), torch.tensor([0.2, 0.6, 0.3]).log()
    torch.testing.assert_close(replay_weights(old, drawn, 2.0), torch.tensor([1.5, 0.5, 2.0]))
    assert (replay_weights(old, old, 2.0) == 1).all()


def test_what_was_kept_goes_with_a_checkpoint_that_verl_has_removed(tmp_path: Path) -> None:
    """verl (0.9.1, `checkpoint_manager.py`) removes `actor` of an earlier step, and leaves the rest."""
    replaying = ReplayStep(steps=5, most=4, threshold=2.0)
    for step in (1, 2, 3):
        replaying.save(tmp_path / f"global_step_{step}")
        (tmp_path / f"global_step_{step}" / "actor").mkdir()
    shutil.rmtree(tmp_path / "global_step_1" / "actor")
    replaying.save(tmp_path / "global_step_4")
    left = sorted(path.parent.name for path in tmp_path.glob("*/tagrpo_mixed_groups.pt"))
    assert left == ["global_step_2", "global_step_3", "global_step_4"]
