"""Trainings on verl's own agent-loop worker and vLLM server, in vLLM's build for CPUs."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from runs import Proposed, add_run
from tiny_model import save_tiny_model
from training_runs import ROOT, start
from vllm_runs import METADATA, SETTINGS

from rephraser.sets.publish import publish
from service.database import Database
from trainer_adapter.record.rollout import RolloutRecord

DEAD = 3
"""Questions of the set whose every answer is wrong; the others fill one batch and no second."""
QUESTIONS, NEIGHBORS, RESPONSES = 4, 2, 4
"""Of a step; responses to each of a question's prompts."""

LIMIT_S = 1200
ENVIRONMENT = {
    **SETTINGS,
    "PYTHONPATH": os.pathsep.join((METADATA, str(ROOT))),
    "VERL_USE_EXTERNAL_MODULES": "vllm_cpu_weights",
}
REWARD = ROOT / "tests" / "support" / "parity_reward.py"
ROLLOUT = {
    "name": "vllm",
    "agent.agent_loop_manager_class": "null",
    "dtype": "float32",
    "enforce_eager": "true",
    "free_cache_engine": "false",
    "max_model_len": 256,
    "enable_chunked_prefill": "false",
    "max_num_batched_tokens": 4096,
    "max_num_seqs": 64,
    "checkpoint_engine.update_weights_bucket_megabytes": 16,
}


def save_place(folder: Path) -> Path:
    """Save the model `tiny`; publish `sums@1`: sums with two neighbors each, `DEAD` of them always wrong."""
    save_tiny_model(folder / "tiny", heads=2, spread=0.1)
    asked = []
    for number in range(2 * QUESTIONS):
        a, b = number, 1 - number if number < DEAD else 7
        neighbors = [Proposed(f"Add {a} to {b}."), Proposed(f"Sum up {a} and {b}, please.")]
        asked.append((f"What is {a}+{b}?", str(a + b), neighbors))
    with Database.open(folder / "tagrpo.db") as database:
        add_run(database, "source", asked)
        publish(database, "sums", run="source")
    return folder


SUMS = (
    *(
        "--set",
        "sums",
        f"neighbors={NEIGHBORS}",
        f"responses={RESPONSES}",
        "verl.data.max_response_length=16",
    ),
    *("verl.actor_rollout_ref.actor.optim.lr=1e-2", f"verl.reward.custom_reward_function.path={REWARD}"),
)
"""Data, groups and reward of trainings on the published sums."""


def train_words(name: str, recipe: Sequence[str], model: Path, steps: int, *more: str) -> tuple[str, ...]:
    """Return the command that trains `steps` steps and saves each."""
    rollout = [f"verl.actor_rollout_ref.rollout.{key}={value}" for key, value in ROLLOUT.items()]
    return (
        *("train", "run", recipe[0], "--model", str(model), "--cpu", "--name", name),
        *("--hide-log", "--json", *recipe[1:], "verl.data.max_prompt_length=192"),
        *(
            f"verl.data.train_batch_size={QUESTIONS}",
            f"verl.actor_rollout_ref.actor.ppo_mini_batch_size={QUESTIONS}",
        ),
        *rollout,
        "verl.+actor_rollout_ref.rollout.enable_sleep_mode=false",
        *(
            f"verl.trainer.total_training_steps={steps}",
            "verl.trainer.save_freq=1",
            "verl.trainer.test_freq=-1",
        ),
        *("run.poll_interval_s=0.1", *more),
    )


def train(place: Path, name: str, *words: str) -> Path:
    """Run the command to a good end; return the folder of its run."""
    folder = place / "runs" / name
    process = start(place, *words, **ENVIRONMENT)
    _, errors = process.communicate(timeout=LIMIT_S)
    logs = sorted((folder / "logs").glob("*.log"))
    log = logs[-1].read_text(errors="replace")[-6000:] if logs else ""
    assert process.returncode == 0, f"{errors[-3000:]}\n{log}"
    return folder


def gaps(rollouts: Iterable[RolloutRecord], *, own: bool) -> list[float]:
    """Return |old - sampling| log-prob of each response to questions themselves, or to neighbors."""
    pairs = [(each.old_log_prob, each.sampling_log_prob) for each in rollouts if (each.variant == 0) == own]
    return [abs(old - sampling) for old, sampling in pairs if old is not None and sampling is not None]
