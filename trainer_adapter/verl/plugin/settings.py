"""Settings of a recipe's run in verl that are no axis, and how both travel in verl's config."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from service.errors import InputError
from trainer_adapter.methods.recipes import Loss, Recipe

RECIPE_KEY = "tagrpo_recipe"
SETTINGS_KEY = "tagrpo_run"
"""The two blocks of verl's config that belong to tagrpo."""

_Kind = TypeVar("_Kind", Recipe, Loss, "RunSettings")


def _is_whole(value: Any, least: int) -> bool:
    return type(value) is int and value >= least


def _is_above_0(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < math.inf


def _is_share(value: Any) -> bool:
    return _is_above_0(value) and value <= 1


_POSSIBLE: dict[str, tuple[Callable[[Any], bool], str]] = {
    "answers": (lambda value: value in ("boxed", "all"), "boxed or all"),
    "seed": (
        lambda value: value is None or (_is_whole(value, 0) and value < 2**32),
        "a whole number, 0 or more and below 2^32, or null",
    ),
    "waves": (lambda value: isinstance(value, bool), "true or false"),
    "max_gen_batches": (lambda value: _is_whole(value, 1), "a whole number, 1 or more"),
    "draw_again": (_is_share, "a share above 0, at most 1"),
    "replay_steps": (lambda value: _is_whole(value, 1), "a whole number, 1 or more"),
    "replay_threshold": (_is_above_0, "a number above 0"),
    "kl_on": (lambda value: value in ("all", "question"), "all or question"),
    "engine_correction": (
        lambda value: value in ("token", "sequence", "none", None),
        "token, sequence or none",
    ),
    "engine_threshold": (_is_above_0, "a number above 0"),
    "correction": (
        lambda value: value in ("token", "sequence", "min_prefix"),
        "token, sequence or min_prefix",
    ),
    "correction_threshold": (_is_above_0, "a number above 0"),
    "overlong_buffer": (
        lambda value: value is None or _is_whole(value, 1),
        "a whole number, 1 or more, or null",
    ),
    "record_tokens": (lambda value: isinstance(value, bool), "true or false"),
    "record_share": (_is_share, "a share above 0, at most 1"),
    "weight_update_limit_s": (_is_above_0, "a number above 0"),
    "poll_interval_s": (_is_above_0, "a number above 0"),
}
"""The valid values of a setting, and the advice for invalid ones."""


@dataclass(frozen=True)
class RunSettings:
    """Settings of the plug-in in addition to the recipe.

    Attributes:
        answers: answers that are rewarded: boxed, only boxed ones; all, also an answer that a sentence states
            or that is at the end.
        seed: of the sampler and of Clip-Cov's draws; None leaves sampling to the engine's own generator, so
            that no run can be repeated.
        waves: with dynamic sampling, draw again only after all groups have arrived, so that the draws are
            repeatable; otherwise as soon as a place is free, as verl does.
        max_gen_batches: with dynamic sampling, maximum batches of questions per step, after which the step
            uses the available groups; one batch is `data.train_batch_size` questions.
        draw_again: with filter predicted, the probability p that a question is drawn again after a group
            without a gradient; after z of them in a row p^z.
        replay_steps: with filter replay, the maximum age in steps of a replayed group.
        replay_threshold: where the importance weights of replayed tokens are truncated.
        kl_on: the responses that the KL penalty covers: all, or those to the original question.
        engine_correction: importance weights between rollout engine and trainer: of a token, of a whole
            response (sequence), or none; None means token on GPUs, and none on the CPU, where one code draws
            and trains.
        engine_threshold: where these weights are truncated; verl's default.
        correction: with anchor corrected, whether the importance weight between the sampled prompt and the
            anchor is of a token, of a response, or of a token and the least likely one before it.
        correction_threshold: where that weight is truncated.
        overlong_buffer: with reward overlong, the last tokens in which the penalty grows to 1 (DAPO: 4,096 of
            20,480); None uses a fifth of the longest response.
        record: folder of the rollout record; None records nothing.
        record_tokens: record the log-ratio of every token too.
        record_share: share of the questions whose responses are recorded, chosen by the hashes of their ids,
            so that they are the same at every step and in every run. Metrics cover all responses.
        weight_update_limit_s: time limit of the rollout engine for loading new weights; training ends when it
            is exceeded. The default is verl's limit for a collective call (`actor_rollout_ref.nccl_timeout`).
        poll_interval_s: seconds between checks for finished responses; verl has 2.
    """

    answers: Literal["boxed", "all"] = "boxed"
    seed: int | None = 42
    waves: bool = False
    max_gen_batches: int = 10
    draw_again: float = 0.7
    replay_steps: int = 5
    replay_threshold: float = 2.0
    kl_on: Literal["all", "question"] = "all"
    engine_correction: Literal["token", "sequence", "none"] | None = None
    engine_threshold: float = 2.0
    correction: Literal["token", "sequence", "min_prefix"] = "token"
    correction_threshold: float = 2.0
    overlong_buffer: int | None = None
    record: str | None = None
    record_tokens: bool = False
    record_share: float = 1.0
    weight_update_limit_s: float = 600.0
    poll_interval_s: float = 0.5

    def __post_init__(self) -> None:
        for name, (fits, way_out) in _POSSIBLE.items():
            value = getattr(self, name)
            if not fits(value):
                raise InputError(f"{SETTINGS_KEY}.{name} is {value!r}. Give {way_out}.")

    @property
    def corrects_engine(self) -> bool:
        """Whether responses are weighted by the ratio of trainer to rollout engine."""
        return self.engine_correction in ("token", "sequence")

    def to_json(self) -> dict[str, Any]:
        """Return the form for verl's config."""
        return dataclasses.asdict(self)


def recipe_of(config: Mapping[str, Any]) -> Recipe:
    """Return the recipe in `config`, verl's config as plain dictionaries.

    Raises:
        InputError: there is none, it has an unknown part, or it is invalid.
    """
    carried = dict(_block(config, RECIPE_KEY))
    carried["loss"] = _built(Loss, carried.get("loss") or {}, f"{RECIPE_KEY}.loss")
    return _built(Recipe, carried, RECIPE_KEY)


def settings_of(config: Mapping[str, Any]) -> RunSettings:
    """Return the settings in `config`, or the defaults.

    Raises:
        InputError: an unknown setting, or an invalid value.
    """
    return _built(RunSettings, config.get(SETTINGS_KEY) or {}, SETTINGS_KEY)


def _block(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    block = config.get(key)
    if not isinstance(block, Mapping):
        raise InputError(
            f"verl's config has no {key}. Start with `tagrpo train run`, or give verl every override that "
            "`tagrpo recipes show` prints."
        )
    return block


def _built(kind: type[_Kind], values: Mapping[str, Any], key: str) -> _Kind:
    unknown = set(values) - {field.name for field in dataclasses.fields(kind)}
    if unknown:
        raise InputError(f"{key} has no {', '.join(sorted(map(repr, unknown)))}.")
    return kind(**values)
