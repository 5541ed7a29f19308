"""Decode many responses in one batch with `generate` of transformers."""

import asyncio
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import GenerationConfig

from service.engines.choosing import Row, choose
from service.engines.images import image_tokens
from service.errors import PrerequisiteError

_PREFILL_TOKENS = 16384
"""How many tokens of prompts and responses are read at a time."""
_ARRIVAL_S = 0.02
"""How long an idle decoder waits for more requests."""


class Decoder:
    """Decodes rows in a thread; at most `rows` at a time, whose keys and values take at most `memory` bytes.

    A batch draws until half of its rows have ended. Then the others are read again, together with rows that
    wait: nothing is kept between two batches.
    """

    def __init__(self, model: Any, rows: int, memory: int) -> None:
        self._model, self._limit = model, rows
        self._places = max(memory // bytes_per_token(model), 1)
        model.generation_config = GenerationConfig()  # the settings of the rows alone shape responses
        self._rows: list[Row] = []  # in the order of their arrival
        self.requests: dict[asyncio.Future[None], Sequence[Row]] = {}
        self._task: asyncio.Task[None] | None = None
        self.generated_tokens = 0

    async def draw(self, rows: Sequence[Row]) -> None:
        """Wait until all rows are finished or `end` is called."""
        self._loop = asyncio.get_running_loop()
        done = self._loop.create_future()
        self.requests[done] = rows
        self._rows += rows
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        try:
            await done
        finally:
            del self.requests[done]
            for row in rows:
                row.is_dropped = True

    def end(self) -> None:
        """Drop all unfinished rows."""
        for row in self._rows:
            row.is_dropped = True
        self._report()

    async def close(self) -> None:
        """Drop all unfinished rows and wait until nothing is decoded."""
        self.end()
        if self._task is not None:
            await self._task

    def _report(self, error: Exception | None = None) -> None:
        """End the requests without an open row; with an error all of them."""
        for done, rows in self.requests.items():
            if done.done():
                continue
            if error is not None:
                done.set_exception(error)
            elif not any(row.is_open for row in rows):
                done.set_result(None)

    async def _run(self) -> None:
        await asyncio.sleep(_ARRIVAL_S)
        try:
            while batch := self._pick():
                await asyncio.to_thread(self._draw_half, batch)
        except torch.OutOfMemoryError:
            self._report(
                PrerequisiteError(
                    "The responses do not fit into the GPU's memory. Lower batch_size or max_tokens, or use "
                    "a smaller model, a smaller dtype or another GPU."
                )
            )
        except Exception as error:
            self._report(error)

    def _pick(self) -> list[Row]:
        """Return the first rows that fit into a batch; only rows with the same images share one."""
        self._rows = [row for row in self._rows if row.is_open]
        picked: list[Row] = []
        longest = 0
        for row in self._rows:
            if row.images is not self._rows[0].images:
                continue
            longest = max(longest, len(row.prompt) + row.max_tokens)
            if len(picked) == self._limit or (picked and (len(picked) + 1) * longest > self._places):
                break
            picked.append(row)
        return picked

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def _draw_half(self, rows: Sequence[Row]) -> None:
        """Read prompts and the tokens so far, and draw until half of the rows have ended.

        With images all rows are drawn to their end.
        """
        model, images = self._model, rows[0].images
        read = [torch.tensor([*row.prompt, *row.tokens]) for row in rows]
        ids, mask = (
            pad_sequence(each, batch_first=True, padding_side="left").to(model.device)
            for each in (read, [torch.ones_like(tokens) for tokens in read])
        )
        inputs: dict[str, Any] = {}
        if images:
            inputs = {
                name: value.to(model.device, model.dtype if value.is_floating_point() else value.dtype)
                for name, value in images().items()
                if name not in ("input_ids", "attention_mask")
            }
            _, inputs = model._expand_inputs_for_generation(len(rows), input_ids=ids[:1], **inputs)
        some_wait = len(self._rows) > len(rows)

        def force_tokens(_: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            places = [place for place, row in enumerate(rows) if row.is_open]
            choose(scores[places], [rows[place] for place in places])
            self.generated_tokens += len(places)
            if not all(rows[place].is_open for place in places):
                self._loop.call_soon_threadsafe(self._report)
            forced = torch.full_like(scores, -torch.inf)
            forced[places, [rows[place].tokens[-1] for place in places]] = 0.0
            return forced

        def is_over(_: torch.Tensor, scores: Any, **__: Any) -> torch.Tensor:
            unfinished = sum(row.is_open for row in rows)
            places = len(rows) if some_wait else min(self._limit, len(self._rows))
            is_over = unfinished == 0 if images else 2 * unfinished <= places
            return torch.full((len(rows),), is_over, device=model.device)

        chunk = max(_PREFILL_TOKENS // len(rows), 1)
        settings = GenerationConfig(
            max_new_tokens=max(row.max_tokens - len(row.tokens) for row in rows),
            do_sample=False,
            suppress_tokens=sorted(image_tokens(model.config)) or None,
            prefill_chunk_size=chunk if chunk < ids.shape[1] and not images else None,
        )
        model.generate(
            ids,
            attention_mask=mask,
            generation_config=settings,
            logits_processor=[force_tokens],
            stopping_criteria=[is_over],
            **inputs,
        )


def bytes_per_token(model: Any) -> int:
    """Return the size of the keys and values of one token."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_attention_heads", 1)
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    heads = getattr(config, "num_key_value_heads", None) or heads
    return 2 * int(config.num_hidden_layers * heads * size * model.dtype.itemsize)
