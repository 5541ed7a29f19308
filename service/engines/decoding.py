"""Decode many responses in one batch that finished responses leave and waiting ones join."""

import copy
import inspect
from bisect import insort
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

LoadImages = Callable[[], Mapping[str, torch.Tensor]]
"""Returns the model's arguments for the images of a prompt (`pixel_values`, ...)."""


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

    def __post_init__(self) -> None:
        self.numbers = np.random.Generator(np.random.Philox(key=self.seed))

    @property
    def order(self) -> tuple[int, int, tuple[int, ...]]:
        """The order of waiting rows; rows that read the same are equal."""
        return len(self.prompt), id(self.images), self.prompt

    def add(self, token: int) -> None:
        """Append a token and note whether the response ends with it."""
        self.tokens.append(token)
        if token in self.stop_ids or (self.ends is not None and self.ends(self.tokens)):
            self.stop_reason = "stop"
        elif len(self.tokens) >= self.max_tokens:
            self.stop_reason = "length"


class Decoder:
    """Decodes rows; at most `rows` at a time, whose keys and values take at most `memory` bytes.

    Rows with the same prompt share its reading. `never` are tokens that are not drawn.
    """

    def __init__(self, model: Any, rows: int, memory: int, never: frozenset[int] = frozenset()) -> None:
        self._model, self._limit, self._never = model, rows, sorted(never)
        self._accepted = frozenset(inspect.signature(model.forward).parameters)
        self._waiting: list[Row] = []  # by length, the longest last; equal prompts side by side
        self._running: list[Row] = []
        self._cache: Cache = DynamicCache()
        self._width = 0  # columns of the cache
        self._starts: list[int] = []  # the first column of each running row
        self._shifts: list[int] = []  # what images save in positions: they take fewer than tokens
        self._read_last: dict[Any, Row] = {}  # whose prompts `_last` is of, for rows that come later
        self._last: Any = None
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

    @property
    def open_rows(self) -> int:
        """The number of rows that are waiting or being drawn."""
        return len(self._waiting) + len(self._running)

    def add(self, rows: Sequence[Row]) -> None:
        """Queue rows; the longest prompts start first."""
        for row in rows:
            insort(self._waiting, row, key=lambda row: row.order)

    def clear(self) -> None:
        """Forget all rows."""
        self._waiting.clear()
        self._keep([])

    def step(self) -> list[Row]:
        """Fill free places and draw one token of every running row; return the finished rows."""
        joining = self._pick()
        try:
            with torch.inference_mode():
                for (length, _), alike in groupby(joining, key=lambda row: row.order[:2]):
                    prompts = [list(rows) for _, rows in groupby(alike, key=lambda row: row.order)]
                    for part in in_parts(prompts, max(_PREFILL_TOKENS // length, 1)):
                        self._start([row for rows in part for row in rows])
                finished = self._drop_finished()
                if self._running:
                    self._decode()
                    finished += self._drop_finished()
        except torch.OutOfMemoryError as error:
            raise PrerequisiteError(
                "The responses do not fit into the GPU's memory. Lower batch_size or max_tokens, or use a "
                "smaller model, a smaller dtype or another GPU."
            ) from error
        return finished

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

    def _start(self, rows: Sequence[Row]) -> None:
        """Read prompts of one length, draw the first tokens of rows, and let the rows join the batch."""
        asked = {row.order: row for row in rows}
        if not asked.keys() <= self._read_last.keys():
            self._read_last = asked
            self._last = self._read(list(asked.values()))
        read, logits, shift = self._last
        places = list(self._read_last)
        chosen = torch.tensor([places.index(row.order) for row in rows], device=self._model.device)
        self._choose(logits[chosen], rows)
        cache = Cache(layers=[copy.copy(layer) for layer in read.layers])
        cache.reorder_cache(chosen)
        length = len(rows[0].prompt)
        if self._running:
            _append(self._cache, cache)
            self._starts = [start + max(length - self._width, 0) for start in self._starts]
        else:
            self._cache = cache
        self._width = max(self._width, length)
        self._starts += [self._width - length] * len(rows)
        self._running += rows
        self._shifts += [shift] * len(rows)

    def _read(self, rows: Sequence[Row]) -> tuple[Cache, torch.Tensor, int]:
        """Let the model read prompts of one length; return their cache, last logits and shift."""
        device, images = self._model.device, rows[0].images
        seen = {name: value.to(device) for name, value in images().items()} if images else {}
        ids = torch.tensor([row.prompt for row in rows], device=device)
        positions, shift = torch.arange(ids.shape[1], device=device).expand(len(ids), -1), 0
        if seen and hasattr(self._model.model, "get_rope_index"):
            # Positions of time, row and column, as in Qwen2-VL (arXiv 2409.12191, section 2.1).
            positions = self._model.model.get_rope_index(
                ids,
                mm_token_type_ids=seen["mm_token_type_ids"],
                image_grid_thw=seen.get("image_grid_thw"),
                attention_mask=torch.ones_like(ids),
            )[0]
            shift = int(positions.max()) + 1 - ids.shape[1]
        cache = DynamicCache()  # without a config: it keeps every token, also of layers with a window
        return cache, self._forward(ids, cache, positions, **seen), shift

    def _decode(self) -> None:
        """Draw one token of every running row."""
        device, mask = self._model.device, None
        if max(self._starts) > 0:
            columns = torch.arange(self._width + 1, device=device)
            mask = (columns[None] >= torch.tensor(self._starts, device=device)[:, None]).long()
        lengths = [
            [self._width - start + shift] for start, shift in zip(self._starts, self._shifts, strict=True)
        ]
        ids = torch.tensor([row.tokens[-1:] for row in self._running], device=device)
        logits = self._forward(ids, self._cache, torch.tensor(lengths, device=device), mask)
        self._width += 1
        self._choose(logits, self._running)

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

    def _drop_finished(self) -> list[Row]:
        """Take finished rows out of the batch and return them."""
        finished = [row for row in self._running if row.stop_reason]
        if finished:
            self._keep([place for place, row in enumerate(self._running) if not row.stop_reason])
        return finished

    def _keep(self, places: list[int]) -> None:
        """Take all running rows except those at `places` out of the batch."""
        self._running = [self._running[place] for place in places]
        self._starts = [self._starts[place] for place in places]
        self._shifts = [self._shifts[place] for place in places]
        if not places:
            self._cache, self._width = DynamicCache(), 0
            if not self._waiting:
                self._read_last, self._last = {}, None  # the weights may change before the next row comes
            return
        self._cache.reorder_cache(torch.tensor(places, device=self._model.device))
        if unused := min(self._starts):
            for layer in self._cache.layers:
                layer.keys, layer.values = layer.keys[:, :, unused:], layer.values[:, :, unused:]
            self._starts = [start - unused for start in self._starts]
            self._width -= unused


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
