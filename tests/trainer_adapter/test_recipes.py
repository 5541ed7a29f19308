"""Recipes: all names, their axes, composing, what is refused, and formulas of the user's own."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from training_configs import composed

from service.errors import InputError
from service.runs.store import changed_settings
from trainer_adapter.methods.losses.policy import clipped_surrogate
from trainer_adapter.methods.recipes import RECIPES, Recipe, compose, find_recipe, read_recipe
from trainer_adapter.methods.registry import call, find_formula
from trainer_adapter.methods.step_advantages import step_advantages
from trainer_adapter.runs.resuming import make_spec
from trainer_adapter.verl.plugin.overrides import recipe_overrides
from trainer_adapter.verl.plugin.settings import recipe_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "methods.md"


def test_every_recipe_is_explained_once():
    explained = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.M)
    assert explained == list(RECIPES)


def test_a_recipe_is_composed_in_toml(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('base="ta_grpo"\nweights="cw_grpo"\nneighbors=1\n[loss]\nclip_high=0.28\nkl_coef=0\n')
    mine = find_recipe(str(path))
    assert (mine.name, mine.weights, mine.neighbors, mine.rollouts) == ("mine", "cw_grpo", 1, 16)
    assert (mine.loss.clip_low, mine.loss.clip_high, mine.loss.kl_coef) == (0.2, 0.28, 0.0)
    assert mine.summary == "ta_grpo, changed in mine.toml"
    assert find_recipe("ta_grpo") is RECIPES["ta_grpo"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("base = ", "not valid TOML"),
        ('base = "ppo"', "base 'ppo' is not a recipe"),
        ('base = ["grpo"]', r"base \['grpo'\] is not a recipe"),
        ('anchors = "own"', "no axis 'anchors'"),
        ('formula = "repo"', "no axis 'formula'"),
        ('base = "ta_grpo"\nanchor = "both"', "should be 'question', 'own', 'corrected'"),
        ("responses = 8.5", "a valid integer"),
        ("responses = true", "a valid integer"),
        ("summary = 3", "a valid string"),
        ('base = "a_grae"\nalpha = "big"', "a valid number"),
        ("advantage = 3", "a valid string"),
        ("alpha = 0.5", "no axis 'alpha'"),
        ('base = "a_grae"\nadvantage = "rloo"\nalpha = 0.5', "no axis 'alpha'"),
        ('loss = "mean"', "loss must be a table"),
        ("[loss]\nclip = 0.2", "no axis 'clip'"),
        ("[loss]\ndual_clip = 0.5", "dual_clip must be above 1"),
        ("responses = 1", "a group with a single response has no advantage"),
        ('anchor = "own"', "without neighbors there is only one prompt; set"),
        ('group = "prompt"', "without neighbors, a question has only one group"),
        ('base = "ta_grpo_star"\nfilter = "dynamic"', "or use the flat export"),
        (
            'base = "w_reinforce"\nfilter = "dynamic"',
            "W-REINFORCE learns from all-right and all-wrong groups",
        ),
        ('reward = "grpo_lead"', "work only together"),
        ('base = "a_grae"\nreward = "overlong"', "use a binary reward, or a format reward"),
        ('base = "max_rl"\nreward = "overlong"', "needs a binary reward"),
        ('base = "rloo"\nweights = "clip_cov"', "unit standard deviation"),
        ('base = "dgpo"\ntemperature = 0', "temperature must be above 0"),
        ('base = "pass_k"\nreward = "overlong"', "binary reward"),
        ('base = "pass_k"\nk = 9', "k must be between 1"),
        ('base = "pass_k"\nk = 0', "k must be between 1"),
        ('base = "pass_k"\nk = 2.5', "a valid integer"),
        ("neighbors = -1", "neighbors must be between 0 and 64"),
        ("[loss]\nkl_coef = -1", "kl_coef must be"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(tmp_path, text, says):
    path = tmp_path / "r.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=says) as refused:
        read_recipe(path)
    assert str(path) in str(refused.value)


CODE = """
import torch

NOT_A_FUNCTION = 3

def centred(rewards_B, groups):
    return groups.centred(rewards_B)

def shorter_first(rewards_B, groups, *, lengths_B, correct_B, alpha=1.0):
    return torch.where(correct_B, alpha / lengths_B, -1.0).double()

def one_for_all(rewards_B, groups):
    return rewards_B.sum()

def first_token(log_prob_BT, advantages_B, mask_BT, *, groups):
    assert groups.count == 2
    weights_BT = torch.zeros_like(log_prob_BT)
    weights_BT[:, 0] = 2.0
    return weights_BT

