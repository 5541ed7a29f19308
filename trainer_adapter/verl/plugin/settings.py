"""Settings of a recipe's run in verl that are no axis, and how both travel in verl's config."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError

from service.config import Config, operational
from service.errors import InputError
from trainer_adapter.methods.recipes import Loss, Recipe

RECIPE_KEY = "tagrpo_recipe"
SETTINGS_KEY = "tagrpo_run"
"""The two blocks of verl's config that belong to tagrpo."""


class PlugInSettings(Config):
    """Settings of the plug-in in addition to the recipe."""

    trainer: Literal["tagrpo", "verl"] = "tagrpo"
    """Trainer class: tagrpo's, or verl's own, which supports fewer recipes but more verl versions."""
    answers: Literal["boxed", "all"] = "boxed"
    """Answers that can earn a reward: only boxed ones, or any final answer (all)."""
    seed: int | None = Field(42, ge=0, lt=2**32)
    """Random seed for sampling and Clip-Cov; with none, the engine chooses one and the run cannot be repeated
    exactly."""
    waves: bool = False
    """With dynamic sampling, choose more questions only after all groups have arrived, so that the choice is
    repeatable."""
    max_gen_batches: int = operational(10, ge=1)
    """With dynamic sampling, maximum batches of questions sampled per step."""
    draw_again: float = Field(0.7, gt=0, le=1)
    """With filter predicted, probability of choosing a question again after a group without a gradient; after
    z such groups in a row, this probability to the power z."""
    replay_steps: int = Field(5, ge=1)
    """With filter replay, maximum age of a replayed group in steps."""
    replay_threshold: float = Field(2.0, gt=0, allow_inf_nan=False)
    """With filter replay, upper bound on the importance weights of replayed tokens."""
    kl_on: Literal["all", "question"] = "all"
    """Responses with a KL penalty: all, or only those to the original question."""
    engine_correction: Literal["token", "sequence", "none"] | None = None
    """Importance weights that correct the mismatch of rollout engine and trainer; by default token on GPUs
    and none on the CPU."""
    engine_threshold: float = Field(2.0, gt=0, allow_inf_nan=False)
    """Upper bound on the weights of engine_correction."""
    correction: Literal["token", "sequence", "min_prefix"] = "token"
    """With anchor corrected, importance weight between sampled prompt and anchor: per token, per response
    (sequence), or per token with the minimum over earlier tokens (min_prefix)."""
    correction_threshold: float = Field(2.0, gt=0, allow_inf_nan=False)
    """With anchor corrected, upper bound on its weights."""
    overlong_buffer: int | None = Field(None, ge=1)
    """With reward overlong, number of final tokens over which the penalty grows to 1; by default a fifth of
    the maximum response length."""
    record_tokens: bool = operational(False, description="Also record the log-ratio of every token.")
    record_share: float = operational(1.0, gt=0, le=1)
    """Share of questions whose responses are recorded; the choice is the same at every step and in every run.
    Metrics cover all responses."""
    weight_update_limit_s: float = operational(600.0, gt=0, allow_inf_nan=False)
    """Maximum seconds for the rollout engine to load new weights before training stops."""
    poll_interval_s: float = operational(0.5, gt=0, allow_inf_nan=False)
    """Seconds between checks for finished responses."""


class RunSettings(PlugInSettings):
    """Settings of the plug-in as verl's config carries them."""

    record: str | None = operational(None, description="Folder for recorded rollouts; none: do not record.")

    @property
    def corrects_engine(self) -> bool:
        """Whether responses are weighted by the ratio of trainer to rollout engine."""
        return self.engine_correction in ("token", "sequence")


def recipe_of(config: Mapping[str, Any]) -> Recipe:
    """Return the recipe in `config`, verl's config as plain dictionaries."""
    carried = config.get(RECIPE_KEY)
    if not isinstance(carried, Mapping):
        raise InputError(
            f"verl's config has no {RECIPE_KEY}. Start with `tagrpo train run`, or give verl every override "
            "that `tagrpo train recipes` prints."
        )
    try:
        return Recipe(**{**carried, "loss": Loss(**(carried.get("loss") or {}))})
    except TypeError as error:
        raise InputError(f"{RECIPE_KEY}: {error}.") from error


def settings_of(config: Mapping[str, Any]) -> RunSettings:
    """Return the settings in `config`, or the defaults."""
    try:
        return RunSettings.model_validate(config.get(SETTINGS_KEY) or {}, strict=True)
    except ValidationError as error:
        problems = [(".".join(map(str, each["loc"])), each["input"], each["msg"]) for each in error.errors()]
        lines = [f"{SETTINGS_KEY}.{name} is {value!r}: {message}." for name, value, message in problems]
        raise InputError("\n".join(lines)) from error
