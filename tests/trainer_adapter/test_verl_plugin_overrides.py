"""Recipes as overrides of verl's configuration, read back from Hydra's own configuration."""

from pathlib import Path
from typing import Any

import pytest

from service.errors import InputError
from trainer_adapter.methods.recipes import RECIPES, Recipe, compose
from trainer_adapter.verl.plugin.overrides import hydra_arguments, recipe_overrides
from trainer_adapter.verl.plugin.settings import RunSettings, recipe_of, settings_of

pytestmark = pytest.mark.usefixtures("quick_hydra")


def composed(arguments: list[str]) -> dict[str, Any]:
    """Return verl's configuration with these arguments, as `main_ppo` would read it."""
    import verl
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from omegaconf import OmegaConf

    folder = Path(verl.__file__).parent / "trainer" / "config"
    with initialize_config_dir(str(folder), version_base=None):
        config = hydra_compose("ppo_trainer", overrides=arguments)
    plain = OmegaConf.to_container(config, resolve=True)
    assert isinstance(plain, dict)
    return plain


@pytest.mark.slow
def test_hydra_reads_every_recipe_back() -> None:
    odd = Recipe("mine", "a summary: 'quoted', {braced}, ${interpolated}, a\\'b, = and null", neighbors=1)
    numbered = compose(RECIPES["grpo"], {"name": "1e3", "summary": "null", "loss": {"dual_clip": 3.0}})
    ends = compose(RECIPES["grpo"], {"name": "x\\", "summary": "\\\\'\\${y}\\\\ two\nlines \\boxed{}\\"})
    for recipe in (RECIPES["ta_grpo"], RECIPES["dapo"], odd, numbered, ends):
        settings = RunSettings(seed=None, record="runs/first one, or 'second'")
        config = composed(hydra_arguments(recipe_overrides(recipe, settings)))
        assert recipe_of(config) == recipe
        assert settings_of(config) == settings
        assert config["algorithm"]["filter_groups"]["enable"] is recipe.drops_dead_groups
        assert config["actor_rollout_ref"]["actor"]["clip_ratio_high"] == recipe.loss.clip_high


def test_a_configuration_without_a_recipe_is_refused() -> None:
    with pytest.raises(InputError, match=r"has no tagrpo_recipe\. Start with"):
        recipe_of({"trainer": {}})
    with pytest.raises(InputError, match=r"tagrpo_recipe: .* argument 'colour'"):
        recipe_of({"tagrpo_recipe": {"name": "grpo", "colour": "red"}})
    with pytest.raises(InputError, match=r"tagrpo_recipe: .* argument 'x'"):
        recipe_of({"tagrpo_recipe": {"name": "grpo", "loss": {"x": 1}}})
    assert settings_of({}) == RunSettings()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"seed": -1}, "seed is -1"),
        ({"max_gen_batches": 0}, "max_gen_batches is 0"),
        ({"answers": "some"}, r"tagrpo_run\.answers is 'some'; give one of: boxed, all"),
        ({"colour": "red"}, r"tagrpo_run\.colour: unknown setting"),
        ({"kl_on": "some"}, "kl_on is 'some'"),
        ({"correction": "word"}, "correction is 'word'"),
        ({"correction_threshold": 0.0}, "correction_threshold is 0.0"),
        ({"overlong_buffer": 0}, "overlong_buffer is 0"),
        ({"poll_interval_s": 0.0}, "poll_interval_s is 0.0"),
    ],
)
def test_settings_that_cannot_be_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        settings_of({"tagrpo_run": values})
