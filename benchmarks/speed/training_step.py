"""The time of a training step against verl's own GRPO at equal responses, on the CPU.

A random two-layer Qwen 2 trains on sums, three runs of ten steps one after the other: verl's own trainer, and
tagrpo's recipes `grpo` and `ta_grpo` with its record of rollouts. verl's trainer looks every two seconds for
finished responses, so tagrpo's does here too. Medians of steps 3 to 10 count.

    PYTHONPATH=tests/support python -m benchmarks.speed.training_step

The last line is one JSON object.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path

from benchmarks.harness import print_table, rounded
from trainer_adapter.methods.recipes import RECIPES, compose
from trainer_adapter.verl.plugin import REGISTRATION
from trainer_adapter.verl.plugin.overrides import hydra_arguments, recipe_overrides
from trainer_adapter.verl.plugin.settings import RunSettings

STEPS, SKIPPED, QUESTIONS, RESPONSES = 10, 2, 8, 12
PARTS = ("gen", "old_log_prob", "ref", "adv", "update_actor", "update_weights", "step")
ACTOR = "actor_rollout_ref.actor"
STOCK = [
    *(
        "algorithm.adv_estimator=grpo",
        "trainer.v1.trainer_mode=sync",
        f"{ACTOR}.loss_agg_mode=seq-mean-token-mean",
    ),
    *(f"actor_rollout_ref.rollout.n={RESPONSES}", "actor_rollout_ref.rollout.calculate_log_probs=true"),
    *(f"{ACTOR}.use_kl_loss=true", f"{ACTOR}.kl_loss_coef=0.001", f"{ACTOR}.kl_loss_type=low_var_kl"),
]


def main() -> None:
    """Print the report."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    from verl_proof import save_place
    from verl_run import run_main_ppo

    medians = {}
    with tempfile.TemporaryDirectory() as place:
        save_place(Path(place))
        for name in ("verl", "grpo", "ta_grpo"):
            folder = Path(place, name)
            folder.mkdir()
            overrides = [*common(Path(place)), *(STOCK if name == "verl" else of_recipe(name, folder))]
            ended = run_main_ppo(overrides, folder=folder, limit_s=900, modules=[REGISTRATION])
            if ended.returncode != 0:
                raise SystemExit(ended.output[-4000:])
            steps = ended.steps[SKIPPED:]
            medians[name] = {
                part: statistics.median(step[f"timing_s/{part}"] for step in steps) for part in PARTS
            }
    ratios = {
        name: {part: seconds / medians["verl"][part] for part, seconds in parts.items()}
        for name, parts in medians.items()
    }
    print_table("Seconds", [{"trainer": name, **parts} for name, parts in medians.items()])
    print_table("Against verl's own", [{"trainer": name, **parts} for name, parts in ratios.items()])
    print(json.dumps(rounded({"seconds": medians, "ratios": ratios})))


def common(place: Path) -> list[str]:
    """Return what the three runs share."""
    rows = place / "set" / "train.parquet"
    return [
        *(f"data.train_files={rows}", f"data.val_files={rows}", f"data.train_batch_size={QUESTIONS}"),
        *("data.max_prompt_length=96", "data.max_response_length=48", "data.seed=1"),
        *(f"actor_rollout_ref.model.path={place / 'model'}", f"{ACTOR}.ppo_mini_batch_size={QUESTIONS // 2}"),
        *(f"{ACTOR}.optim.lr=1e-4", "reward.custom_reward_function.path=pkg://trainer_adapter.verl.reward"),
        *("reward.custom_reward_function.name=compute_score", f"trainer.total_training_steps={STEPS}"),
        *("trainer.experiment_name=step", "trainer.val_before_train=false", "trainer.save_freq=-1"),
        *("trainer.resume_mode=disable", "trainer.total_epochs=100"),
    ]


def of_recipe(name: str, folder: Path) -> list[str]:
    """Return the overrides of a recipe with `RESPONSES` responses a question, neighbors' included."""
    neighbors = 2 if RECIPES[name].neighbors else 0
    recipe = compose(RECIPES[name], {"neighbors": neighbors, "responses": RESPONSES // (neighbors + 1)})
    settings = RunSettings(engine_correction="none", poll_interval_s=2.0, record=str(folder / "record"))
    return hydra_arguments(recipe_overrides(recipe, settings))


if __name__ == "__main__":
    main()
