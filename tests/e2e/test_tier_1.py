"""Training with verl's own trainers: nothing of tagrpo's but what verl has registered."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from verl_proof import QUESTIONS, ROLLOUTS, start
from verl_run import VerlRun

from trainer_adapter.record.files import step_path, texts_path

V0 = ("trainer.use_v1=false", "actor_rollout_ref.rollout.agent.agent_loop_manager_class=null")


def train(place: Path, name: str, *overrides: str) -> VerlRun:
    """Train two steps of TA-GRPO; verl writes the rows that it trains on into `place/name/rows`."""
    return start(
        place,
        name,
        ["ta_grpo", "ta_grpo"],
        "reward.custom_reward_function.path=pkg://trainer_adapter.verl.reward",
        "+reward.custom_reward_function.reward_kwargs.grader=parity_grader:grade",
        f"trainer.rollout_data_dir={place / name / 'rows'}",
        *overrides,
        trainer="verl",
    )


def read_record(folder: Path, step: int) -> list[dict[str, Any]]:
    headers, texts = (pq.read_table(path(folder, step)) for path in (step_path, texts_path))
    rows: list[dict[str, Any]] = headers.to_pylist()
    return [{**row, **text} for row, text in zip(rows, texts.to_pylist(), strict=True)]


@pytest.mark.parametrize(("name", "overrides"), [("v1", ()), ("v0", V0)])
def test_verls_own_trainers_anchor_neighbors(place, name, overrides):
    run = train(place, name, *overrides)
    assert run.returncode == 0, run.output[-8000:]
    assert all(step["actor/grad_norm"] > 0 for step in run.steps)
    assert len(run.steps) == 2
    for step in (1, 2):
        rows = read_record(place / name / "record", step)
        assert len(rows) == QUESTIONS * ROLLOUTS
        for group in range(QUESTIONS):
            of_group = [row for row in rows if row["group"] == group]
            variants = Counter(row["variant"] for row in of_group)
            assert variants in ({0: 2, 1: 2, 2: 2}, {0: 3, 1: 3}, {0: 6})
            rewards = [row["reward"] for row in of_group]
            assert set(rewards) <= {0.0, 1.0}
            assert sum(row["advantage"] for row in of_group) == pytest.approx(0, abs=1e-5)
            assert all((row["advantage"] > 0) == (row["reward"] > sum(rewards) / 6) for row in of_group)
        assert {row["sampling_log_prob"] < 0 for row in rows} == {True}
        lines = (place / name / "rows" / f"{step}.jsonl").read_text(encoding="utf-8").splitlines()
        trained = [json.loads(line) for line in lines]
        assert all("What is" in row["input"] for row in trained)
        asked = {row["prompt"] for row in rows if row["variant"] > 0}
        assert asked
        assert not asked & {row["input"] for row in trained}
    assert not list((place / name / "record").glob("responses-being-graded/*/*"))
