"""What a user may change behind a recipe's name, and what is refused with the way out."""

import re
from pathlib import Path

import pytest
from training_configs import composed

from service.errors import InputError
from trainer_adapter.methods.recipes import RECIPES
from trainer_adapter.runs.assignments import Override
from trainer_adapter.runs.checking import compose_with_hydra

ACTOR = "actor_rollout_ref.actor"
pytestmark = pytest.mark.usefixtures("quick_hydra")


def test_axes_and_settings_of_the_plug_in_are_changed_in_passing():
    made = composed("ta_grpo", "loss.kl_coef=0", "anchor=own", "run.seed=7", "run.kl_on=question")
    assert made.recipe.name == "ta_grpo[anchor=own,loss.kl_coef=0]"
    assert made.recipe.anchor == "own"
    assert made.recipe.loss.kl_coef == 0.0
    assert (made.settings.seed, made.settings.kl_on) == (7, "question")
    assert composed("dapo").recipe is RECIPES["dapo"]
    assert composed("grpo", "title=mine", "responses=4").recipe.name == "mine"
    # a choice may be called none; elsewhere `none` leaves the axis to the recipe
    changed = composed("cw_grpo", "weights=none", "loss.dual_clip=none", "responses=none").recipe
    assert (changed.weights, changed.loss.dual_clip, changed.responses) == ("none", None, 8)
    # `reward` alone is the axis; behind `verl.` it is verl's, and of two with one key the last counts
    both = composed("grpo", "reward=overlong", "verl.reward.num_workers=2", "verl.+reward.num_workers=3")
    assert both.recipe.reward == "overlong"
    assert [each.text for each in both.values if isinstance(each, Override)] == ["+reward.num_workers=3"]


NO_NUMBERS = (
    "trainer.total_training_steps=0",
    "trainer.total_training_steps=nan",
    "trainer.total_epochs=null",
    "data.train_batch_size=true",
    "data.train_batch_size=${x.y}",
    f"{ACTOR}.optim.lr=inf",
    f"{ACTOR}.optim.lr=1e-5x",
    "actor_rollout_ref.rollout.temperature=0",
    f"{ACTOR}.ppo_max_token_len_per_gpu=0",
    "actor_rollout_ref.rollout.gpu_memory_utilization=abc",
)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("verl.=3", "is not an override"),
        ("advantage=mine", "advantage 'mine' is not a known formula"),
        ("group=prompt filter=dynamic", "use the flat export"),
        ("run.seed=1700000000000000000", r"at least 0 and less than 4,294,967,296"),
        ("run.engine_threshold=inf", r"inf; give a number, more than 0"),
        ("advantage=a_grae alpha=nan", "alpha must be a number above 0"),
        ("loss.clip_low=nan", "clip_low must be between 0 and 1"),
        ("loss.clip_high=inf", "clip_low must be between 0 and 1"),
        ("loss.dual_clip=nan", "dual_clip must be above 1"),
        ("verl.+tagrpo_recipe={}", "set an axis"),
        (f"{ACTOR}.clip_ratio_high=0.3", "recipe ta_grpo sets this. Change an axis"),
        ("actor_rollout_ref.rollout.n=8", "recipe ta_grpo sets this"),
        ("data.train_files=x", "--data"),
        ("actor_rollout_ref.model.path=x", "--model"),
        ("trainer.resume_mode=auto", "tagrpo resume"),
        ("+data.apply_chat_template_kwargs.enable_thinking=true", "export with chat_template_kwargs"),
        # blocks that hold such keys
        ("actor_rollout_ref.model={path:other}", r"this block contains actor_rollout_ref\.model\.path"),
        ("~algorithm.rollout_correction", r"set run\.engine_correction and run\.engine_threshold"),
        (f"{ACTOR}={{clip_ratio_high:0.5}}", f"this block contains {ACTOR}"),
        ("+reward.custom_reward_function.reward_kwargs={workers:2}", r"this block contains reward"),
        # what verl has and the plug-in does in another way
        (f"{ACTOR}.clip_ratio_c=5", r"set loss\.dual_clip"),
        (f"{ACTOR}.loss_scale_factor=1024", r"divided by data\.max_response_length"),
        ("algorithm.norm_adv_by_std_in_grpo=false", "set advantage=dr_grpo"),
        ("algorithm.filter_groups.max_num_gen_batches=5", r"set run\.max_gen_batches"),
        ("+trainer.v1.sampler.custom_sampler.path=/x.py", "the recipe's filter selects"),
        ("+trainer.v1.sync.parameter_sync_step=2", "policy, in one batch"),
        ("distillation.enabled=true", "recipe supports a teacher"),
        ("actor_rollout_ref.rollout.multi_turn.enable=true", "single-turn"),
        (f"{ACTOR}.shuffle=true", "recipe ta_grpo sets this"),
        ("algorithm.gamma=0.99", "without a discount"),
        ("trainer.critic_warmup=5", "recipe ta_grpo sets this"),
        ("actor_rollout_ref.model.lora_adapter_path=/mine", "no adapter if lora_rank is 0"),
        ("reward.reward_model.enable=true", "Set your own function with"),
        *((text, re.escape(f"{text}: give a number above 0")) for text in NO_NUMBERS),
    ],
)
def test_changes_that_cannot_be_are_refused_with_the_way_out(texts, message):
    with pytest.raises(InputError, match=message):
        composed("ta_grpo", *texts.split())


def test_a_key_that_verl_does_not_have_is_refused_before_the_start():
    with pytest.raises(InputError, match=r"Could not override 'trainer.saev_freq'\.$"):
        compose_with_hydra(composed("grpo", "trainer.saev_freq=5"), Path("/runs/x"))
