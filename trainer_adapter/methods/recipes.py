"""Recipes: a training method as a choice on each of nine axes, predefined or custom."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from service.config import read_toml
from service.errors import InputError, suggest
from service.own_code import is_own
from trainer_adapter.methods.registry import FORMULAS, list_names, settings_of_advantage

GroupAxis: TypeAlias = Literal["joint", "prompt"]
AnchorAxis: TypeAlias = Literal["question", "own", "corrected", "tapered", "dropped"]
SamplingAxis: TypeAlias = Literal["split", "rescue"]
FilterAxis: TypeAlias = Literal["none", "dynamic", "predicted", "replay"]
RewardAxis: TypeAlias = Literal[
    "binary", "grpo_lead", "overlong", "accuracy_format", "accuracy_10_format_90", "accuracy_90_format_10"
]
KlEstimator: TypeAlias = Literal["k1", "abs", "k2", "k3", "low_var_kl"]
Aggregation: TypeAlias = Literal["token-mean", "seq-mean-token-mean", "seq-mean-token-sum-norm"]

FORMAT_REWARDS: dict[str, tuple[float, float]] = {
    "accuracy_format": (1.0, 1.0),
    "accuracy_10_format_90": (0.1, 0.9),
    "accuracy_90_format_10": (0.9, 0.1),
}
"""Rewards that include format: the weights of a correct answer, and of thinking between tags."""

_OF_TWO_PARTS = ("accuracy_10_format_90", "accuracy_90_format_10")


@dataclass(frozen=True)
class Loss:
    """The loss axis; `trainer_adapter.config.LossConfig` describes its parts."""

    surrogate: str = "clipped"
    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float | None = None  # Eq. 4 as printed has none
    aggregation: Aggregation = "seq-mean-token-mean"
    kl_coef: float = 0.001
    kl: KlEstimator = "low_var_kl"


@dataclass(frozen=True)
class Recipe:
    """A training method: its choice on each axis, described in `docs/recipes.md`.

    `advantage`, `weights` and `loss.surrogate` are names of `FORMULAS` or `module:function`.
    """

    name: str
    summary: str = "custom recipe"  # description with its source
    neighbors: int = 0  # N
    responses: int = 8  # G, of each prompt; a question draws (N + 1) G
    sampling: SamplingAxis = "split"
    group: GroupAxis = "joint"
    advantage: str = "grpo"
    settings: Mapping[str, float] = field(default_factory=dict)  # of the advantage, all of them
    weights: str = "none"
    anchor: AnchorAxis = "question"
    loss: Loss = field(default_factory=Loss)
    filter: FilterAxis = "none"
    reward: RewardAxis = "binary"

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise InputError(f"recipe {self.name}: {problem}.")

    @property
    def rollouts(self) -> int:
        """Responses drawn for a question: (N + 1) G."""
        return (self.neighbors + 1) * self.responses

    @property
    def group_size(self) -> int:
        """Responses of a group."""
        return self.responses if self.group == "prompt" else self.rollouts

    @property
    def drops_dead_groups(self) -> bool:
        """Whether groups without a gradient are dropped and replaced by new draws."""
        return self.filter in ("dynamic", "predicted")

    @property
    def formulas(self) -> dict[str, str]:
        """Names of the formulas that are looked up, by axis."""
        named = {"advantage": self.advantage, "weights": self.weights, "surrogate": self.loss.surrogate}
        return {axis: name for axis, name in named.items() if name != "none"}

    @property
    def whole_batch_axes(self) -> list[str]:
        """The axes, with their values, that verl's extension points do not carry.

        An advantage estimator sees rewards, lengths and questions, but no prompts, log-probs or grades; the
        loss of verl is the clipped surrogate. A recipe with such axes needs tagrpo's trainer (tier 2); others
        do not (tier 1).
        """
        needed = {
            f"group={self.group}": self.group == "prompt",
            f"weights={self.weights}": self.weights != "none",
            f"anchor={self.anchor}": self.anchor not in ("question", "own"),
            f"filter={self.filter}": self.filter in ("predicted", "replay"),
            f"reward={self.reward}": self.reward in FORMAT_REWARDS,
            f"loss.surrogate={self.loss.surrogate}": self.loss.surrogate != "clipped",
        }
        return [axis for axis, is_needed in needed.items() if is_needed]

    def to_json(self) -> dict[str, Any]:
        """Return the form that is stored with a run and shown."""
        return dataclasses.asdict(self)


def _problems(recipe: Recipe) -> list[str]:
    """Return why the combination is invalid; empty if it is valid."""
    unknown = [
        f"{axis} {name!r} is not a known formula; {list_names(axis)}"
        for axis, name in recipe.formulas.items()
        if name not in FORMULAS[axis] and not is_own(name)
    ]
    return [*unknown, *(reason for applies, reason in _RULES if applies(recipe))]


def _between(low: float, value: float, high: float) -> bool:
    return low <= value <= high


_RULES: tuple[tuple[Any, str], ...] = (
    (lambda r: not _between(0, r.neighbors, 64), "neighbors must be between 0 and 64"),
    (lambda r: not _between(1, r.responses, 4096), "responses must be between 1 and 4,096"),
    (
        lambda r: r.group_size < 2 and r.advantage != "w_reinforce" and not is_own(r.advantage),
        "a group with a single response has no advantage; raise responses or neighbors",
    ),
    (
        lambda r: r.neighbors == 0 and r.anchor != "question",
        "without neighbors there is only one prompt; set anchor=question",
    ),
    (
        lambda r: r.neighbors == 0 and r.group == "prompt",
        "without neighbors, a question has only one group; set group=joint",
    ),
    (lambda r: r.sampling == "rescue" and r.neighbors == 0, "a rescue needs neighbors; raise neighbors"),
    (
        lambda r: r.sampling == "rescue" and (r.group == "prompt" or r.rollouts % 2 == 1),
        "a rescue splits a joint group into two halves; set group=joint and an even (N + 1) G",
    ),
    (
        lambda r: r.anchor in ("tapered", "dropped") and r.group == "prompt",
        "anchor=tapered and anchor=dropped need group=joint. Change group or anchor",
    ),
    (
        lambda r: r.group == "prompt" and r.filter != "none",
        "with group=prompt, a row contains several groups; remove the filter, or use the flat export",
    ),
    (
        lambda r: r.filter != "none" and r.advantage == "w_reinforce",
        "W-REINFORCE learns from all-right and all-wrong groups; remove the filter",
    ),
    (
        lambda r: (r.advantage == "grpo_lead") != (r.reward == "grpo_lead"),
        "GRPO-LEAD's advantage and reward work only together; set both",
    ),
    (
        lambda r: "a_grae" in r.advantage and r.reward not in ("binary", *_OF_TWO_PARTS),
        "A-GRAE needs success rates; use a binary reward, or a format reward of at most 1",
    ),
    (
        lambda r: r.advantage in ("hard_focused", "easy_focused") and r.reward != "binary",
        "hard_focused and easy_focused are defined by success rates; use a binary reward",
    ),
    (
        lambda r: (
            r.advantage in ("w_reinforce", "max_rl", "pass_k") and r.reward in ("overlong", *FORMAT_REWARDS)
        ),
        "this advantage needs a binary reward",
    ),
    (
        lambda r: r.advantage == "grpo_lead" and r.group == "joint" and r.neighbors > 0 and r.anchor == "own",
        "GRPO-LEAD compares response lengths within a group; set anchor=question",
    ),
    (
        lambda r: r.advantage in ("w_reinforce", "rloo") and r.weights == "clip_cov",
        "Clip-Cov's bounds assume advantages with unit standard deviation; choose another advantage",
    ),
    (
        lambda r: r.advantage == "pass_k" and not _between(1, r.settings.get("k", 1), r.group_size),
        "k must be between 1 and the number of responses in a group",
    ),
    (lambda r: not 0 < r.settings.get("alpha", 1.0) < math.inf, "alpha must be a number above 0"),
    (lambda r: not 0 < r.settings.get("temperature", 1.0) < math.inf, "temperature must be above 0"),
    (
        lambda r: not (0 <= r.loss.clip_low <= 1 and 0 <= r.loss.clip_high < math.inf),
        "clip_low must be between 0 and 1, and clip_high at least 0",
    ),
    (
        lambda r: r.loss.dual_clip is not None and not 1 < r.loss.dual_clip < math.inf,
        "dual_clip must be above 1",
    ),
    (lambda r: not 0 <= r.loss.kl_coef < math.inf, "kl_coef must be at least 0"),
)


def _a_grae(name: str, summary: str, advantage: str = "a_grae", **changes: Any) -> Recipe:
    changes.setdefault("settings", {"alpha": 1.0})
    return Recipe(name, f"{summary} (arXiv 2602.05548)", advantage=advantage, **changes)


_DAPO = Loss(clip_high=0.28, aggregation="token-mean", kl_coef=0.0)
_DR_GRPO = Loss(aggregation="seq-mean-token-sum-norm", kl_coef=0.0)
_CLIP_COV = Loss(clip_low=1.0, clip_high=1.0, aggregation="token-mean", kl_coef=0.0)
_TA: dict[str, Any] = {"neighbors": 3}
_AT_EIGHT: dict[str, Any] = {**_TA, "responses": 2}
"""As many responses as GRPO draws: 2 to the question and to each of 3 neighbors."""

_ALL = (
    Recipe("grpo", "GRPO (arXiv 2402.03300), settings of arXiv 2601.22478, Table 2"),
    Recipe("grpo_matched", "GRPO with as many responses as TA-GRPO (arXiv 2601.22478, 5.4)", responses=32),
    Recipe("grpo_ds", "GRPO with dynamic sampling (arXiv 2601.22478, 5.1)", filter="dynamic"),
    Recipe(
        "grpo_predicted",
        "dynamic sampling that skips questions that recently had no gradient (after arXiv 2506.02177)",
        filter="predicted",
    ),
    Recipe("grpo_replay", "replays mixed groups of earlier steps (arXiv 2606.01281)", filter="replay"),
    Recipe(
        "grpo_matched_ds",
        "matched GRPO with dynamic sampling (arXiv 2601.22478, 5.4)",
        responses=32,
        filter="dynamic",
    ),
    Recipe("ta_grpo", "joint groups, ratios on the question (arXiv 2601.22478, Eq. 3 and 4)", **_TA),
    Recipe(
        "ta_grpo_v1",
        "joint groups, ratios on each response's own prompt (arXiv 2601.22478 v1)",
        anchor="own",
        **_TA,
    ),
    Recipe(
        "ta_grpo_star",
        "neighbors sampled, but each prompt is a separate group (arXiv 2601.22478, App. C)",
        group="prompt",
        anchor="own",
        **_TA,
    ),
    Recipe(
        "ta_grpo_corrected",
        "TA-GRPO that corrects the sampling mismatch with a truncated importance weight (not in the paper)",
        anchor="corrected",
        **_TA,
    ),
    Recipe(
        "ta_grpo_tapered",
        "TA-GRPO with 8 responses as in GRPO; wrong responses to neighbors weigh less (not in the paper)",
        anchor="tapered",
        **_AT_EIGHT,
    ),
    Recipe(
        "ta_rescue",
        "GRPO that samples neighbors only for all-wrong questions: 4 responses first, then 4 more (not in "
        "the paper)",
        sampling="rescue",
        anchor="tapered",
        **_AT_EIGHT,
    ),
    Recipe(
        "dr_grpo",
        "GRPO without division by standard deviation or length (arXiv 2503.20783)",
        advantage="dr_grpo",
        loss=_DR_GRPO,
    ),
    Recipe(
        "dapo",
        "clip-higher, token mean, dynamic sampling, overlong penalty (arXiv 2503.14476)",
        loss=_DAPO,
        filter="dynamic",
        reward="overlong",
    ),
    Recipe("rloo", "leave-one-out baseline (arXiv 2402.14740)", advantage="rloo"),
    Recipe(
        "pass_k",
        "rewards sets of k responses instead of single ones (arXiv 2508.10751)",
        advantage="pass_k",
        settings={"k": 4},
    ),
    Recipe(
        "dgpo",
        "equalizes easy and hard questions, then weights hard ones more (arXiv 2601.20614)",
        advantage="dgpo",
        settings={"temperature": 2.0},
        loss=Loss(aggregation="token-mean", kl_coef=0.0),
    ),
    Recipe(
        "max_rl",
        "divides advantages by the mean reward, not the standard deviation (arXiv 2602.02710)",
        advantage="max_rl",
    ),
    _a_grae("a_grae", "difficulty-adaptive and asymmetric advantages"),
    _a_grae("a_grae_sample", "only A-GRAE's difficulty weighting", advantage="a_grae_sample", settings={}),
    _a_grae("a_grae_group", "only A-GRAE's suppression of positive advantages", advantage="a_grae_group"),
    _a_grae("dapo_a_grae", "A-GRAE on DAPO's loss, without dynamic sampling (Table 2)", loss=_DAPO),
    _a_grae("dr_grpo_a_grae", "A-GRAE on Dr.GRPO", advantage="dr_grpo_a_grae", loss=_DR_GRPO),
    _a_grae(
        "positive_dominant",
        "control: positive advantages x 10",
        advantage="positive_dominant",
        settings={"beta": 10.0},
    ),
    _a_grae(
        "negative_dominant",
        "control: positive advantages / 10",
        advantage="negative_dominant",
        settings={"beta": 10.0},
    ),
    _a_grae("hard_focused", "control: hard groups have more weight", advantage="hard_focused", settings={}),
    _a_grae("easy_focused", "control: easy groups have more weight", advantage="easy_focused", settings={}),
    Recipe(
        "w_reinforce",
        "advantage 0.1 for correct, -1 for wrong responses, no baseline (arXiv 2506.01347)",
        advantage="w_reinforce",
        settings={"weight": 0.1},
        loss=Loss(aggregation="token-mean", kl_coef=0.0),
    ),
    Recipe(
        "grpo_lead",
        "length-dependent reward, difficulty-weighted advantages (arXiv 2504.09696)",
        advantage="grpo_lead",
        reward="grpo_lead",
    ),
    Recipe(
        "cw_grpo", "tokens with extreme covariance have less weight (arXiv 2605.11538)", weights="cw_grpo"
    ),
    Recipe(
        "clip_cov",
        "a few tokens with high covariance are excluded (arXiv 2505.22617)",
        weights="clip_cov",
        loss=_CLIP_COV,
    ),
    _a_grae("ta_a_grae", "TA-GRPO with A-GRAE's advantages", **_TA),
    Recipe("ta_cw_grpo", "TA-GRPO with CW-GRPO's token weights", weights="cw_grpo", **_TA),
)

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in _ALL}
"""Every method by name."""


def find_recipe(name: str) -> Recipe:
    """Return the recipe of that name, or the one that a TOML file of that path composes."""
    if name in RECIPES:
        return RECIPES[name]
    if name.endswith(".toml"):
        return read_recipe(Path(name))
    raise InputError(f"no recipe {name!r}. {suggest(name, RECIPES)} Or give a TOML file.")


def read_recipe(path: Path) -> Recipe:
    """Return the recipe of a TOML file: `base`, the name of a recipe, and the axes that differ from it.

    The loss axis is a separate table, `[loss]`.
    """
    content = read_toml(path)[1]
    base = content.pop("base", "grpo")
    if not isinstance(base, str) or base not in RECIPES:
        raise InputError(f"{path}: base {base!r} is not a recipe. {suggest(str(base), RECIPES)}")
    content.setdefault("name", path.stem)
    content.setdefault("summary", f"{base}, changed in {path.name}")
    try:
        return compose(RECIPES[base], content)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def compose(base: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """Return `base` with other choices on some axes; `loss` is a mapping.

    A name that is no axis is a setting of the advantage.
    """
    changes = dict(changes)
    loss = changes.pop("loss", {})
    if not isinstance(loss, Mapping):
        raise InputError(f"loss must be a table with {', '.join(each.name for each in fields(Loss))}.")
    axes, advantage = get_type_hints(Recipe), _fit("advantage", changes.get("advantage", base.advantage), str)
    del axes["loss"], axes["settings"]
    settings = base.settings if advantage == base.advantage else settings_of_advantage(advantage)
    checked = _checked(changes, {**axes, **{name: type(value) for name, value in settings.items()}})
    of_loss = dataclasses.replace(base.loss, **_checked(loss, get_type_hints(Loss)))
    given = {name: checked.pop(name) for name in settings if name in checked}
    return dataclasses.replace(base, **checked, settings={**settings, **given}, loss=of_loss)


def _checked(values: Mapping[str, Any], kinds: Mapping[str, Any]) -> dict[str, Any]:
    for name in values:
        if name not in kinds:
            raise InputError(f"there is no axis {name!r}. {suggest(name, kinds)}")
    return {name: _fit(name, value, kinds[name]) for name, value in values.items()}


def _fit(name: str, value: Any, kind: Any) -> Any:
    if value == "none" and type(None) in get_args(kind):
        return None
    try:
        return TypeAdapter(kind).validate_python(value, strict=True)
    except ValidationError as error:
        raise InputError(f"{name} is {value!r}. {error.errors()[0]['msg']}.") from error
