"""From an exported set to a trained policy: verl itself, unchanged, on the CPU, with a tiny random model."""

import math
from pathlib import Path

import pytest
from verl_run import run_main_ppo

from rephraser.sets.types import Neighbor, SetEntry
from service.questions import make_question
from trainer_adapter.verl.export import export_verl
from trainer_adapter.verl.export_rows import Layout
from trainer_adapter.verl.prompts import PromptTemplate

REWARD = Path(__file__).parents[1] / "support" / "digit_reward.py"
LIMIT_S = 500


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tiny_model import save_tiny_model

    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


def export(folder: Path, layout: Layout, model: Path) -> tuple[Path, ...]:
    """Export twelve sums with two neighbors each; two of the sums become the validation file."""

    def neighbor(name: str, text: str) -> Neighbor:
        return Neighbor(name, text, "rules", "rules", "h", "", "unverified", None, False)

    entries = tuple(
        SetEntry(
            make_question(f"What is {a}+{b}?", str(a + b)),
            (
                neighbor(f"c_{a}{b}0", f"Add {a} to {b}."),
                neighbor(f"c_{a}{b}1", f"Find the sum of {a} and {b}."),
            ),
        )
        for a in range(4)
        for b in range(3)
    )
    template = PromptTemplate(instruction="Box it.", tokenizer=str(model), max_prompt_tokens=96)
    return export_verl(
        entries,
        folder,
        layout=layout,
        template=template,
        data_source="sums",
        set_ref="sums@1",
        content_hash="0",
        validation_share=0.2,
    ).files


def test_stock_verl_trains_two_steps_on_a_flat_export(tmp_path: Path, model: Path) -> None:
    train, validation = export(tmp_path / "set", "flat", model)
    run = run_main_ppo(
        [
            f"data.train_files={train}",
            f"data.val_files={validation}",
            "data.train_batch_size=4",
            "data.max_prompt_length=96",
            "data.max_response_length=16",
            f"actor_rollout_ref.model.path={model}",
            "actor_rollout_ref.actor.ppo_mini_batch_size=4",
            "actor_rollout_ref.actor.optim.lr=1e-3",
            "actor_rollout_ref.actor.use_kl_loss=true",
            "actor_rollout_ref.rollout.n=4",
            "actor_rollout_ref.rollout.calculate_log_probs=true",
            "algorithm.adv_estimator=grpo",
            f"reward.custom_reward_function.path={REWARD}",
            "trainer.total_training_steps=2",
            "trainer.val_before_train=false",
            "trainer.test_freq=2",
            "trainer.save_freq=-1",
            "trainer.resume_mode=disable",
        ],
        folder=tmp_path,
        limit_s=LIMIT_S,
    )
    assert run.returncode == 0, run.output[-8000:]
    assert [step["training/global_step"] for step in run.steps] == [1, 2]
    for step in run.steps:
        assert math.isfinite(step["actor/pg_loss"])
        assert math.isfinite(step["actor/kl_loss"])
        assert step["actor/grad_norm"] > 0
        # The rollout draws from the very weights that are trained, in the second step too.
        assert step["training/rollout_probs_diff_max"] < 1e-5
    assert run.steps[0]["actor/kl_loss"] < run.steps[1]["actor/kl_loss"]
    assert "val-core/sums/acc/mean@1" in run.steps[1]
