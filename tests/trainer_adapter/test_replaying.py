"""Groups of earlier steps that are replayed: which ones, what they weigh, what becomes of verl's batch."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transfer_queue import KVBatchMeta
from verl.utils import tensordict_utils

from trainer_adapter.methods.replaying import MixedGroup, MixedGroups, replay_weights
from trainer_adapter.verl.plugin.responses import StepResponses
from trainer_adapter.verl.plugin.steps.replaying import ReplayStep

SIZE, TOKENS = 2, 3


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


class Queue:
    """verl's queue as far as replaying goes: rows by key, with all their fields."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}

    def kv_batch_get(self, keys: Sequence[str], partition_id: str) -> Any:
        return tensordict_utils.list_of_dict_to_tensordict([self.rows[key] for key in keys])

    def kv_batch_put(self, keys: Sequence[str], partition_id: str, fields: Any, tags: Sequence[Any]) -> None:
        assert len(keys) == len(tags)
        for row, key in enumerate(keys):
            values = {name: column[row] for name, column in fields.items()}
            self.rows[key] = {name: getattr(value, "data", value) for name, value in values.items()}

    def kv_clear(self, keys: Sequence[str], partition_id: str) -> None:
        for key in keys:
            del self.rows[key]


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    made = Queue()
    monkeypatch.setattr("trainer_adapter.verl.transfer.tq", made)
    return made


def drawn_step(
    queue: Queue, step: int, right: dict[str, list[int]], padding: int = 0
) -> tuple[KVBatchMeta, StepResponses]:
    """Return a step whose questions have these right and wrong responses, of one to three tokens."""
    rows, keys, correct, about, lengths = [], [], [], [], []
    for number, (question, of_it) in enumerate(right.items()):
        for session, value in enumerate(of_it):
            length = 1 + (session + number + step) % TOKENS
            keys.append(f"{step}-{number:09d}_{session}_0")
            rows.append(
                {
                    "responses": torch.arange(length) + 10 * number,
                    "old_log_probs": torch.full((length,), -float(step)),
                    "advantages": torch.full((length,), 2.0 * value - 1),
                    "extra_fields": {"question": question, "step": step},
                }
            )
            correct.append(value)
            about.append({"question_id": question})
            lengths.append(length)
    queue.rows |= dict(zip(keys, rows, strict=True))
    tags = [{"seq_len": length, "step": step} for length in lengths]
    keys += [f"pad{number}_0_0" for number in range(padding)]
    tags += [{"is_padding": True}] * padding
    mask_AT = (torch.arange(TOKENS) < torch.tensor([*lengths, *[0] * padding])[:, None]).long()
    nothing = torch.zeros(len(correct))
    responses = StepResponses(
        real_A=torch.tensor([True] * len(correct) + [False] * padding),
        mask_AT=mask_AT,
        about=tuple(about),
        graded=({},) * len(correct),
        question_B=nothing,
        scores_B=nothing,
        correct_B=torch.tensor(correct) > 0,
        unknown_B=nothing,
        truncated_B=nothing,
        tensors_BT={},
    )
    return KVBatchMeta(keys=keys, tags=tags, partition_id="train"), responses


def replay(
    replaying: ReplayStep,
    step: int,
    drawn: tuple[KVBatchMeta, StepResponses],
    weights_BT: torch.Tensor | None = None,
    shift: float = 0.0,
) -> tuple[Any, dict[str, float]]:
    """Replay with a policy that gives replayed tokens log-probs `shift` above those of their step."""
    return replaying.replay(
        *drawn,
        weights_BT,
        step=step,
        size=SIZE,
        log_probs=lambda rows: [row["old_log_probs"] + shift for row in rows],
    )


def new_memory() -> ReplayStep:
    return ReplayStep(steps=5, most=4, threshold=2.0)


def test_weights_of_engine_and_age_are_multiplied_each_once(queue: Queue) -> None:
    """The engine's weight belongs to the step that drew; that of this step's own responses stays."""
    replaying = new_memory()
    drawn = drawn_step(queue, 1, {"a": [1, 0]})
    replay(replaying, 1, drawn, 0.5 * drawn[1].mask_AT)
    drawn = drawn_step(queue, 3, {"b": [0, 0], "c": [1, 1]})
    replayed, metrics = replay(replaying, 3, drawn, 0.25 * drawn[1].mask_AT, shift=7.0)
    assert replayed is not None
    for key in replayed.batch.keys:
        expected = 0.5 * 2.0 if key.startswith("1-") else 0.25
        assert set(replayed.weights[key].tolist()) == {expected}
    assert metrics["tagrpo/replay/age"] == 2


def test_what_was_kept_goes_with_a_checkpoint_that_verl_has_removed(tmp_path: Path) -> None:
    """verl (0.9.1, `checkpoint_manager.py`) removes `actor` of an earlier step, and leaves the rest."""
    replaying = new_memory()
    for step in (1, 2, 3):
        replaying.save(tmp_path / f"global_step_{step}")
        (tmp_path / f"global_step_{step}" / "actor").mkdir()
    shutil.rmtree(tmp_path / "global_step_1" / "actor")
    replaying.save(tmp_path / "global_step_4")
    left = sorted(path.parent.name for path in tmp_path.glob("*/tagrpo_mixed_groups.pt"))
    assert left == ["global_step_2", "global_step_3", "global_step_4"]
