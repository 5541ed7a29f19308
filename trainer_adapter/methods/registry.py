"""All formulas that a recipe can name, with their location; a user's own is `module:function`.

A formula is a function in a file, and a line here. Only looking up the function imports its file and torch.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from service.errors import InputError
from service.own_code import is_own, load_function, source_hash

ADVANTAGES: dict[str, str] = {
    "grpo": "advantages.grpo:grpo_advantages",
    "dr_grpo": "advantages.grpo:dr_grpo_advantages",
    "rloo": "advantages.rloo:rloo_advantages",
    "max_rl": "advantages.max_rl:max_rl_advantages",
    "a_grae": "advantages.a_grae:a_grae_advantages",
    "a_grae_sample": "advantages.a_grae:a_grae_sample_advantages",
    "a_grae_group": "advantages.a_grae:a_grae_group_advantages",
    "dr_grpo_a_grae": "advantages.a_grae:dr_grpo_a_grae_advantages",
    "positive_dominant": "advantages.a_grae:positive_dominant_advantages",
    "negative_dominant": "advantages.a_grae:negative_dominant_advantages",
    "hard_focused": "advantages.a_grae:hard_focused_advantages",
    "easy_focused": "advantages.a_grae:easy_focused_advantages",
    "grpo_lead": "advantages.grpo_lead:lead_advantages",
    "w_reinforce": "advantages.w_reinforce:w_reinforce_advantages",
}
"""f(rewards_B, groups) -> B; may also take `alpha`, `correct_B`, `lengths_B` by these names."""

A_GRAE = ("a_grae", "a_grae_sample", "a_grae_group", "dr_grpo_a_grae")
"""Advantages that use `alpha`; listed by name, so that checking this does not import torch."""

TOKEN_WEIGHTS: dict[str, str] = {
    "cw_grpo": "token_weights.cw_grpo:cw_weights",
    "clip_cov": "token_weights.clip_cov:clip_cov_weights",
}
"""f(log_prob_BT, advantages_B, mask_BT) -> BT; may also take `groups`, `generator`, `clip_low`, `clip_high`.
Log-probs are those before the update; the batch is the whole step."""

SURROGATES: dict[str, str] = {"clipped": "losses.policy:clipped_surrogate"}
"""f(log_prob_BT, old_log_prob_BT, advantages_BT) -> loss of each token, BT, or a `Surrogate`; may also take
`clip_low`, `clip_high`, `dual_clip` and `mask_BT`. The batch is a micro-batch of one worker.
"""

FORMULAS: dict[str, dict[str, str]] = {
    "advantage": ADVANTAGES,
    "weights": TOKEN_WEIGHTS,
    "surrogate": SURROGATES,
}
"""Formulas by axis of a recipe."""


def find_formula(axis: str, name: str) -> Callable[..., Any]:
    """Return the function of a formula.

    Raises:
        InputError: there is none with this name, or its module cannot be imported.
    """
    formulas = FORMULAS[axis]
    if name in formulas:
        reference = f"trainer_adapter.methods.{formulas[name]}"
    elif is_own(name):
        reference = name
    else:
        raise InputError(f"{axis} {name!r} is not a formula; {list_names(axis)}.")
    return load_function(reference, f"{axis} {name}")


def takes_alpha(advantage: str) -> bool:
    """Return whether an advantage, built in or the user's own, uses a recipe's `alpha`.

    Raises:
        InputError: see `find_formula`.
    """
    if not is_own(advantage):
        return advantage in A_GRAE
    return "alpha" in inspect.signature(find_formula("advantage", advantage)).parameters


def list_names(axis: str) -> str:
    """Return the valid names of an axis, as text."""
    return f"available: {', '.join(FORMULAS[axis])}; or give your own as module:function"


def call(function: Callable[..., Any], /, *arguments: Any, **offered: Any) -> Any:
    """Call a formula with `arguments`, and with those of `offered` that it has as parameters."""
    taken = inspect.signature(function).parameters
    return function(*arguments, **{name: value for name, value in offered.items() if name in taken})


def user_sources(names: Mapping[str, str]) -> dict[str, str]:
    """Return a hash of the file of each of the user's own formulas, by its name; {} where there are none.

    Args:
        names: of formulas, by axis.

    Raises:
        InputError: see `find_formula`.
    """
    hashes = {}
    for axis, name in names.items():
        if is_own(name):
            find_formula(axis, name)
            hashes[name] = source_hash(name)
    return hashes
