"""A reward by rule: the parity of a response's characters; some questions are always right or wrong."""

import os
from typing import Any

ALWAYS_RIGHT, ALWAYS_WRONG = "0", "1"
LAST_CALL = "TAGRPO_REWARD_LAST_CALL"
"""How many calls a reward worker answers before its process ends; none: all."""

_calls: list[None] = []


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, Any] | None = None, **_: Any
) -> dict[str, float]:
    _calls.append(None)
    if len(_calls) > int(os.environ.get(LAST_CALL, 10**9)):
        os._exit(1)
    if ground_truth in (ALWAYS_RIGHT, ALWAYS_WRONG):
        right = ground_truth == ALWAYS_RIGHT
    else:
        right = sum(map(ord, solution_str)) % 2 == 1
    unknown = not right and sum(map(ord, solution_str)) % 10 == 0
    return {"score": float(right), "acc": float(right), "unknown": float(unknown)}
