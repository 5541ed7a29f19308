"""Decode many responses in one batch that finished responses leave and waiting ones join."""

import asyncio
import inspect
import time
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import psutil
import torch
from torch.nn.functional import pad
from transformers import DynamicCache
from transformers.cache_utils import Cache, DynamicLayer, DynamicSlidingWindowLayer

from service.engines.choosing import DROPPED, Row, choose
from service.engines.images import image_tokens
from service.errors import PrerequisiteError

_SHARE_OF_CPU, _SHARE_OF_GPU = 0.4, 0.7  # of the free memory, for keys and values
_REFILL_SHARE = 8
"""Waiting responses join when one place in this many is free."""
_ARRIVAL_S, _TURN_S = 0.02, 0.1
"""How long an idle loop waits for more requests, and how long it decodes before new ones can join."""


class Decoder:
    """Decodes rows in a thread, at most `batch_size` at a time and as many as fit into the free memory.

    Rows that start together share the reading of equal prompts. Tokens that represent images are not drawn.
    """

    def __init__(self, model: Any, batch_size: int) -> None:
        self._model, self._batch_size = model, batch_size
        never = sorted(image_tokens(model.config))
        self._never = torch.tensor(never, dtype=torch.long, device=model.device)
        self._accepted = inspect.signature(model.forward).parameters
        self._requests: dict[asyncio.Future[None], Sequence[Row]] = {}
        self._task: asyncio.Task[None] | None = None
        self._running: list[Row] = []
        self._cache = DynamicCache()  # of the running rows, padded on the left
        self.generated_tokens = 0
        layers = DynamicCache(config=model.config).layers
        if (
            "position_ids" not in self._accepted
            or not hasattr(model.config.get_text_config(), "num_attention_heads")
            or any(type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers)
        ):
            raise PrerequisiteError(
                f"{type(model).__name__} cannot run with transformers in tagrpo: it takes no position ids, "
                "or its layers do not all keep keys and values of each token. Run it with vLLM, or use "
                "another model."
            )
        self._places = max(memory_for_keys(model.device) // bytes_per_token(model), 1)

    async def draw(self, rows: Sequence[Row]) -> None:
        """Wait until all rows are finished, or dropped by `end`."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests[done] = rows
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        try:
            await done
        finally:
            del self._requests[done]
            for row in rows:
                row.stop_reason = row.stop_reason or DROPPED

    def end(self, error: Exception | None = None) -> None:
        """Drop all unfinished requests."""
        for done in self._requests:
            if not done.done():
                done.set_result(None) if error is None else done.set_exception(error)

    async def close(self) -> None:
        """Drop all unfinished requests and wait until nothing is decoded."""
        self.end()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        """Decode until no request is left; requests join and finish between two turns."""
        await asyncio.sleep(_ARRIVAL_S)
        try:
            while self._requests:
                await asyncio.to_thread(self._turn, self._pick())
                for done, rows in self._requests.items():
                    if not done.done() and all(row.stop_reason for row in rows):
                        done.set_result(None)
        except Exception as error:
            if isinstance(error, torch.OutOfMemoryError):
                error = PrerequisiteError(
                    "The responses do not fit into the GPU's memory. Lower batch_size or max_tokens, or use "
                    "a smaller model, a smaller dtype or another GPU."
                )
            self.end(error)
        self._running, self._cache = [], DynamicCache()

    def _pick(self) -> list[Row]:
        """Take the waiting rows that fit into the batch: the longest first, equal prompts side by side."""
        free = self._batch_size - len(self._running)
        if self._running and free * _REFILL_SHARE < self._batch_size:
            return []
        rows = (row for rows in self._requests.values() for row in rows)
        waiting = [row for row in rows if not (row.tokens or row.stop_reason)]
        waiting.sort(key=lambda row: (len(row.prompt), row.read_with), reverse=True)
        longest = max((row.longest for row in self._running), default=0)
        for place, row in enumerate(waiting[:free]):
            longest, batch = max(longest, row.longest), len(self._running) + place
            if batch and (batch + 1) * longest > self._places:
                return waiting[:place]
        return waiting[:free]

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def _turn(self, joining: Sequence[Row]) -> None:
        """Let rows join the batch, then decode until a row finishes or `_TURN_S` has passed."""
        if joining:
            groups = groupby(joining, key=lambda row: row.read_with)
            caches, logits = zip(*(self._read(list(rows)) for _, rows in groups), strict=True)
            self._cache = _join([self._cache, *caches] if self._running else caches)
            self._running += joining
            self._choose(torch.cat(logits), joining)
        until = time.monotonic() + _TURN_S
        while not self._drop_finished() and self._running and time.monotonic() < until:
            self._decode()

    def _read(self, rows: Sequence[Row]) -> tuple[Cache, torch.Tensor]:
        """Read the prompt of rows; return their cache and logits."""
        model, images = self._model, rows[0].images
        ids = torch.tensor([rows[0].prompt], device=model.device)
        inputs = {
            name: value.to(model.device, model.dtype if value.is_floating_point() else value.dtype)
            for name, value in (images().items() if images else ())
            if name not in ("input_ids", "attention_mask")
        }
        # A model like Qwen2-VL finds the positions itself (time, row and column: arXiv 2409.12191, 2.1).
        finds_positions = bool(inputs) and hasattr(model.model, "get_rope_index")
        if not finds_positions:
            inputs["position_ids"] = torch.arange(ids.shape[1], device=model.device)[None]
        cache = DynamicCache()  # without a config: it keeps every token, also of layers with a window
        logits = self._forward(ids, cache, **inputs)
        if finds_positions:
            for row in rows:
                row.shift = int(model.model.rope_deltas)
        cache.batch_repeat_interleave(len(rows))
        return cache, logits.expand(len(rows), -1)

    def _decode(self) -> None:
        """Draw one token of every running row."""
        state = [(row.cached, row.shift, row.tokens[-1]) for row in self._running]
        lengths, shifts, ids = torch.tensor(state, device=self._model.device).T[:, :, None]
        width = self._cache.get_seq_length()
        mask = (torch.arange(width + 1, device=ids.device) >= width - lengths).long()
        logits = self._forward(ids, self._cache, attention_mask=mask, position_ids=lengths + shifts)
        self._choose(logits, self._running)

    def _choose(self, logits: torch.Tensor, rows: Sequence[Row]) -> None:
        choose(logits, rows)
        self.generated_tokens += len(rows)

    def _forward(self, ids: torch.Tensor, cache: Cache, **inputs: torch.Tensor) -> torch.Tensor:
        """Return the logits (rows, vocabulary) after the last of `ids` (rows, tokens)."""
        optional = {**inputs, "logits_to_keep": 1}
        given = {name: value for name, value in optional.items() if name in self._accepted}
        out = self._model(input_ids=ids, past_key_values=cache, use_cache=True, **given)
        logits: torch.Tensor = out.logits[:, -1].index_fill(1, self._never, -torch.inf)
        return logits

    def _drop_finished(self) -> bool:
        """Take finished and dropped rows out of the batch; return whether there were any."""
        places = [place for place, row in enumerate(self._running) if not row.stop_reason]
        if len(places) == len(self._running):
            return False
        self._running = [self._running[place] for place in places]
        self._cache.reorder_cache(torch.tensor(places, dtype=torch.long, device=self._model.device))
        unused = self._cache.get_seq_length() - max((row.cached for row in self._running), default=0)
        for layer in self._cache.layers:
            layer.keys, layer.values = layer.keys[:, :, unused:], layer.values[:, :, unused:]
        return True


def memory_for_keys(device: torch.device) -> int:
    """Return how many bytes keys and values may take: a share of the memory that is free now."""
    if device.type != "cuda":
        return int(_SHARE_OF_CPU * psutil.virtual_memory().available)
    torch.cuda.empty_cache()
    return int(_SHARE_OF_GPU * torch.cuda.mem_get_info(device)[0])


def bytes_per_token(model: Any) -> int:
    """Return the size of the keys and values of one token."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 2 * int(config.num_hidden_layers * heads * size * model.dtype.itemsize)


def _join(caches: Sequence[Cache]) -> Cache:
    """Return a cache with the rows of all; zeros pad the shorter rows on the left."""
    joined = caches[0]
    for layers in zip(*(cache.layers for cache in caches), strict=True):
        width = max(layer.keys.shape[2] for layer in layers)
        for name in ("keys", "values"):
            parts = [getattr(layer, name) for layer in layers]
            padded = [pad(part, (0, 0, width - part.shape[2], 0)) for part in parts]
            setattr(layers[0], name, torch.cat(padded))
    return joined
