"""`tagrpo train run` with verl itself, on the CPU, from a published set to a checkpoint and on from there."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from runs import Proposed, add_run

from evaluator.database import Database
from evaluator.runs.store import find_run
from rephraser.sets import publish

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(560),
    pytest.mark.skipif(
        importlib.util.find_spec("verl") is None, reason="needs verl: pip install 'tagrpo[train]'"
    ),
]
LIMIT_S = 500


def test_a_set_becomes_a_checkpoint(tmp_path: Path) -> None:
    from tiny_model import save_tiny_model

    model = save_tiny_model(tmp_path / "tiny")
    asked = [
        (f"What is {a}+{a}?", str(2 * a), [Proposed(f"Add {a} to {a}."), Proposed(f"Double {a}.")])
        for a in range(1, 7)
    ]
    with Database.open(tmp_path / "tagrpo.db") as database:
        add_run(database, "source", asked)
        publish(database, "sums", run="source")
    done = run(
        tmp_path,
        *("train", "run", "ta_grpo", "--set", "sums", "--validation-share", "0.3", "--model", model.name),
        *("--cpu", "--name", "first", "--quiet", "--json", "neighbors=2", "responses=2"),
        *("data.max_prompt_length=192", "data.max_response_length=8", "data.train_batch_size=2"),
        *("actor_rollout_ref.actor.ppo_mini_batch_size=2", "actor_rollout_ref.rollout.val_kwargs.n=1"),
        *("trainer.total_training_steps=2", "trainer.save_freq=2", "trainer.val_before_train=false"),
        *("trainer.test_freq=2", "tagrpo_run.poll_interval_s=0.1"),
    )
    folder = tmp_path / "runs" / "first"
    log = (folder / "logs" / "1.log").read_text() if folder.exists() else ""
    assert done.returncode == 0, f"{done.stderr[-3000:]}\n{log[-6000:]}"
    ended: dict[str, Any] = json.loads(done.stdout)
    assert (ended["finished"], ended["step"], ended["checkpoint"]) == (True, 2, 2)
    assert (folder / "checkpoints" / "global_step_2" / "actor" / "model_world_size_1_rank_0.pt").is_file()

    metrics = [json.loads(line) for line in (folder / "metrics" / "1.jsonl").read_text().splitlines()]
    by_step = {each["step"]: each["data"] for each in metrics}
    assert {1, 2} <= set(by_step)
    assert any(name.startswith("val-core/") for name in by_step[2])
    config = json.loads((folder / "config.json").read_text())
    with Database.open(tmp_path / "tagrpo.db") as database, database.read() as session:
        kept = find_run(session, "first")
    assert (kept.kind, kept.spec, kept.finished_at is None) == ("train", config["spec"], False)

    # The record is that of the same run: an import finds it instead of making another.
    imported = run(tmp_path, "rollouts", "import", "runs/first/rollouts", "--json")
    assert imported.returncode == 0, imported.stderr
    with Database.open(tmp_path / "tagrpo.db") as database, database.read() as session:
        assert find_run(session, "first").id == kept.id

    assert not [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if any(str(folder) in word for word in process.info["cmdline"] or ())
    ]


def run(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("VERL_", "RAY_"))
    }
    return subprocess.run(
        [sys.executable, "-c", "from ui.cli.app import main; main()", *words],
        cwd=place,
        env={**environment, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
