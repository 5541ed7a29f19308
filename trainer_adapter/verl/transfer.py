"""All calls of TransferQueue, in which verl keeps the rows of a step.

`batch` is verl's handle on rows: their keys, tags and partition.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import ray
import torch
import transfer_queue as tq
import transfer_queue.interface as queues
from tensordict import NonTensorStack, TensorDict

from service.errors import PrerequisiteError

_ENDING_S = 10.0
"""Seconds that Ray may take to remove a killed training."""

_ANOTHER = (
    "another training run uses this Ray cluster, and verl would mix the responses of both. Wait until "
    "it ends, or start a separate cluster."
)


def read_rows(batch: Any, fields: Sequence[str] | None = None, keys: Sequence[str] | None = None) -> Any:
    """Return fields of rows as a TensorDict; by default every field of every row of the batch."""
    chosen = {} if fields is None else {"select_fields": list(fields)}
    return tq.kv_batch_get(
        keys=list(batch.keys if keys is None else keys), partition_id=batch.partition_id, **chosen
    )


def write_fields(batch: Any, fields: Any) -> Any:
    """Write fields, a TensorDict, of all rows of the batch; return verl's handle with these fields."""
    return tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)


def add_rows(
    batch: Any,
    keys: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    tags: Sequence[Mapping[str, Any]],
) -> None:
    """Add rows to the batch's partition."""
    fields = _columns(rows)
    held = [dict(tag) for tag in tags]
    tq.kv_batch_put(keys=list(keys), partition_id=batch.partition_id, fields=fields, tags=held)


def with_rows(batch: Any, keys: Sequence[str], tags: Sequence[Mapping[str, Any]]) -> Any:
    """Return verl's handle on other rows of the batch's partition."""
    return type(batch)(
        partition_id=batch.partition_id,
        keys=list(keys),
        tags=list(tags),
        fields=batch.fields,
        extra_info=batch.extra_info,
    )


def remove_rows(batch: Any, keys: Sequence[str]) -> None:
    """Remove rows from the batch's partition."""
    tq.kv_clear(keys=list(keys), partition_id=batch.partition_id)


def _columns(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return rows as a TensorDict: tensors of equal shapes stacked, others jagged, anything else as it is."""
    columns: dict[str, Any] = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        if not all(isinstance(value, torch.Tensor) for value in values):
            columns[name] = NonTensorStack(*values)
        elif len({value.shape for value in values}) == 1:
            columns[name] = torch.stack(values)
        else:
            columns[name] = torch.nested.as_nested_tensor(values, layout=torch.jagged)
    return TensorDict(columns, batch_size=[len(rows)])


def wait_for_responses(partition: str, look_every_s: float) -> None:
    """Wait until no response to a question of a partition is under way."""
    while any(
        tag.get("status") in ("pending", "running")
        for tag in (tq.kv_list(partition) or {}).get(partition, {}).values()
    ):
        time.sleep(look_every_s)


def check_queue() -> None:
    """Raise if another training runs on this Ray cluster: verl keeps the responses of both in one queue."""
    ends = time.monotonic() + _ENDING_S
    while ray.is_initialized():
        try:
            controller = ray.get_actor("TransferQueueController", namespace="transfer_queue")
        except ValueError:
            return
        if _is_own(controller):
            return
        if time.monotonic() > ends:
            raise PrerequisiteError(_ANOTHER)
        time.sleep(1)


def check_connection() -> None:
    """Raise if verl has connected to the queue of a training that was started in the same seconds.

    The other's queue is forgotten first; otherwise verl would end it when it exits.
    """
    if queues._TQ_CONTROLLER is not None and not _is_own(queues._TQ_CONTROLLER):
        queues._TQ_CONTROLLER = None
        raise PrerequisiteError(_ANOTHER)


def _is_own(controller: Any) -> bool:
    return bool(controller._actor_id.job_id.hex() == ray.get_runtime_context().get_job_id())
