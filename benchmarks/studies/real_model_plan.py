"""The plan of the study of a real model as values: recipes, sizes, seeds, rows.

`real_model.md` says the same in words; it was written before the runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESPONSES = 8
RANDOM_REWARD = Path(__file__).with_name("random_reward.py")
POOL, GSM8K = 256, 500
PILOT_SEED = 901
PILOT_LAST = 5
"""Steps at the end of a pilot's training whose reward counts."""
TRAINING = "training"
REPLICATES = 9
ACTOR = "actor_rollout_ref.actor"


@dataclass(frozen=True)
class Compared:
    """A recipe of the study.

    Attributes:
        recipe: the recipe's name in tagrpo.
        changes: overrides after the name.
        saves: checkpoints per point of evaluation; several where a step draws more than others do.
    """

    recipe: str
    changes: tuple[str, ...] = ()
    saves: int = 1


BASE, BASELINE = "base", "grpo"
ABOUT = ("recipe", "rate", "seed", "step", "responses", "seconds")
RECIPES = {
    BASELINE: Compared("grpo"),
    "ta_rescue": Compared("ta_rescue"),
    "ta_grpo_2": Compared("ta_grpo", ("responses=2",)),
    "grpo_random": Compared("grpo", (f"verl.reward.custom_reward_function.path={RANDOM_REWARD}",)),
    "grpo_ds": Compared("grpo_ds", saves=5),
}


@dataclass(frozen=True)
class Size:
    """How large a study is, and on which machine.

    Attributes:
        points: steps after which to evaluate.
        questions: of a step.
        rates: the pilot's.
        pilot_steps: steps of each of the pilot's trainings.
        samples: responses per problem in an evaluation.
        training: options and overrides of `train run`.
        sampling: options of `eval run`.
        solver: options of `rephrase run`.
        export: options of `sets export`.
        needs: seconds that a stage takes at least; it does not start with less.
        evaluation_s: seconds kept free for the evaluation after a training.
    """

    model: str
    points: tuple[int, ...]
    questions: int
    rates: tuple[float, ...]
    pilot_steps: int
    samples: int
    training: tuple[str, ...]
    sampling: tuple[str, ...]
    solver: tuple[str, ...]
    export: tuple[str, ...]
    needs: Mapping[str, float]
    evaluation_s: float


_LONGEST = 768
REAL = Size(
    model="Qwen2.5-Coder-0.5B-Instruct (Q4_K_M)",
    points=(20, 40),
    questions=16,
    rates=(1e-6, 3e-6, 1e-5),
    pilot_steps=12,
    samples=8,
    training=(
        *("--gpus", "1"),
        f"verl.data.max_response_length={_LONGEST}",
        f"verl.{ACTOR}.ppo_max_token_len_per_gpu=4096",  # logits of 151,936 words: 2.5 GB
        "verl.actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu=4096",
        "verl.actor_rollout_ref.rollout.gpu_memory_utilization=0.12",
        "verl.actor_rollout_ref.rollout.agent.num_workers=1",
        "verl.reward.num_workers=1",
    ),
    sampling=(
        *("sampler=vllm", "gpu_memory_utilization=0.15", "max_model_len=2048"),
        *(f"max_tokens={_LONGEST}", "max_concurrency=128"),
    ),
    solver=(
        *("solver.sampler=vllm", "solver.gpu_memory_utilization=0.6"),
        *("solver.max_model_len=2048", f"solver.max_tokens={_LONGEST}"),
        *("solver.max_concurrency=128", "solver.samples_per_request=8"),
    ),
    export=("--max-prompt-tokens", "512"),
    needs={"set": 200, "pilot": 330, "pair": 480},
    evaluation_s=220,
)
_TINY_TOKENS = "40"
TINY = Size(
    model="sandbox",
    points=(1, 2),
    questions=4,
    rates=(3e-4,),
    pilot_steps=1,
    samples=8,
    training=(
        "--cpu",
        f"verl.data.max_response_length={_TINY_TOKENS}",
        f"verl.{ACTOR}.ppo_max_token_len_per_gpu=8192",
        "run.poll_interval_s=0.1",
    ),
    sampling=(
        *("dtype=float32", "--preset", "plain", "temperature=1", "top_p=1"),
        *(f"max_tokens={_TINY_TOKENS}", "batch_size=256"),
    ),
    solver=(
        *("solver.dtype=float32", "solver.preset=plain", "solver.temperature=1"),
        *("solver.top_p=1", f"solver.max_tokens={_TINY_TOKENS}", "solver.batch_size=256"),
    ),
    export=("--instruction", "", "--max-prompt-tokens", "64"),
    needs={"set": 10, "pilot": 60, "pair": 60},
    evaluation_s=30,
)

Row = dict[str, Any]


def pairs() -> Iterator[tuple[int, tuple[str, str]]]:
    """Yield the seed and the two recipes of each pair, in the order of the plan."""
    others = [name for name in RECIPES if name != BASELINE]
    for replicate in range(1, REPLICATES + 1):
        for place, other in enumerate(others):
            yield 10 * replicate + place, (BASELINE, other)


def best_rate(rows: Sequence[Row]) -> float:
    """Return the pilot's rate with the highest reward over the last steps; `rows` are its trainings'."""
    shares = {}
    for rate in {row["rate"] for row in rows}:
        last = sorted((row for row in rows if row["rate"] == rate), key=lambda row: row["step"])[-PILOT_LAST:]
        shares[rate] = sum(row["correct"] for row in last) / sum(row["drawn"] for row in last)
    return float(max(sorted(shares), key=lambda rate: shares[rate]))
