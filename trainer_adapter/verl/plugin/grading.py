"""Grading of a row's responses by verl's reward workers, with verl's own protocol."""

import asyncio
import copy
import logging
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import ray
import torch
from tensordict import TensorDict
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput

_LOG = logging.getLogger("tagrpo.agent_loop")

OF_THE_LOOP = ("neighbors", "neighbor_ids", "neighbor_strategies")
"""Columns that only the agent loop reads; a question's columns are in each of its rows."""


async def grade(
    worker: Any, outputs: Sequence[AgentLoopOutput], row: Mapping[str, Any]
) -> list[BaseException | None]:
    """Write rewards into the outputs in one call or, if that fails, separately.

    Returns the errors of the outputs; an output with an error keeps the reward None.

    Args:
        worker: handle of a reward worker.
        outputs: responses to the row.
        row: its columns.
    """
    try:
        graded = await worker.compute_score_batch.remote(to_grade(outputs, row))
    except Exception:
        _LOG.warning("a reward worker failed on %d responses; grading each separately", len(outputs))
        graded = await asyncio.gather(
            *(worker.compute_score.remote(to_grade([output], row)) for output in outputs),
            return_exceptions=True,
        )
    errors: list[BaseException | None] = []
    for output, score in zip(outputs, graded, strict=True):
        failed = isinstance(score, BaseException)
        errors.append(score if failed else None)
        if not failed:
            output.reward_score = score["reward_score"]
            output.extra_fields["reward_extra_info"] = score["reward_extra_info"]
    return errors


async def grade_by_worker(
    outputs: list[AgentLoopOutput], row: Mapping[str, Any], workers: int
) -> list[BaseException | None]:
    """Grade responses with one of verl's reward workers, which verl has named."""
    worker = ray.get_actor(f"reward_loop_worker_{random.randrange(workers)}")
    return await grade(worker, outputs, row)


def to_grade(outputs: Sequence[AgentLoopOutput], row: Mapping[str, Any]) -> DataProto:
    """Return responses to one row as input of a reward worker, in verl's columns."""
    count = len(outputs)
    widths = [
        max(len(ids) for ids in side)
        for side in zip(*((o.prompt_ids, o.response_ids) for o in outputs), strict=True)
    ]
    prompts = torch.zeros(count, widths[0], dtype=torch.int64)
    responses = torch.zeros(count, widths[1], dtype=torch.int64)
    mask = torch.zeros(count, sum(widths), dtype=torch.int64)
    for place, output in enumerate(outputs):
        asked, answered = len(output.prompt_ids), len(output.response_ids)
        prompts[place, widths[0] - asked :] = torch.tensor(output.prompt_ids)
        responses[place, :answered] = torch.tensor(output.response_ids)
        mask[place, widths[0] - asked : widths[0] + answered] = 1
    tensors = {
        "prompts": prompts,
        "responses": responses,
        "attention_mask": mask,
        "input_ids": torch.cat([prompts, responses], dim=-1),
        "position_ids": (mask.cumsum(-1) - 1).clamp(min=0),
    }
    columns = {name: value for name, value in row.items() if name not in OF_THE_LOOP}
    others = {name: _objects([copy.copy(value) for _ in outputs]) for name, value in columns.items()}
    others["__num_turns__"] = np.array([output.num_turns for output in outputs])
    others["tool_extra_fields"] = _objects([output.extra_fields for output in outputs])
    others["prompt_len"] = np.array([len(output.prompt_ids) for output in outputs])
    others["response_len"] = np.array([len(output.response_ids) for output in outputs])
    return DataProto(batch=TensorDict(tensors, batch_size=count), non_tensor_batch=others)


def _objects(values: Sequence[Any]) -> Any:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
