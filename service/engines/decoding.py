"""Decode many responses in one batch that finished responses leave and waiting ones join."""

import asyncio
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch.nn.functional import pad
from transformers import DynamicCache
from transformers.cache_utils import Cache, DynamicLayer, DynamicSlidingWindowLayer

from service.database import in_parts
from service.engines.choosing import choose_tokens, log_probs, penalize
from service.errors import PrerequisiteError
from service.models.settings import Sampling

_PREFILL_TOKENS = 4096
_REFILL_SHARE = 8
"""Waiting responses join when one place in this many is free."""
_ARRIVAL_S, _TURN_S = 0.02, 0.1
"""How long an idle loop waits for more requests, and how long it decodes before new ones can join."""

LoadImages = Callable[[], Mapping[str, torch.Tensor]]
"""Returns what the model's processor makes of the images of a prompt (`pixel_values`, ...)."""


@dataclass(eq=False)
class Row:
    """One response being drawn. `ends` returns whether the tokens so far end it (a stop text).

    Rows of one prompt with images have the same `images`, so that the prompt is read once.
    `log_probs` gets the log-probability of each token; None: they are not computed.
    """

    prompt: tuple[int, ...]
    max_tokens: int
    seed: int
    how: Sampling
    stop_ids: frozenset[int]
    ends: Callable[[Sequence[int]], bool] | None = None
    images: LoadImages | None = None
    log_probs: list[float] | None = None
    tokens: list[int] = field(default_factory=list)
    stop_reason: str | None = None
    shift: int = 0
    """What images save in positions: they take fewer than tokens."""

    def __post_init__(self) -> None:
        self.numbers = np.random.Generator(np.random.Philox(key=self.seed))

    @property
    def cached(self) -> int:
        """The number of tokens whose keys and values are kept: all but the last."""
        return len(self.prompt) + len(self.tokens) - 1

    def add(self, token: int) -> None:
        """Append a token and note whether the response ends with it."""
        self.tokens.append(token)
        if token in self.stop_ids or (self.ends is not None and self.ends(self.tokens)):
            self.stop_reason = "stop"
        elif len(self.tokens) >= self.max_tokens:
            self.stop_reason = "length"


