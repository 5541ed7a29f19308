"""Grading of a row's responses by verl's reward workers, with verl's own protocol."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import ray
import torch
from tensordict import TensorDict
from verl import DataProto

_OF_THE_LOOP = ("neighbors", "neighbor_ids", "neighbor_strategies")
"""Columns that only the agent loop reads."""


async def grade_by_worker(
    outputs: Sequence[Any], row: Mapping[str, Any], workers: int
) -> list[BaseException | None]:
    """Write rewards into the outputs and return their errors; an output with one keeps the reward None.

    Args:
        outputs: responses to the row.
        row: its columns.
        workers: number of verl's reward workers, which verl has named; one of them grades.
    """
    worker = ray.get_actor(f"reward_loop_worker_{random.randrange(workers)}")
    graded = await asyncio.gather(
        *(worker.compute_score.remote(_to_grade(output, row)) for output in outputs), return_exceptions=True
    )
    for output, score in zip(outputs, graded, strict=True):
        if not isinstance(score, BaseException):
            output.reward_score = score["reward_score"]
            output.extra_fields["reward_extra_info"] = score["reward_extra_info"]
    return [score if isinstance(score, BaseException) else None for score in graded]


def _to_grade(output: Any, row: Mapping[str, Any]) -> DataProto:
    """Return a response to a row as input of a reward worker, in verl's columns."""
    prompt, response = (
        torch.tensor([ids], dtype=torch.int64) for ids in (output.prompt_ids, output.response_ids)
    )
    both = torch.cat([prompt, response], dim=-1)
    tensors = {
        "prompts": prompt,
        "responses": response,
        "attention_mask": torch.ones_like(both),
        "input_ids": both,
        "position_ids": torch.arange(both.shape[-1])[None],
    }
    others = {name: value for name, value in row.items() if name not in _OF_THE_LOOP}
    others |= {"__num_turns__": output.num_turns, "tool_extra_fields": output.extra_fields}
    others |= {"prompt_len": prompt.shape[-1], "response_len": response.shape[-1]}
    columns = {name: np.empty(1, dtype=object) for name in others}
    for name, value in others.items():
        columns[name][0] = value
    return DataProto(batch=TensorDict(tensors, batch_size=1), non_tensor_batch=columns)
