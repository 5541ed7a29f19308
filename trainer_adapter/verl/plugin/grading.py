"""Grading of responses in the process that draws them, by the reward function of verl's config."""

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from verl.trainer.ppo.reward import get_custom_reward_fn

from service.errors import InputError

_loaded: list[tuple[Any, Any]] = []


def reward_function(config: Any) -> Any:
    """Return the reward function of verl's config; a process loads it once.

    It runs in the process that asks for it, which ends with a function that ends its process.
    """
    reward = config.reward
    by_function = reward.custom_reward_function.path and not reward.reward_model.enable
    if not by_function or reward.reward_manager.name != "naive":
        raise InputError(
            "responses are graded where they are sampled. Set reward.custom_reward_function, and keep "
            "reward.reward_model.enable=false and reward.reward_manager.name=naive."
        )
    if not _loaded or _loaded[0][0] is not config:
        _loaded[:] = [(config, get_custom_reward_fn(config))]
    return _loaded[0][1]


async def grade(
    function: Any, tokenizer: Any, outputs: Sequence[Any], row: Mapping[str, Any]
) -> list[BaseException | None]:
    """Write rewards into the responses to a row, as verl's reward workers do, and return their errors."""
    graded = [_grade(function, tokenizer, output, row) for output in outputs]
    return list(await asyncio.gather(*graded, return_exceptions=True))


async def _grade(function: Any, tokenizer: Any, output: Any, row: Mapping[str, Any]) -> None:
    given = {
        "data_source": row["data_source"],
        "solution_str": tokenizer.decode(output.response_ids, skip_special_tokens=True),
        "ground_truth": row["reward_model"]["ground_truth"],
        "extra_info": {
            **(row.get("extra_info") or {}),
            **output.extra_fields,
            "num_turns": output.num_turns,
            "rollout_reward_scores": {},
        },
    }
    if inspect.iscoroutinefunction(function):
        graded = await function(**given)
    else:
        graded = await asyncio.to_thread(function, **given)
    is_score = not isinstance(graded, Mapping)
    output.reward_score = graded if is_score else graded["score"]
    output.extra_fields["reward_extra_info"] = {"acc": graded} if is_score else dict(graded)
