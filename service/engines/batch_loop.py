"""A small Hugging Face checkpoint behind `ask`: a batch loop on transformers, on a CPU or one GPU."""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from service.asks.request import SERVER_ERROR, SETTINGS, Fault, Reply, Request
from service.asks.servers import Endpoint
from service.engines.checkpoint import Checkpoint, engine_id, open_checkpoint
from service.engines.images import image_tokens, takes_images
from service.engines.prompts import Prompt
from service.errors import InputError, PrerequisiteError
from service.models.access import Model
from service.models.settings import Sampling

if TYPE_CHECKING:
    from service.engines.decoding import Decoder, Row

_ROWS_ON_CPU, _ROWS_ON_GPU = 64, 256
_TURN_S = 0.1
"""How long the loop decodes before new requests can join."""


class TransformersEndpoint(Endpoint):
    """Draws responses in this process.

    Response i of a request has the seed of the request plus i, as in vLLM. The batch does not change it. At
    temperature 0 a request's responses are equal, and drawn once. After `stopping` is set, the loop drops
    unfinished responses: they cost nothing, and drawing them again gives the same.
    """

    def __init__(self, config: Model) -> None:
        """Set up; nothing is loaded yet."""
        self.config = config
        self._decoder: Decoder | None = None
        self._pending: dict[asyncio.Future[None], list[Row]] = {}
        self._loop: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._slots: asyncio.Semaphore | None = None

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """The configuration and tokenizer."""
        try:
            import torch  # noqa: F401
        except ImportError as error:
            raise PrerequisiteError("torch is not installed: pip install 'tagrpo[local]'") from error
        return open_checkpoint(self.config.model, self.config.revision, "local")

    @cached_property
    def engine(self) -> dict[str, Any]:
        """Everything that shapes responses, for the run's spec; no weights are loaded."""
        checkpoint = self.checkpoint
        import torch
        import transformers

        from service.engines.loading import find_device, find_dtype, name_gpu

        device = find_device(self.config.device or "auto")
        images = {}
        if takes_images(checkpoint.config):  # Pillow and torchvision make different pixels
            images = {"images": str(getattr(checkpoint.processor.image_processor, "backend", "pil"))}
        return {
            "engine": "transformers",
            "transformers": transformers.__version__,
            "torch": torch.__version__,
            "weights": checkpoint.weights,
            "dtype": find_dtype(self.config.dtype or "auto", checkpoint),
            "device": device.type,
            "gpu": name_gpu(device),
            "chat_template": checkpoint.renderer.template_id,
            **images,
        }

    @cached_property
    def model(self) -> str:
        return engine_id(self.engine)

    async def open(self) -> None:
        """Load the weights."""
        self._decoder = await asyncio.to_thread(self._load)
        # Enough requests in flight to fill the batch while the replies of earlier ones are stored.
        self._slots = asyncio.Semaphore(2 * self._batch_size)

    @property
    def _batch_size(self) -> int:
        usual = _ROWS_ON_CPU if self.engine["device"] == "cpu" else _ROWS_ON_GPU
        return self.config.batch_size or usual

    def _load(self) -> "Decoder":
        from service.engines.decoding import Decoder
        from service.engines.loading import find_device, load_model, memory_for_keys

        device = find_device(self.config.device or "auto")
        model, self._stop_ids = load_model(self.checkpoint, device, self.engine["dtype"])
        never = image_tokens(self.checkpoint.config)
        return Decoder(model, self._batch_size, memory_for_keys(device), never)

    @asynccontextmanager
    async def slot(self, stopping: asyncio.Event) -> AsyncIterator[None]:
        assert self._slots is not None, "TransformersEndpoint is closed"
        self._stopping = stopping
        async with self._slots:
            yield

    async def send(self, request: Request, server: Any = None) -> Reply:
        """Draw the responses of a request."""
        prompt, room = self.checkpoint.renderer.fit(request, self.checkpoint.context)
        rows = self._rows(request, prompt, room)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pending[done] = rows
        if self._loop is None or self._loop.done():
            self._loop = asyncio.create_task(self._run())
        try:
            await done
        finally:
            self._pending.pop(done, None)
        return Reply(self._body(request, prompt, rows), seeded=request.seed is not None)

    def _rows(self, request: Request, prompt: Prompt, room: int) -> "list[Row]":
        from service.engines.decoding import Row

        settings = {name: value for name, value in request.sampling.items() if value is not None}
        unknown = sorted(settings.keys() - Sampling().decoding.keys())
        unknown += sorted(request.extra.keys() - {"chat_template_kwargs"})
        unknown += ["response_schema"] if request.response_schema is not None else []
        if unknown:
            names = ", ".join(unknown)
            raise Fault(SETTINGS, f"transformers does not support {names}. Use vLLM or a remote server.")
        sampling = Sampling(**settings | {"stop": tuple(settings.get("stop", ()))})
        ends = partial(self._ends_with, sampling.stop) if sampling.stop else None
        images = (lambda: self._encode(prompt)) if prompt.images else None
        first = secrets.randbits(31) if request.seed is None else request.seed
        number = request.n if sampling.temperature else 1
        return [
            Row(prompt.token_ids, room, first + place, sampling, self._stop_ids, ends=ends, images=images)
            for place in range(number)
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

    def _encode(self, prompt: Prompt) -> dict[str, Any]:
        import torch

        encoded = self.checkpoint.renderer.encode_images(prompt.text, prompt.images, return_tensors="pt")
        dtype = getattr(torch, self.engine["dtype"])
        return {
            name: value.to(dtype) if value.is_floating_point() else value
            for name, value in encoded.items()
            if name not in ("input_ids", "attention_mask")
        }

    async def _run(self) -> None:
        """Decode in a thread until no request is left; requests join and finish between two turns."""
        assert self._decoder is not None
        queued: dict[asyncio.Future[None], list[Row]] = {}
        try:
            while self._pending:
                if self._stopping.is_set():
                    raise Fault(SERVER_ERROR, "the run stopped before the response was finished")
                for done in self._pending.keys() - queued.keys():
                    self._decoder.add(self._pending[done])
                queued = dict(self._pending)
                await asyncio.to_thread(self._turn, self._decoder)
                for done, rows in queued.items():
                    if all(row.stop_reason for row in rows) and not done.done():
                        done.set_result(None)
                    if done.done():
                        self._pending.pop(done, None)
        except Exception as error:
            self._decoder.clear()
            known = isinstance(error, InputError | PrerequisiteError)
            for done in self._pending:
                if not done.done():
                    done.set_exception(Fault(SETTINGS, str(error)) if known else error)
            self._pending.clear()

    @staticmethod
    def _turn(decoder: "Decoder") -> None:
        """Decode until a request may have finished or `_TURN_S` has passed."""
        until = time.monotonic() + _TURN_S
        while decoder.open_rows and time.monotonic() < until:
            if decoder.step():
                return

    def _body(self, request: Request, prompt: Prompt, rows: "Sequence[Row]") -> str:
        choices = []
        for row in rows:
            tokens = row.tokens[:-1] if row.tokens[-1] in self._stop_ids else row.tokens
            text = self._decode(tokens)
            if row.stop_reason == "stop":
                places = [place for stop in row.how.stop if (place := text.find(stop)) >= 0]
                text = text[: min(places, default=len(text))]
            choices.append(
                {
                    "text": prompt.restore_thought(text),
                    "finish_reason": row.stop_reason,
                    "completion_tokens": len(row.tokens),
                }
            )
        choices *= request.n // len(rows)
        completion = sum(len(row.tokens) for row in rows)
        body = {
            "object": "text_completion",
            "model": request.model,
            "choices": [{"index": place, **choice} for place, choice in enumerate(choices)],
            "usage": {"prompt_tokens": len(prompt.token_ids), "completion_tokens": completion},
        }
        return json.dumps(body, ensure_ascii=False)

    @property
    def waits_for(self) -> str:
        return f"{len(self._pending)} requests to {self.config.model} in this process"

    @property
    def generated_tokens(self) -> int:
        return self._decoder.generated_tokens if self._decoder else 0

    @property
    def notices(self) -> Sequence[str]:
        return self.checkpoint.renderer.notices

    async def close(self) -> None:
        """Drop unfinished requests and free the weights' memory."""
        self._stopping = asyncio.Event()
        self._stopping.set()
        if self._loop is not None:
            await self._loop
        if self._decoder is not None:
            from service.engines.loading import free_memory

            self._decoder = None
            free_memory()
