"""Presets: the settings of a paper for any recipe, and what wins over them."""

from pathlib import Path

import pytest
from training_configs import composed

from service.errors import InputError
from trainer_adapter.methods.recipes import RECIPES
from trainer_adapter.runs.checking import compose_with_hydra
from trainer_adapter.runs.presets import PRESETS
from trainer_adapter.verl.prompts import DEFAULT_INSTRUCTION, read_words

ACTOR = "actor_rollout_ref.actor"
pytestmark = pytest.mark.usefixtures("quick_hydra")


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
def test_verl_gets_the_papers_settings(preset, recipe, batch, update, response, temperature, responses, kl):
    config = compose_with_hydra(composed(recipe, f"preset={preset}"), Path("/runs/x"))
    actor, rollout = config["actor_rollout_ref"]["actor"], config["actor_rollout_ref"]["rollout"]
    assert config["data"]["train_batch_size"] == batch
    assert actor["ppo_mini_batch_size"] == update
    assert config["data"]["max_response_length"] == response
    assert (rollout["temperature"], rollout["n"]) == (temperature, responses)
    assert (actor["kl_loss_coef"], actor["use_kl_loss"]) == (kl, kl > 0)
    assert actor["optim"]["lr"] == 1e-6


def test_every_recipe_goes_with_every_preset_or_says_what_else_to_say():
    of_success = {"w_reinforce", "max_rl", "pass_k", "hard_focused", "easy_focused"}
    for name, preset in PRESETS.items():
        for recipe in RECIPES.values():
            focused = "a_grae" in recipe.advantage and preset.reward == "accuracy_format"
            changes = {}
            if preset.reward is not None and (recipe.advantage in of_success or focused):
                with pytest.raises(InputError, match=rf"--preset {name} sets responses=.* as reward=binary"):
                    preset.applied(recipe)
                changes = {"reward": "binary"}
            made = preset.applied(recipe, changes)
            assert made.responses == recipe.responses * preset.responses // 8
            assert made.name == recipe.name


def test_what_a_user_says_wins():
    changed = composed("ta_cw_grpo", "preset=cw", "responses=4", "reward=binary", "loss.kl_coef=0")
    assert (changed.recipe.responses, changed.recipe.reward, changed.recipe.loss.kl_coef) == (4, "binary", 0)
    assert changed.recipe.name == "ta_cw_grpo[responses=4,reward=binary,loss.kl_coef=0]"
    told = composed("cw_grpo", "preset=cw", "data.train_batch_size=24", f"{ACTOR}.optim.lr=2e-6")
    assert told.value("data.train_batch_size") == 24
    assert told.value(f"{ACTOR}.optim.lr") == 2e-6
    assert told.value(f"{ACTOR}.ppo_mini_batch_size") == 12
    assert "actor_rollout_ref.actor.optim.lr=1e-06" not in " ".join(told.arguments())


def test_another_reward_function_cannot_give_the_reward_of_the_preset():
    with pytest.raises(InputError, match="Set reward=binary to use another"):
        composed("cw_grpo", "preset=cw", "reward.custom_reward_function.path=/mine.py")


def test_the_words_of_a_file_stand_where_the_paper_has_its_own(tmp_path):
    file = tmp_path / "words.txt"
    file.write_text("\n Box it.\n", encoding="utf-8")
    words = read_words(file)
    below, above = PRESETS["ta"].prompt(words), PRESETS["a_grae"].prompt(words, max_prompt_tokens=9)
    assert below.messages("1+1=?") == [{"role": "user", "content": "1+1=?\n\nBox it."}]
    system, user = {"role": "system", "content": "Box it."}, {"role": "user", "content": "1+1=?"}
    assert above.messages("1+1=?") == [system, user]
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


@pytest.mark.parametrize("name", ["a_grae-geo3k", "a_grae-medical"])
def test_images_have_their_alpha_and_a_reward_that_can_be_turned_round(name):
    composition = composed("a_grae", f"preset={name}")
    assert composition.recipe.settings == {"alpha": 0.5}
    assert composition.recipe.reward == "accuracy_10_format_90"
    assert composition.recipe.name == "a_grae"
    assert composition.value("reward.custom_reward_function.reward_kwargs.format_reward") is True
    other = composed("a_grae", f"preset={name}", "reward=accuracy_90_format_10")
    assert other.recipe.name == "a_grae[reward=accuracy_90_format_10]"
    assert composed("grpo", f"preset={name}").recipe.settings == {}
    assert composed("a_grae", f"preset={name}", "advantage=grpo").recipe.settings == {}
    assert "look swapped" in str(composition.preset.oddity)
