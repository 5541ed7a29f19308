"""What the study of recipes compares, at which rates, with which seeds.

`docs/studies/recipes.md` says the same in words; it was written before the runs.
"""

from __future__ import annotations

from dataclasses import dataclass

SMALL = 256
"""Questions of a world that is not named by another number."""


@dataclass(frozen=True)
class Compared:
    """What is compared: 8 responses to a question each.

    Attributes:
        recipe: of tagrpo.
        changes: of the recipe.
        rate_of: whose tuned rate it has, by the study's name; None: it is tuned itself.
    """

    recipe: str
    changes: tuple[str, ...] = ()
    rate_of: str | None = None


RECIPES = {
    "grpo": Compared("grpo"),
    "ta_rescue": Compared("ta_rescue"),
    "ta_grpo_tapered": Compared("ta_grpo_tapered"),
    "ta_grpo_2": Compared("ta_grpo", ("responses=2",)),
}
"""By the study's name."""


def _rescue(*changes: str) -> Compared:
    return Compared("ta_rescue", changes, "ta_rescue")


ABLATIONS = {
    "rescue_untapered": _rescue("anchor=question"),
    "rescue_own": _rescue("anchor=own"),
    "rescue_dropped": _rescue("anchor=dropped"),
    "rescue_kl": _rescue("loss.kl_coef=0.001"),
    "grpo_kl": Compared("grpo", ("loss.kl_coef=0.001",), "grpo"),
    "max_rl": Compared("max_rl", rate_of="grpo"),
}


def _of(share: float) -> str:
    return f"data.train_max_samples={round(SMALL * share)}"


SCALING = {
    **{f"grpo_{share}": Compared("grpo", (_of(share),), "grpo") for share in (1, 1.5, 2, 2.5)},
    **{f"ta_rescue_{share}": _rescue(_of(share)) for share in (1, 2.5)},
}
"""So many times `SMALL` questions, a random part by the seed of the data (arXiv 2601.22478, section 5.5)."""

ALL = {**RECIPES, **ABLATIONS, **SCALING}
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
    "scale": Stage(tuple(SCALING), None, _FIVE, (120,), ("A640",)),
}
