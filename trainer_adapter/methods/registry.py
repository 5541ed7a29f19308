"""Formulas for recipes, by function name; a user's own formula is `module:function`.

`def NAME_advantages` in a file of `advantages` is the advantage NAME; the same holds for token weights and
surrogates. Only looking up the function imports its file and torch.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from service.errors import InputError
from service.own_code import is_own, load_function, source_hash


def _locate(folder: str, ending: str) -> dict[str, str]:
    """Return the module and function of each formula in a folder, by name."""
    return {
        name: f"trainer_adapter.methods.{folder}.{path.stem}:{name}_{ending}"
        for path in sorted((Path(__file__).parent / folder).glob("*.py"))
        for name in re.findall(rf"^def ([a-z]\w*)_{ending}\(", path.read_text(encoding="utf-8"), re.M)
    }


FORMULAS: dict[str, dict[str, str]] = {
    "advantage": _locate("advantages", "advantages"),
    "weights": _locate("token_weights", "weights"),
    "surrogate": _locate("losses", "surrogate"),
}
"""Formulas by axis of a recipe.

- advantage: f(rewards_B, groups) -> B. It may also take `correct_B` and `lengths_B` by these names. Its other
  keyword parameters with a number as default are settings of the recipe (`settings_of_advantage`).
- weights: f(log_prob_BT, advantages_B, mask_BT) -> BT. It may also take `groups`, `generator`, `clip_low` and
  `clip_high`. Log-probs are those before the update; the batch is the whole step.
- surrogate: f(log_prob_BT, old_log_prob_BT, advantages_BT) -> loss of each token, BT, or a `Surrogate`. It
  may also take `clip_low`, `clip_high`, `dual_clip` and `mask_BT`. The batch is a micro-batch of one worker.
"""


def find_formula(axis: str, name: str) -> Callable[..., Any]:
    """Return the function of a formula."""
    formulas = FORMULAS[axis]
    if name in formulas:
        reference = formulas[name]
    elif is_own(name):
        reference = name
    else:
        raise InputError(f"{axis} {name!r} is not a known formula; {list_names(axis)}.")
    return load_function(reference, f"{axis} {name}")


def settings_of_advantage(name: str) -> dict[str, float]:
    """Return the settings of an advantage and their defaults."""
    parameters = inspect.signature(find_formula("advantage", name)).parameters.values()
    return {each.name: each.default for each in parameters if type(each.default) in (int, float)}


def list_names(axis: str) -> str:
    """Return the valid names of an axis, as text."""
    return f"available: {', '.join(FORMULAS[axis])}; or give your own function as module:function"


def call(function: Callable[..., Any], /, *arguments: Any, **offered: Any) -> Any:
    """Call a formula with `arguments`, and with those of `offered` that it has as parameters."""
    taken = inspect.signature(function).parameters
    return function(*arguments, **{name: value for name, value in offered.items() if name in taken})


def user_sources(names: Mapping[str, str]) -> dict[str, str]:
    """Return a hash of the file of each of the user's own formulas, by its name; {} where there are none."""
    hashes = {}
    for axis, name in names.items():
        if is_own(name):
            find_formula(axis, name)
            hashes[name] = source_hash(name)
    return hashes