def infinite(log_prob_BT, advantages_B, mask_BT):
    return torch.full_like(log_prob_BT, torch.inf)

def plain(log_prob_BT, old_log_prob_BT, advantages_BT, *, clip_high):
    return -advantages_BT * (log_prob_BT - old_log_prob_BT).exp().clamp(max=1 + clip_high)
"""
STEP = {
    "scores_B": torch.tensor([1.0, 0.0, 1.0, 1.0]),
    "correct_B": torch.tensor([True, False, True, True]),
    "mask_BT": torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1], [1, 1, 0]]),
    "old_log_probs_BT": -torch.ones(4, 3),
    "group_B": torch.tensor([0, 0, 1, 1]),
}


@pytest.fixture(autouse=True)
def mine(tmp_path, monkeypatch):
    """Put a module `my_formulas` on the path."""
    import sys

    (tmp_path / "my_formulas.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "my_formulas.py"
    sys.modules.pop("my_formulas", None)


def own(**changes: Any) -> Recipe:
    return compose(RECIPES["grpo"], {name: f"my_formulas:{value}" for name, value in changes.items()})


def test_a_toml_file_names_them_and_a_step_is_computed_by_them(tmp_path):
    path = tmp_path / "mine.toml"
    text = 'base = "ta_grpo"\nadvantage = "my_formulas:centred"\nweights = "my_formulas:first_token"\n'
    path.write_text(text + '[loss]\nsurrogate = "my_formulas:plain"\n')
    recipe = find_recipe(str(path))
    # As it reaches verl's processes: inside verl's configuration.
    carried = recipe_of({"tagrpo_recipe": json.loads(json.dumps(recipe_overrides(recipe)["+tagrpo_recipe"]))})
    assert carried == recipe
    made = step_advantages(carried, **STEP, max_length=3)
    assert made.advantages_B.tolist() == [0.5, -0.5, 0.0, 0.0]
    assert made.advantages_BT.tolist() == [[1.0, 0, 0], [-1.0, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_they_get_what_they_name_and_nothing_else():
    with pytest.raises(InputError, match="no axis 'alpha'"):
        compose(own(advantage="centred"), {"alpha": 0.5})
    recipe = compose(own(advantage="shorter_first"), {"alpha": 0.5})
    made = step_advantages(recipe, **STEP, max_length=3)
    assert made.advantages_B.tolist() == pytest.approx([0.25, -1.0, 1 / 6, 0.25])
    log_prob, old, advantages = torch.full((1, 2), -0.1), torch.full((1, 2), -1.0), torch.ones(1, 1)
    plain = call(find_formula("surrogate", "my_formulas:plain"), log_prob, old, advantages, clip_low=0.2,
                 clip_high=0.2, dual_clip=None)  # fmt: skip
    torch.testing.assert_close(plain, clipped_surrogate(log_prob, old, advantages).loss_BT)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"advantage": "one_for_all"},
            r"advantage my_formulas:one_for_all: returned shape \(\), but needs shape",
        ),
        ({"weights": "infinite"}, "weights my_formulas:infinite: returned a value that is not finite"),
    ],
)
def test_what_they_give_is_checked(changes, says):
    with pytest.raises(ValueError, match=says):
        step_advantages(own(**changes), **STEP, max_length=3)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no_such_module:f", "module no_such_module cannot be imported .*PYTHONPATH"),
        ("my_formulas:absent", "module my_formulas has no absent"),
        ("my_formulas:NOT_A_FUNCTION", "is int, not a function"),
        ("nothing", "advantage 'nothing' is not a known formula; available: .*; or give your own"),
    ],
)
def test_one_that_cannot_be_found_is_refused(name, says):
    with pytest.raises(InputError, match=says):
        find_formula("advantage", name)


def test_a_grader_of_ones_own_is_part_of_a_runs_key_with_its_code(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "strict_rewards.py").write_text("def grade(response, gold): return None\n")
    name = "reward.custom_reward_function.reward_kwargs.grader=strict_rewards:grade"

    def spec() -> dict[str, Any]:
        data: Any = SimpleNamespace(validation_file=None, identity=dict)
        return make_spec(composed("grpo", f"+{name}"), data)

    first = spec()
    assert first["own_grader"].startswith("own grader strict_rewards:grade; sha256 ")
    (tmp_path / "strict_rewards.py").write_text("def grade(response, gold): return False\n")
    assert [change.split(" ")[0] for change in changed_settings(first, spec())] == ["own_grader"]
