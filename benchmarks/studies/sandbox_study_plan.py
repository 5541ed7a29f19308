"""What the study of recipes compares, for verl and for the plain loop, at which rates, with which seeds.

`docs/studies/recipes.md` says the same in words; it was written before the runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

SMALL = 256
"""Questions of a world that is not named by another number."""


@dataclass(frozen=True)
class Plain:
    """A recipe of the plain loop, as a difference from GRPO.

    Attributes:
        prompts: the question and how many of its neighbors share the responses of a group.
        rescue: whether half are drawn for the question, and neighbors get the others where all are wrong.
        augments: whether one of the prompts, by chance, gets all of them.
        anchor: what a neighbor's response is trained on: the question, with weight 1 (question), min(1, rho)
            (tapered) or 0 (dropped) where it is no better than its group; or its own prompt (own).
        kl: weight of the penalty.
        divisor: of a reward above its group's mean.
        share: of `SMALL` questions that are trained on; None: all that the world has.
        broken: share of neighbors, by chance, in whose place another question stands.
    """

    prompts: int = 1
    rescue: bool = False
    augments: bool = False
    anchor: Literal["question", "tapered", "dropped", "own"] = "question"
    kl: float = 0.0
    divisor: Literal["deviation", "mean"] = "deviation"
    share: float | None = None
    broken: float = 0.0


@dataclass(frozen=True)
class Compared:
    """What is compared: 8 responses to a question each.

    Attributes:
        recipe: of tagrpo.
        plain: the same for the plain loop.
        changes: of the recipe, for verl; None where the plain loop alone has it.
        rate_of: whose tuned rate it has, by the study's name; None: it is tuned itself.
    """

    recipe: str
    plain: Plain
    changes: tuple[str, ...] | None = ()
    rate_of: str | None = None


_RESCUE, _SPLIT = Plain(4, rescue=True, anchor="tapered"), Plain(4)
RECIPES = {
    "grpo": Compared("grpo", Plain()),
    "ta_rescue": Compared("ta_rescue", _RESCUE),
    "ta_grpo_tapered": Compared("ta_grpo_tapered", replace(_SPLIT, anchor="tapered")),
    "ta_grpo_2": Compared("ta_grpo", _SPLIT, ("responses=2",)),
}
"""By the study's name."""


def _rescue(plain: Plain, *changes: str) -> Compared:
    return Compared("ta_rescue", plain, changes, "ta_rescue")


ABLATIONS = {
    "rescue_untapered": _rescue(replace(_RESCUE, anchor="question"), "anchor=question"),
    "rescue_own": _rescue(replace(_RESCUE, anchor="own"), "anchor=own"),
    "rescue_dropped": _rescue(replace(_RESCUE, anchor="dropped"), "anchor=dropped"),
    "rescue_kl": _rescue(replace(_RESCUE, kl=1e-3), "loss.kl_coef=0.001"),
    "grpo_kl": Compared("grpo", Plain(kl=1e-3), ("loss.kl_coef=0.001",), "grpo"),
    "max_rl": Compared("max_rl", Plain(divisor="mean"), rate_of="grpo"),
}


def _of(share: float) -> str:
    return f"data.train_max_samples={round(SMALL * share)}"


SCALING = {
    **{
        f"grpo_{share}": Compared("grpo", Plain(share=share), (_of(share),), "grpo")
        for share in (1, 1.5, 2, 2.5)
    },
    **{f"ta_rescue_{share}": _rescue(replace(_RESCUE, share=share), _of(share)) for share in (1, 2.5)},
}
"""So many times `SMALL` questions, a random part by the seed of the data (arXiv 2601.22478, section 5.5)."""

HARDER = {
    "augment": Compared("grpo", Plain(4, augments=True, anchor="own"), None, "grpo"),
    "rescue_broken": Compared("ta_rescue", replace(_RESCUE, broken=0.05), None, "ta_rescue"),
    "ta_grpo_2_broken": Compared("ta_grpo", replace(_SPLIT, broken=0.05), None, "ta_grpo_2"),
    "ta_grpo_tapered_broken": Compared(
        "ta_grpo_tapered", replace(_SPLIT, anchor="tapered", broken=0.05), None, "ta_grpo_tapered"
    ),
}
"""A phrasing by chance in place of joint groups; neighbors that ask another question."""

ALL = {**RECIPES, **ABLATIONS, **SCALING, **HARDER}
RATES = (1e-4, 2e-4, 3e-4)
TUNING = (101, 102)


@dataclass(frozen=True)
class Stage:
    """A part of the study: which recipes, at which rates (None: the best of `rates`), seeds and steps."""

    recipes: tuple[str, ...]
    rates: tuple[float, ...] | None
    seeds: tuple[int, ...]
    points: tuple[int, ...]
    worlds: tuple[str, ...] = ("A", "C", "E")


_FIVE = tuple(range(1, 6))
STAGES = {
    "rates": Stage(tuple(RECIPES), RATES, TUNING, (120,)),
    "confirm": Stage(tuple(RECIPES), None, tuple(range(1, 9)), (60, 120, 240)),
    "equal_rate": Stage(("ta_rescue",), (1e-4,), tuple(range(1, 9)), (120, 240), ("C",)),
    "cost": Stage(("grpo", "ta_rescue", "ta_grpo_2"), (1e-4,), tuple(range(1, 21)), (120,), ("C",)),
    "ablate": Stage(tuple(ABLATIONS), None, _FIVE, (120,)),
    "harder": Stage(tuple(HARDER), None, _FIVE, (120,), ("A",)),
    "scale": Stage(tuple(SCALING), None, _FIVE, (120,), ("A640",)),
}
