"""Grading by verl's reward workers between the two stages of a rescue."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

ROW = {
    "uid": "1-000000000",
    "raw_prompt": [{"role": "user", "content": "1+1"}],
    "reward_model": {"ground_truth": "2"},
    "neighbors": [[{"role": "user", "content": "Add 1 to 1."}]],
}
ANSWERS = ([4, 2], [5, 6, 2], [7, 2])


class RewardWorker:
    """Gives the first token as the reward; `broken` tokens raise."""

    def __init__(self, broken: tuple[int, ...] = ()) -> None:
        self.asked = 0

        async def graded(data: Any) -> dict[str, Any]:
            self.asked += 1
            tokens = data.batch["responses"][0].tolist()
            assert data.batch["attention_mask"].sum() == len(data.batch["prompts"][0]) + len(tokens)
            assert data.non_tensor_batch["reward_model"][0] == {"ground_truth": "2"}
            assert "neighbors" not in data.non_tensor_batch
            if tokens[0] in broken:
                raise ValueError(f"no reward for {tokens[0]}")
            return {"reward_score": float(tokens[0]), "reward_extra_info": {"acc": 1.0, "read": tokens}}

        self.compute_score = SimpleNamespace(remote=graded)


def graded_outputs(monkeypatch: pytest.MonkeyPatch, rewards: RewardWorker) -> tuple[list[Any], list[Any]]:
    """Return the responses after grading, and their errors."""
    pytest.importorskip("verl")
    from verl.experimental.agent_loop.agent_loop import AgentLoopOutput

    from trainer_adapter.verl.plugin import grading

    monkeypatch.setattr("ray.get_actor", {"reward_loop_worker_0": rewards}.__getitem__)
    outputs = [
        AgentLoopOutput(
            prompt_ids=[1, 8, 9][: 3 - session],
            response_ids=answer,
            response_mask=[1] * len(answer),
            num_turns=2,
            metrics={},
        )
        for session, answer in enumerate(ANSWERS)
    ]
    return outputs, asyncio.run(grading.grade_by_worker(outputs, ROW, 1))


def test_responses_of_different_lengths_are_graded(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs, errors = graded_outputs(monkeypatch, rewards := RewardWorker())
    assert rewards.asked == 3
    assert errors == [None, None, None]
    assert [output.reward_score for output in outputs] == [4.0, 5.0, 7.0]
    assert [output.extra_fields["reward_extra_info"]["read"] for output in outputs] == list(ANSWERS)


def test_a_response_that_cannot_be_graded_is_missing_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs, errors = graded_outputs(monkeypatch, rewards := RewardWorker(broken=(5,)))
    assert rewards.asked == 3
    assert [str(error) if error else None for error in errors] == [None, "no reward for 5", None]
    assert [output.reward_score for output in outputs] == [4.0, None, 7.0]
