"""Training with differing numbers of neighbors: an adaptive set, verl itself on the CPU, one step."""

import importlib.util
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'tagrpo[train]'")
from runs import Asked, Proposed, add_run
from tiny_model import save_tiny_model
from training_runs import run

from rephraser.sets import Adaptive, load_set, publish
from service.database import Database
from trainer_adapter.record.reading import read_rollouts

LIMIT_S = 900
RIGHT = {0: 0, 1: 1, 2: 30, 3: 12, 4: 16}
"""Of 32 answers to 0+7, 1+6, ...: the first three seldom give a mixed group, the others do."""
NEIGHBORS = {0: 2, 1: 1, 2: 2, 3: 2, 4: 2}


def publish_adaptive(place: Path) -> dict[str, int]:
    """Publish the set `sums@1` and return the number of neighbors by question."""
    asked: list[Asked] = [
        (
            f"What is {a}+{7 - a}?",
            "7",
            [
                Proposed(text, right=(RIGHT[a], 6))
                for text in (f"Add {a} to {7 - a}.", f"Sum up {a} and {7 - a}.")[: NEIGHBORS[a]]
            ],
        )
        for a in RIGHT
    ]
    with Database.open(place / "tagrpo.db") as database:
        add_run(database, "source", asked)
        publish(database, "sums", run="source", adaptive=Adaptive(g=2, unmixed=0.8))
        with database.read() as session:
            entries = load_set(session, "sums").entries
    return {entry.question.id: len(entry.neighbors) for entry in entries}


@pytest.mark.e2e
@pytest.mark.timeout(LIMIT_S + 60)
@pytest.mark.skipif(
    importlib.util.find_spec("verl") is None, reason="needs verl: pip install 'tagrpo[train]'"
)
def test_a_step_draws_as_many_for_each_question_over_the_prompts_it_has(tmp_path: Path) -> None:
    save_tiny_model(tmp_path / "tiny")
    held = publish_adaptive(tmp_path)
    assert list(held.values()) == [2, 1, 2, 0, 0]

    done = run(
        tmp_path,
        *("train", "run", "ta_grpo", "--set", "sums", "--model", "tiny", "--cpu", "--name", "adaptive"),
        *("--quiet", "--json", "neighbors=2", "responses=2", "data.train_batch_size=5"),
        *("actor_rollout_ref.actor.ppo_mini_batch_size=5", "data.max_prompt_length=192"),
        *("data.max_response_length=4", "trainer.total_training_steps=1", "trainer.total_epochs=1"),
        *("trainer.save_freq=-1", "trainer.val_before_train=false", "tagrpo_run.poll_interval_s=0.1"),
        limit_s=LIMIT_S,
    )

    folder = tmp_path / "runs" / "adaptive"
    logs = sorted((folder / "logs").glob("*.log"))
    assert done.returncode == 0, done.stderr[-3000:] + (
        logs[-1].read_text(errors="replace")[-6000:] if logs else ""
    )
    variants: dict[str, Counter[int]] = defaultdict(Counter)
    groups: dict[str, set[Any]] = defaultdict(set)
    for one in read_rollouts(folder / "rollouts"):
        variants[one.question_id][one.variant] += 1
        groups[one.question_id].add(one.group)
    wanted = {0: {0: 6}, 1: {0: 3, 1: 3}, 2: {0: 2, 1: 2, 2: 2}}
    assert {key: dict(found) for key, found in variants.items()} == {
        key: wanted[size] for key, size in held.items()
    }
    assert all(len(found) == 1 for found in groups.values())
    (line,) = (folder / "metrics" / "1.jsonl").read_text().splitlines()
    assert json.loads(line)["data"]["tagrpo/groups/short"] == 0
