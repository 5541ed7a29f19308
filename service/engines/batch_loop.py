"""A small Hugging Face checkpoint behind `ask`: a batch loop on transformers, on a CPU or one GPU."""

import asyncio
import json
import re
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cached_property, partial
from typing import Any

import torch
import transformers

from service.asks.request import SERVER_ERROR, SETTINGS, Answer, Fault, Request, read_reply
from service.engines.checkpoint import CheckpointEndpoint
from service.engines.choosing import Row
from service.engines.decoding import Decoder
from service.engines.images import image_tokens, takes_images
from service.engines.loading import (
    find_device,
    find_dtype,
    free_memory,
    load_model,
    memory_for_keys,
    name_gpu,
)
from service.engines.prompts import Prompt
from service.errors import InputError, PrerequisiteError
from service.models.access import Model
from service.models.settings import Sampling

_ROWS_ON_CPU, _ROWS_ON_GPU = 64, 256


class TransformersEndpoint(CheckpointEndpoint):
    """Draws responses in this process.

    Response i of a request has the seed of the request plus i, as in vLLM. The batch does not change it.
    When the run stops, unfinished responses are dropped: they cost nothing, and drawing them again gives the
    same.
    """

    _decoder: Decoder

    def __init__(self, config: Model) -> None:
        """Set up; nothing is loaded yet."""
        self.config = config
        self._stopping = asyncio.Event()

    @cached_property
    def engine(self) -> dict[str, Any]:
        """Everything that shapes responses, for the run's spec; no weights are loaded."""
        checkpoint, device = self.checkpoint, find_device(self.config.device or "auto")
        images = {}
        if takes_images(checkpoint.config):  # Pillow and torchvision make different pixels
            images = {"images": str(getattr(checkpoint.processor.image_processor, "backend", "pil"))}
        return {
            "engine": "transformers",
            "transformers": transformers.__version__,
            "torch": torch.__version__,
            "weights": self.weights,
            "dtype": find_dtype(self.config.dtype or "auto", checkpoint),
            "device": device.type,
            "gpu": name_gpu(device),
            "chat_template": checkpoint.template_id,
            **images,
        }

    async def open(self) -> None:
        """Load the weights."""
        await asyncio.to_thread(self._load)

    def _load(self) -> None:
        device = find_device(self.config.device or "auto")
        model, self._stop_ids = load_model(self.checkpoint, device, self.engine["dtype"])
        rows = self.config.batch_size or (_ROWS_ON_CPU if device.type == "cpu" else _ROWS_ON_GPU)
        never = image_tokens(self.checkpoint.config)
        self._decoder = Decoder(model, rows, memory_for_keys(device), never)

    @asynccontextmanager
    async def slot(self, stopping: asyncio.Event) -> AsyncIterator[None]:
        self._stopping = stopping
        yield

    async def send(self, request: Request, server: Any = None) -> Answer:
        """Draw the responses of a request."""
        prompt, room = self.checkpoint.fit(request, self.checkpoint.context)
        rows = self._rows(request, prompt, room)
        try:
            if not self._stopping.is_set():
                await self._decoder.draw(rows)
        except (InputError, PrerequisiteError) as error:
            raise Fault(SETTINGS, str(error)) from error
        if not all(row.stop_reason for row in rows):
            raise Fault(SERVER_ERROR, "the run stopped before the response was finished")
        return read_reply(self._body(request, prompt, rows), seeded=request.seed is not None)

    def wake(self) -> None:
        """End the requests of a run that stops."""
        if self._stopping.is_set():
            self._decoder.end()

    def _rows(self, request: Request, prompt: Prompt, room: int) -> list[Row]:
        settings = {name: value for name, value in request.sampling.items() if value is not None}
        unknown = sorted(settings.keys() - Sampling().decoding.keys())
        unknown += sorted(request.extra.keys() - {"chat_template_kwargs"})
        unknown += ["response_schema"] if request.response_schema is not None else []
        if unknown:
            names = ", ".join(unknown)
            raise Fault(SETTINGS, f"transformers does not support {names}. Use vLLM or a remote server.")
        sampling = Sampling(**settings | {"stop": tuple(settings.get("stop", ()))})
        ends = partial(self._ends_with, sampling.stop) if sampling.stop else None
        encode = partial(self.checkpoint.encode_images, prompt, return_tensors="pt")
        images = encode if prompt.images else None
        first = secrets.randbits(31) if request.seed is None else request.seed
        return [
            Row(prompt.token_ids, room, first + place, sampling, self._stop_ids, ends=ends, images=images)
            for place in range(request.n)
        ]

    def _ends_with(self, stops: Sequence[str], tokens: Sequence[int]) -> bool:
        # The last token completes the text, and a token has at least one byte of it.
        window = max(len(text.encode()) for text in stops) + 8
        tail = self._decode(tokens[-window:])
        return any(text in tail for text in stops)

    def _decode(self, tokens: Sequence[int]) -> str:
        text: str = self.checkpoint.tokenizer.decode(
            tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def _body(self, request: Request, prompt: Prompt, rows: Sequence[Row]) -> str:
        choices = []
        for place, row in enumerate(rows):
            text = self._decode(row.tokens[:-1] if row.tokens[-1] in self._stop_ids else row.tokens)
            if row.how.stop:
                text = re.split("|".join(map(re.escape, row.how.stop)), text, maxsplit=1)[0]
            choices.append(
                {
                    "index": place,
                    "text": prompt.restore_thought(text),
                    "finish_reason": row.stop_reason,
                    "completion_tokens": len(row.tokens),
                }
            )
        completion = sum(len(row.tokens) for row in rows)
        body = {
            "object": "text_completion",
            "model": request.model,
            "choices": choices,
            "usage": {"prompt_tokens": len(prompt.token_ids), "completion_tokens": completion},
        }
        return json.dumps(body, ensure_ascii=False)

    @property
    def waits_for(self) -> str:
        return f"{len(self._decoder.requests)} requests to {self.config.model} in this process"

    @property
    def generated_tokens(self) -> int:
        return self._decoder.generated_tokens

    async def close(self) -> None:
        """Drop unfinished requests and free the weights' memory."""
        if hasattr(self, "_decoder"):
            await self._decoder.close()
            del self._decoder
            free_memory()
