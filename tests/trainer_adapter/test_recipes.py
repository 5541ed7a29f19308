"""Recipes: all names, their axes, composing, and what is refused."""

import re
from pathlib import Path

import pytest

from service.errors import InputError
from trainer_adapter.methods.recipes import RECIPES, find_recipe, read_recipe

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "methods.md"


def test_every_recipe_is_explained_once() -> None:
    explained = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.M)
    assert explained == list(RECIPES)


def test_a_recipe_is_composed_in_toml(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'base = "ta_grpo"\nweights = "cw_grpo"\nneighbors = 1\n[loss]\nclip_high = 0.28\nkl_coef = 0\n'
    )
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
        ('base = "ta_grpo"\nanchor = "both"', "Choose one of 'question', 'own', 'corrected'"),
        ("responses = 8.5", "Give an integer"),
        ("responses = true", "Give an integer"),
        ("summary = 3", "Give a string"),
        ('base = "a_grae"\nalpha = "big"', "Give a number"),
        ("advantage = 3", "Give a string"),
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
        ('base = "pass_k"\nk = 2.5', "Give an integer"),
        ("neighbors = -1", "neighbors must be between 0 and 64"),
        ("[loss]\nkl_coef = -1", "kl_coef must be"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "r.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=says) as refused:
        read_recipe(path)
    assert str(path) in str(refused.value)
