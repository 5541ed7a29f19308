"""Presets: the settings of a paper for any recipe, and what wins over them."""

from pathlib import Path
from typing import Any

import pytest
from training_configs import assign

from service.errors import InputError
from trainer_adapter.methods.recipes import RECIPES, Recipe, compose
from trainer_adapter.plans.compute import Speed, plan_compute
from trainer_adapter.runs.checking import compose_with_hydra
from trainer_adapter.runs.composing import Composition, Machine, compose_run
from trainer_adapter.runs.model_sizes import known_model
from trainer_adapter.runs.presets import PRESETS
from trainer_adapter.runs.settings import SOURCES
from trainer_adapter.verl.prompts import DEFAULT_INSTRUCTION, read_words

ACTOR = "actor_rollout_ref.actor"
pytestmark = pytest.mark.usefixtures("quick_hydra")
FOCUSED = ("hard_focused", "easy_focused")


def composed(preset: str, recipe: str, *texts: str, **changes: Any) -> Composition:
    chosen = PRESETS[preset]
    changed = assign(RECIPES[recipe], texts, preset=chosen)
    return compose_run(changed.recipe, Machine(8), overrides=changed.overrides, preset=chosen, **changes)


# Table 2 of arXiv 2601.22478; Sections 4.1 and C.2 of arXiv 2602.05548; Table 5 of arXiv 2605.11538.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "recipe", "batch", "update", "response", "temperature", "responses", "kl"),
    [
        ("ta", "grpo", 256, 128, 3072, 1.0, 8, 0.001),
        ("a_grae", "a_grae", 1024, 256, 2048, 1.0, 8, 0.0),
        ("a_grae-geo3k", "a_grae", 512, 128, 2048, 1.0, 5, 0.0),
        ("a_grae-medical", "a_grae", 32, 8, 2048, 1.0, 5, 0.0),
        ("cw", "cw_grpo", 12, 12, 4096, 0.7, 12, 0.04),
    ],
)
def test_verl_is_told_the_settings_of_the_paper(
    preset: str,
    recipe: str,
    batch: int,
    update: int,
    response: int,
    temperature: float,
    responses: int,
    kl: float,
) -> None:
    config = compose_with_hydra(composed(preset, recipe), Path("/runs/x"))
    actor, rollout = config["actor_rollout_ref"]["actor"], config["actor_rollout_ref"]["rollout"]
    assert config["data"]["train_batch_size"] == batch
    assert actor["ppo_mini_batch_size"] == update
    assert config["data"]["max_response_length"] == response
    assert (rollout["temperature"], rollout["n"]) == (temperature, responses)
    assert (actor["kl_loss_coef"], actor["use_kl_loss"]) == (kl, kl > 0)
    assert actor["optim"]["lr"] == 1e-6


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_names_sources_models_that_plans_know_and_where_its_words_stand(name: str) -> None:
    preset = PRESETS[name]
    assert {setting.source for setting in preset.settings} <= set(SOURCES)
    assert all(known_model(model) is not None for model in preset.models)
    assert "Appendix" in preset.prompt_words
    template = preset.prompt()
    assert "\\boxed" in template.messages("1+1=?")[0]["content"]
    assert [each["role"] for each in template.messages("1+1=?")] == (
        ["user"] if preset.system is None else ["system", "user"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_goes_with_every_preset_or_says_what_else_to_say(name: str, recipe: str) -> None:
    preset, advantage = PRESETS[name], RECIPES[recipe].advantage
    of_success = advantage in (*("w_reinforce", "max_rl", "pass_k"), *FOCUSED)
    of_success |= "a_grae" in advantage and preset.reward == "accuracy_format"
    changes = {}
    if preset.reward is not None and of_success:
        told = rf"--preset {name} sets responses=.* as reward=binary"
        with pytest.raises(InputError, match=told):
            preset.applied(RECIPES[recipe])
        changes = {"reward": "binary"}
    made = preset.applied(RECIPES[recipe], changes)
    assert made.responses == RECIPES[recipe].responses * preset.responses // 8
    assert made.name == recipe


def test_what_a_user_says_wins() -> None:
    changed = composed("cw", "ta_cw_grpo", "responses=4", "reward=binary", "loss.kl_coef=0")
    assert (changed.recipe.responses, changed.recipe.reward, changed.recipe.loss.kl_coef) == (4, "binary", 0)
    assert changed.recipe.name == "ta_cw_grpo[responses=4,reward=binary,loss.kl_coef=0]"
    told = composed("cw", "cw_grpo", "data.train_batch_size=24", "actor_rollout_ref.actor.optim.lr=2e-6")
    assert told.value("data.train_batch_size") == 24
    assert told.value(f"{ACTOR}.optim.lr") == 2e-6
    assert told.value(f"{ACTOR}.ppo_mini_batch_size") == 12
    assert "actor_rollout_ref.actor.optim.lr=1e-06" not in " ".join(told.arguments())


def test_epochs_that_a_user_names_win_over_the_steps_of_a_preset() -> None:
    assert composed("cw", "cw_grpo").count_steps(7000) == 100
    assert composed("cw", "cw_grpo").count_steps(12) == 100
    assert composed("cw", "cw_grpo", "trainer.total_epochs=1").count_steps(7000) == 583
    assert composed("cw", "cw_grpo", "trainer.total_training_steps=5").count_steps(7000) == 5


def test_a_recipe_of_a_file_keeps_its_axes() -> None:
    mine = compose(RECIPES["cw_grpo"], {"name": "mine"})
    assert PRESETS["cw"].applied(mine) == mine


def test_the_run_says_which_preset_and_values_say_their_source() -> None:
    composition = composed("a_grae", "a_grae")
    assert composition.preset.name == "a_grae"
    sources = {setting.name: setting.source for setting in composition.values}
    assert sources["data.train_batch_size"] == "AG 4.1"
    assert sources["trainer.total_epochs"] == "AG C.2"
    assert composed("ta", "a_grae").value("data.train_batch_size") == 256


def test_a_plan_beside_grpo_draws_the_presets_responses() -> None:
    from trainer_adapter.runs.model_sizes import MODELS

    shape = MODELS["DeepSeek-R1-Distill-Qwen-1.5B"].shape
    plans = plan_compute(composed("cw", "ta_cw_grpo"), shape, 7000, Speed())
    assert plans[0].epochs == 0.17  # 100 steps of 12 questions
    assert [(plan.responses_per_question, plan.responses) for plan in plans] == [
        (48, 57_600),
        (12, 14_400),
        (12, 57_600),
        (48, 57_600),
    ]


def test_another_reward_function_cannot_give_the_reward_of_the_preset() -> None:
    with pytest.raises(InputError, match="Set reward=binary to use another"):
        composed("cw", "cw_grpo", "reward.custom_reward_function.path=/mine.py")


def test_the_words_of_a_file_stand_where_the_paper_has_its_own(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("\n Box it.\n", encoding="utf-8")
    words = read_words(file)
    below, above = PRESETS["ta"].prompt(words), PRESETS["a_grae"].prompt(words, max_prompt_tokens=9)
    assert below.messages("1+1=?") == [{"role": "user", "content": "1+1=?\n\nBox it."}]
    assert above.messages("1+1=?") == [
        {"role": "system", "content": "Box it."},
        {"role": "user", "content": "1+1=?"},
    ]
    assert above.max_prompt_tokens == 9
    assert PRESETS["ta"].prompt().instruction == DEFAULT_INSTRUCTION
    file.write_text(" \n", encoding="utf-8")
    with pytest.raises(InputError, match="is empty"):
        read_words(file)
    file.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(InputError, match="not UTF-8"):
        read_words(file)
    with pytest.raises(InputError, match="Give a text file"):
        read_words(tmp_path / "none")


@pytest.mark.parametrize("advantage", ["w_reinforce", "max_rl", "a_grae"])
def test_advantages_of_right_and_wrong_refuse_a_reward_with_format(advantage: str) -> None:
    with pytest.raises(InputError, match="reward"):
        Recipe("x", advantage=advantage, reward="accuracy_format")


@pytest.mark.parametrize("name", ["a_grae-geo3k", "a_grae-medical"])
def test_images_have_their_alpha_and_a_reward_that_can_be_turned_round(name: str) -> None:
    composition = composed(name, "a_grae")
    assert (composition.recipe.settings, composition.recipe.reward) == (
        {"alpha": 0.5},
        "accuracy_10_format_90",
    )
    assert composition.recipe.name == "a_grae"
    assert composition.value("reward.custom_reward_function.reward_kwargs.format_reward") is True
    other = composed(name, "a_grae", "reward=accuracy_90_format_10")
    assert other.recipe.name == "a_grae[reward=accuracy_90_format_10]"
    assert composed(name, "grpo").recipe.settings == {}
    assert composed(name, "a_grae", "advantage=grpo").recipe.settings == {}
    assert "look swapped" in str(composition.preset.oddity)
