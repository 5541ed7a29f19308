"""How a recipe is run in verl: what is no axis of it, and how both travel in verl's configuration."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from service.errors import InputError
from trainer_adapter.methods.recipes import Loss, Recipe

RECIPE_KEY = "tagrpo_recipe"
SETTINGS_KEY = "tagrpo_run"
"""The two blocks of verl's configuration that are ours."""

_Kind = TypeVar("_Kind", Recipe, Loss, "RunSettings")


@dataclass(frozen=True)
class RunSettings:
    """What the plug-in does beside the recipe.

    Attributes:
        answers: what of a response is rewarded: boxed, nothing but an answer in a box; all, also one that a
            sentence states or that merely stands at the end.
        seed: of the sampler, of Clip-Cov's draws; None leaves sampling to the engine's own generator, and
            dynamic sampling refills as soon as a place is free instead of once all groups are there, so that
            no run can be repeated.
        max_gen_batches: with dynamic sampling, the most batches of questions a step may draw before training
            stops; one batch is `data.train_batch_size` questions.
        kl_on: the responses the KL penalty looks at: all, or those to the original question.
        correction: with anchor corrected, whether the importance weight is of a token or of a response.
        correction_threshold: where that weight is truncated.
        overlong_buffer: with reward overlong, the last tokens in which the penalty grows to 1 (DAPO: 4,096 of
            20,480); None takes a fifth of the longest response.
        record: folder of the rollout record; None keeps none.
        record_tokens: record the log-ratio of every token too.
        poll_interval_s: how often the trainer looks for finished responses; verl has 2 seconds.
    """

    answers: Literal["boxed", "all"] = "boxed"
    seed: int | None = 42
    max_gen_batches: int = 10
    kl_on: Literal["all", "question"] = "all"
    correction: Literal["token", "sequence"] = "token"
    correction_threshold: float = 2.0
    overlong_buffer: int | None = None
    record: str | None = None
    record_tokens: bool = False
    poll_interval_s: float = 0.5

    def __post_init__(self) -> None:
        if self.answers not in ("boxed", "all"):
            raise InputError(f"{SETTINGS_KEY}.answers is {self.answers!r}; give boxed or all.")
        if self.seed is not None and self.seed < 0:
            raise InputError(f"{SETTINGS_KEY}.seed is {self.seed}; give 0 or more, or null.")
        if self.max_gen_batches < 1:
            raise InputError(f"{SETTINGS_KEY}.max_gen_batches is {self.max_gen_batches}; give 1 or more.")
        if self.kl_on not in ("all", "question"):
            raise InputError(f"{SETTINGS_KEY}.kl_on is {self.kl_on!r}; give all or question.")
        if self.correction not in ("token", "sequence"):
            raise InputError(f"{SETTINGS_KEY}.correction is {self.correction!r}; give token or sequence.")
        if not self.correction_threshold > 0:
            raise InputError(
                f"{SETTINGS_KEY}.correction_threshold is {self.correction_threshold}; give more than 0."
            )
        if self.overlong_buffer is not None and self.overlong_buffer < 1:
            raise InputError(f"{SETTINGS_KEY}.overlong_buffer is {self.overlong_buffer}; give 1 or more.")
        if not isinstance(self.record_tokens, bool):
            raise InputError(f"{SETTINGS_KEY}.record_tokens is {self.record_tokens!r}; give true or false.")
        if not self.poll_interval_s > 0:
            raise InputError(f"{SETTINGS_KEY}.poll_interval_s is {self.poll_interval_s}; give more than 0.")

    def to_json(self) -> dict[str, Any]:
        """Return the form that travels in verl's configuration."""
        return dataclasses.asdict(self)


def recipe_of(config: Mapping[str, Any]) -> Recipe:
    """Return the recipe that `config`, verl's configuration as plain dictionaries, carries.

    Raises:
        InputError: there is none, it has an unknown part, or it makes no sense.
    """
    carried = dict(_block(config, RECIPE_KEY))
    carried["loss"] = _built(Loss, carried.get("loss") or {}, f"{RECIPE_KEY}.loss")
    return _built(Recipe, carried, RECIPE_KEY)


def settings_of(config: Mapping[str, Any]) -> RunSettings:
    """Return the settings that `config` carries; the defaults where it carries none.

    Raises:
        InputError: an unknown setting, or a value that cannot be.
    """
    return _built(RunSettings, config.get(SETTINGS_KEY) or {}, SETTINGS_KEY)


def _block(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = config.get(key)
    if not isinstance(found, Mapping):
        raise InputError(
            f"verl's configuration has no {key}; start with `tagrpo train run`, or give verl every override "
            "that `tagrpo train show` prints."
        )
    return found


def _built(kind: type[_Kind], values: Mapping[str, Any], key: str) -> _Kind:
    unknown = set(values) - {field.name for field in dataclasses.fields(kind)}
    if unknown:
        raise InputError(f"{key} has no {', '.join(sorted(map(repr, unknown)))}.")
    return kind(**values)