class Decoder:
    """Decodes rows in a thread; at most `rows` at a time, whose keys and values take at most `memory` bytes.

    Rows that start together share the reading of equal prompts. `never` are tokens that are not drawn.
    """

    def __init__(self, model: Any, rows: int, memory: int, never: frozenset[int] = frozenset()) -> None:
        self._model, self._limit, self._never = model, rows, sorted(never)
        self._accepted = frozenset(inspect.signature(model.forward).parameters)
        self.requests: dict[asyncio.Future[None], Sequence[Row]] = {}
        self._task: asyncio.Task[None] | None = None
        self._arrived: list[Row] = []
        self._open: set[Row] = set()  # the rows of requests that have not ended
        self._waiting: list[Row] = []  # by length, the longest last; equal prompts side by side
        self._running: list[Row] = []
        self._cache: Cache = DynamicCache()  # its rows are padded on the left
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
        self._places = max(memory // bytes_per_token(model), 1)

    async def draw(self, rows: Sequence[Row]) -> None:
        """Wait until all rows are finished or `end` is called."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.requests[done] = rows
        self._arrived += rows
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        try:
            await done
        finally:
            del self.requests[done]

    def end(self, error: Exception | None = None) -> None:
        """Drop all unfinished requests."""
        for done in self.requests:
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
            while not all(done.done() for done in self.requests):
                arrived, self._arrived = self._arrived, []
                requests = self.requests.items()
                self._open = {row for done, rows in requests if not done.done() for row in rows}
                waiting = [row for row in (*self._waiting, *arrived) if row in self._open]
                self._waiting = sorted(waiting, key=lambda row: (*_group(row), row.prompt))
                await asyncio.to_thread(self._turn)
                for done, rows in self.requests.items():
                    if not done.done() and all(row.stop_reason for row in rows):
                        done.set_result(None)
        except torch.OutOfMemoryError:
            message = (
                "The responses do not fit into the GPU's memory. Lower batch_size or max_tokens, or use a "
                "smaller model, a smaller dtype or another GPU."
            )
            self.end(PrerequisiteError(message))
        except Exception as error:
            self.end(error)
        self._arrived, self._waiting, self._running, self._cache = [], [], [], DynamicCache()
        self._open = set()

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def _turn(self) -> None:
        """Decode until a row finishes or `_TURN_S` has passed."""
        until, finished = time.monotonic() + _TURN_S, False
        while not finished and (self._waiting or self._running) and time.monotonic() < until:
            for (length, _), alike in groupby(self._pick(), key=_group):
                prompts = [list(rows) for _, rows in groupby(alike, key=lambda row: row.prompt)]
                for part in in_parts(prompts, max(_PREFILL_TOKENS // length, 1)):
                    self._start(part)
            finished = self._drop_finished()
            if self._running:
                self._decode()
                finished |= self._drop_finished()

    def _pick(self) -> list[Row]:
        """Take the waiting rows that fit into the batch."""
        free = self._limit - len(self._running)
        if self._running and free * _REFILL_SHARE < self._limit:
            return []
        picked: list[Row] = []
        longest = max((len(row.prompt) + row.max_tokens for row in self._running), default=0)
        while self._waiting and len(picked) < free:
            row = self._waiting[-1]
            longest = max(longest, len(row.prompt) + row.max_tokens)
            rows = len(self._running) + len(picked)
            if rows and (rows + 1) * longest > self._places:
                break
            picked.append(self._waiting.pop())
        return picked

    def _start(self, groups: Sequence[Sequence[Row]]) -> None:
        """Read prompts of one length, draw the first tokens of their rows, and let these join the batch."""
        device, images = self._model.device, groups[0][0].images
        rows = [row for group in groups for row in group]
        ids = torch.tensor([group[0].prompt for group in groups], device=device)
        seen = {
            name: value.to(device, self._model.dtype if value.is_floating_point() else value.dtype)
            for name, value in (images().items() if images else ())
            if name not in ("input_ids", "attention_mask")
        }
        positions = torch.arange(ids.shape[1], device=device).expand(len(ids), -1)
        if seen and hasattr(self._model.model, "get_rope_index"):
            # Positions of time, row and column, as in Qwen2-VL (arXiv 2409.12191, section 2.1).
            positions = self._model.model.get_rope_index(
                ids,
                mm_token_type_ids=seen["mm_token_type_ids"],
                image_grid_thw=seen.get("image_grid_thw"),
                attention_mask=torch.ones_like(ids),
            )[0]
            for row in rows:
                row.shift = int(positions.max()) + 1 - ids.shape[1]
        cache = DynamicCache()  # without a config: it keeps every token, also of layers with a window
        logits = self._forward(ids, cache, positions, **seen)
        places = [place for place, group in enumerate(groups) for _ in group]
        chosen = torch.tensor(places, device=device)
        cache.reorder_cache(chosen)
        self._choose(logits[chosen], rows)
        if self._running:
            _append(self._cache, cache)
        else:
            self._cache = cache
        self._running += rows

    def _decode(self) -> None:
        """Draw one token of every running row."""
        device, mask = self._model.device, None
        width = self._cache.get_seq_length()
        lengths = torch.tensor([[row.cached] for row in self._running], device=device)
        if any(row.cached < width for row in self._running):
            mask = (torch.arange(width + 1, device=device) >= width - lengths).long()
        shifts = torch.tensor([[row.shift] for row in self._running], device=device)
        ids = torch.tensor([row.tokens[-1:] for row in self._running], device=device)
        self._choose(self._forward(ids, self._cache, lengths + shifts, mask), self._running)

    def _forward(
        self,
        ids: torch.Tensor,
        cache: Cache,
        positions: torch.Tensor,
        mask: torch.Tensor | None = None,
        **seen: torch.Tensor,
    ) -> torch.Tensor:
        """Return the logits (rows, vocabulary) after the last of `ids` (rows, tokens)."""
        optional = {"position_ids": positions, "logits_to_keep": 1, **seen}
        given = {name: value for name, value in optional.items() if name in self._accepted}
        out = self._model(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True, **given)
        last: torch.Tensor = out.logits[:, -1]
        return last

    def _choose(self, logits: torch.Tensor, rows: Sequence[Row]) -> None:
        """Draw the next token of each row."""
        if self._never:
            logits = logits.clone()
            logits[:, self._never] = -torch.inf
        alike: dict[Sampling, list[int]] = {}
        for place, row in enumerate(rows):
            alike.setdefault(row.how, []).append(place)
        for how, places in alike.items():
            chosen = [rows[place] for place in places]
            part = logits if len(alike) == 1 else logits[places]
            part = penalize(part, how, [row.prompt for row in chosen], [row.tokens for row in chosen])
            uniforms = [row.numbers.random() for row in chosen] if how.temperature else []
            tokens = choose_tokens(part, uniforms, how)
            if any(row.log_probs is not None for row in chosen):
                for row, value in zip(chosen, log_probs(part, tokens, how), strict=True):
                    if row.log_probs is not None:
                        row.log_probs.append(value)
            for row, token in zip(chosen, tokens, strict=True):
                row.add(token)
        self.generated_tokens += len(rows)

    def _drop_finished(self) -> bool:
        """Take finished and dropped rows out of the batch; return whether there were any."""
        running = enumerate(self._running)
        places = [place for place, row in running if row in self._open and not row.stop_reason]
        if len(places) == len(self._running):
            return False
        self._running = [self._running[place] for place in places]
        if not places:
            self._cache = DynamicCache()
            return True
        self._cache.reorder_cache(torch.tensor(places, device=self._model.device))
        unused = self._cache.get_seq_length() - max(row.cached for row in self._running)
        for layer in self._cache.layers:
            layer.keys, layer.values = layer.keys[:, :, unused:], layer.values[:, :, unused:]
        return True


def _group(row: Row) -> tuple[int, int]:
    """Tell apart rows that the model cannot read together."""
    return len(row.prompt), id(row.images)


def bytes_per_token(model: Any) -> int:
    """Return the size of the keys and values of one token."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 2 * int(config.num_hidden_layers * heads * size * model.dtype.itemsize)


def _append(cache: Cache, other: Cache) -> None:
    """Append the rows of another cache; zeros pad the shorter rows on the left."""
    for layer, joining in zip(cache.layers, other.layers, strict=True):
        width = max(layer.keys.shape[2], joining.keys.shape[2])
        for name in ("keys", "values"):
            parts = [getattr(each, name) for each in (layer, joining)]
            padded = [pad(part, (0, 0, width - part.shape[2], 0)) for part in parts]
            setattr(layer, name, torch.cat(padded))
