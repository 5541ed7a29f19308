"""The agent loop worker that goes by the question: it stores what verl's own stores by the response."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
import torch

ROW = {
    "uid": "1-000000000",
    "raw_prompt": [{"role": "user", "content": "1+1"}],
    "data_source": "sums",
    "reward_model": {"ground_truth": "2"},
    "extra_info": {"question_id": "q"},
    "neighbors": [[{"role": "user", "content": "Add 1 to 1."}]],
    "neighbor_ids": ["c"],
    "neighbor_strategies": ["s"],
    "global_steps": 3,
    "index": 0,
    "agent_name": "known",
}
ANSWERS = {0: [4, 2], 1: [5, 6, 2], 2: [7, 2]}


class Queue:
    """Stands for verl's queue, and keeps what is put there."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        self.status: list[str] = []
        self.calls = 0

    async def async_kv_put(self, *, key: str, partition_id: str, tag: dict[str, Any]) -> None:
        assert partition_id == "train"
        self.status.append(tag["status"])

    async def async_kv_batch_put(
        self, *, keys: list[str], fields: Any, tags: list[dict[str, Any]], partition_id: str
    ) -> None:
        assert partition_id == "train"
        self.calls += 1
        for place, key in enumerate(keys):
            held = {name: getattr(value, "data", value) for name, value in fields[place].items()}
            self.rows[key] = ({n: fields[n][place] for n in held}, tags[place])


class RewardWorker:
    """Gives the first token as the reward; `broken` tokens raise, alone or among others."""

    def __init__(self, broken: tuple[int, ...] = ()) -> None:
        self.asked: list[int] = []

        def graded(data: Any) -> dict[str, Any]:
            width = data.batch["responses"].shape[-1]
            length = int(data.batch["attention_mask"][0, -width:].sum())
            first = int(data.batch["responses"][0, 0])
            assert data.non_tensor_batch["reward_model"][0] == {"ground_truth": "2"}
            if first in broken:
                raise ValueError(f"no reward for {first}")
            extra = {"acc": 1.0, "read": data.batch["responses"][0, :length].tolist()}
            return {"reward_score": float(first), "reward_extra_info": extra}

        async def one(data: Any) -> dict[str, Any]:
            self.asked.append(len(data))
            return graded(data)

        async def many(data: Any) -> list[dict[str, Any]]:
            self.asked.append(len(data))
            return [graded(data[row : row + 1]) for row in range(len(data))]

        self.compute_score = SimpleNamespace(remote=one)
        self.compute_score_batch = SimpleNamespace(remote=many)


class Loop:
    """An agent loop that answers by session, and fails where there is no answer."""

    async def run(self, params: dict[str, Any], **row: Any) -> Any:
        from verl.experimental.agent_loop.agent_loop import AgentLoopOutput

        answer = ANSWERS[row["session_id"]]
        return AgentLoopOutput(
            prompt_ids=[1, 8, 9][: 3 - row["session_id"]],
            response_ids=answer,
            response_mask=[1] * len(answer),
            response_logprobs=[-0.5] * len(answer),
            num_turns=2,
            metrics={},
            extra_fields={"min_global_steps": 2, "max_global_steps": 2},
        )


def make_worker(kind: Any, queue: Queue, rewards: Any, monkeypatch: Any) -> Any:
    """Return a worker of verl's or ours without its start, which loads a model's tokenizer."""
    for module in ("trainer_adapter.verl.transfer", "verl.trainer.ppo.v1.agent_loop_tq"):
        monkeypatch.setattr(f"{module}.tq", queue)
    worker = object.__new__(kind)
    worker.processor, worker.distillation_enabled, worker.mm_processor_kwargs = None, False, {}
    worker._by_verl, worker._loops = False, {"known": Loop()}
    worker.reward_loop_worker_handles = [rewards]
    worker.config = SimpleNamespace(
        actor_rollout_ref=SimpleNamespace(rollout=SimpleNamespace(n=3, val_kwargs=SimpleNamespace(n=1)))
    )
    return worker


def run_ours(monkeypatch: pytest.MonkeyPatch, rewards: RewardWorker) -> Queue:
    from trainer_adapter.verl.cpu import grouped_agent_loop

    queue = Queue()
    worker = make_worker(grouped_agent_loop.GroupedAgentLoopWorker, queue, rewards, monkeypatch)
    asyncio.run(worker._run_prompt(dict(ROW), {"temperature": 1.0}, {"validate": False}))
    return queue


def run_verls(monkeypatch: pytest.MonkeyPatch, rewards: RewardWorker) -> Queue:
    from trainer_adapter.verl.cpu.grouped_agent_loop import _Worker

    queue = Queue()
    worker = make_worker(_Worker, queue, rewards, monkeypatch)

    async def drawn() -> None:
        for session in range(3):
            row = {name: value for name, value in ROW.items() if name != "agent_name"}
            output = await Loop().run({}, session_id=session)
            await worker._agent_loop_postprocess(output, False, **row, session_id=session)

    asyncio.run(drawn())
    return queue


def test_rows_are_those_of_verl_without_what_the_loop_alone_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = run_ours(monkeypatch, rewards := RewardWorker())
    verls = run_verls(monkeypatch, RewardWorker())
    assert rewards.asked == [3]
    assert (ours.calls, verls.calls) == (1, 3)
    assert ours.status == ["running", "finished"]
    assert list(ours.rows) == list(verls.rows) == [f"1-000000000_{session}_0" for session in range(3)]
    for key, (expected, tag) in verls.rows.items():
        found, found_tag = ours.rows[key]
        assert found_tag == tag
        assert set(expected) - set(found) == {"neighbors", "neighbor_ids", "neighbor_strategies"}
        assert set(found) <= set(expected)
        for name, value in found.items():
            if isinstance(value, torch.Tensor):
                assert value.tolist() == expected[name].tolist(), name
                assert value.dtype == expected[name].dtype, name
            elif name not in ("metrics", "extra_fields"):
                assert getattr(value, "data", value) == getattr(expected[name], "data", expected[name]), name
    extra = getattr(ours.rows["1-000000000_1_0"][0]["extra_fields"], "data", None)
    extra = extra or ours.rows["1-000000000_1_0"][0]["extra_fields"]
    assert extra["reward_extra_info"]["read"] == [5, 6, 2]
    assert ours.rows["1-000000000_1_0"][0]["rm_scores"].tolist() == [0.0, 0.0, 5.0]


def test_a_response_that_cannot_be_graded_is_missing_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = run_ours(monkeypatch, rewards := RewardWorker(broken=(5,)))
    assert rewards.asked == [3, 1, 1, 1]
    assert list(queue.rows) == ["1-000000000_0_0", "1-000000000_2_0"]
    assert queue.status == ["running", "failure"]
