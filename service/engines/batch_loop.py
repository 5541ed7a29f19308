"""A small Hugging Face checkpoint behind `ask`: a batch loop on transformers, on a CPU or one GPU."""

import asyncio
import gc
import json
import logging
import re
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cached_property, partial
from typing import Any, get_args

import torch
import transformers
from transformers.utils.logging import set_tqdm_hook

from service.asks.request import SERVER_ERROR, SETTINGS, Answer, Fault, Request, read_reply
from service.engines.checkpoint import Checkpoint, CheckpointEndpoint, Prompt, open_thought
from service.engines.choosing import DROPPED, Row
from service.engines.decoding import Decoder
from service.engines.images import model_class, takes_images
from service.errors import InputError, PrerequisiteError, first_line
from service.models.access import Dtype, Model
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
        checkpoint, device = self.checkpoint, _find_device(self.config.device)
        dtype, known = self.config.dtype or checkpoint.dtype, get_args(Dtype)
        if dtype not in known:
            raise InputError(f"dtype is {dtype!r} (the checkpoint's). Give {', '.join(known)}.")
        images = {}
        if takes_images(checkpoint.config):  # Pillow and torchvision make different pixels
            images["images"] = str(getattr(checkpoint.processor.image_processor, "backend", "pil"))
        return {
            "engine": "transformers",
            "transformers": transformers.__version__,
            "torch": torch.__version__,
            "weights": self.weights,
            "dtype": dtype,
            "device": device.type,
            "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
            "chat_template": checkpoint.template_id,
            **images,
        }

    async def open(self) -> None:
        """Load the weights."""
        device, dtype = _find_device(self.config.device), self.engine["dtype"]
        model, self._stop_ids = await asyncio.to_thread(load_model, self.checkpoint, device, dtype)
        rows = self.config.batch_size or (_ROWS_ON_CPU if device.type == "cpu" else _ROWS_ON_GPU)
        self._decoder = Decoder(model, rows)

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
        if any(row.stop_reason in (None, DROPPED) for row in rows):
            raise Fault(SERVER_ERROR, "the run stopped before the response was finished")
        return read_reply(self._body(request, prompt, rows), seeded=request.seed is not None)

    def wake(self) -> None:
        """End the requests of a run that stops."""
        self._decoder.end()

    def _rows(self, request: Request, prompt: Prompt, room: int) -> list[Row]:
        if request.response_schema is not None:
            raise Fault(SETTINGS, "transformers cannot enforce a JSON schema. Set reply=tags, or use vLLM.")
        sampling = Sampling(**request.sampling)
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
        for row in rows:
            text = self._decode(row.tokens[:-1] if row.tokens[-1] in self._stop_ids else row.tokens)
            if row.how.stop:
                text = re.split("|".join(map(re.escape, row.how.stop)), text, maxsplit=1)[0]
            choices.append(
                {
                    "text": open_thought(text) if prompt.opens_thought else text,
                    "finish_reason": row.stop_reason,
                    "completion_tokens": len(row.tokens),
                }
            )
        completion = sum(len(row.tokens) for row in rows)
        usage = {"prompt_tokens": len(prompt.token_ids), "completion_tokens": completion}
        body = {"model": request.model, "choices": choices, "usage": usage}
        return json.dumps(body, ensure_ascii=False)

    @property
    def generated_tokens(self) -> int:
        return self._decoder.generated_tokens

    async def close(self) -> None:
        """Drop unfinished requests and free the weights' memory."""
        if hasattr(self, "_decoder"):
            await self._decoder.close()
            del self._decoder
            gc.collect()
            torch.cuda.empty_cache()


def _find_device(name: str | None) -> torch.device:
    """Return the named device (`cpu`, `cuda`, `cuda:1`); by default a GPU if there is one."""
    name = name or ("cuda" if torch.cuda.is_available() else "cpu")
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise InputError(f"{name!r} is not a device. Give cpu, cuda, cuda:0, ...")
    if name != "cpu" and not torch.cuda.is_available():
        raise PrerequisiteError(
            f"torch {torch.__version__} finds no cuda device. Set device to cpu, or install the torch build "
            "for this machine."
        )
    return torch.device(name)


def load_model(checkpoint: Checkpoint, device: torch.device, dtype: str) -> tuple[Any, frozenset[int]]:
    """Load the weights; return the model and the tokens that end a response.

    The checkpoint's own sampling settings are not used: the request's settings alone shape a response.
    """
    logging.getLogger("transformers").setLevel(logging.ERROR)
    set_tqdm_hook(lambda bar, args, options: bar(*args, **options | {"disable": True}))  # of loading weights
    try:
        model, loaded = model_class(checkpoint.config).from_pretrained(
            checkpoint.name,
            revision=checkpoint.commit or "main",
            dtype=getattr(torch, dtype),
            output_loading_info=True,
        )
        if missing := sorted(loaded["missing_keys"]):
            raise PrerequisiteError(
                f"{checkpoint.name} lacks {len(missing):,} weights that its config.json requires, such as "
                f"{missing[0]}; they would be random. Merge adapters first, or copy the folder again."
            )
        model = model.to(device).eval()
    except torch.OutOfMemoryError as error:
        raise PrerequisiteError(
            f"The weights of {checkpoint.name} do not fit into the memory of {device}. Use a smaller dtype, "
            "another device, or vLLM with a larger tensor_parallel_size."
        ) from error
    except (OSError, ValueError, ImportError, KeyError) as error:
        reason = first_line(error)
        raise PrerequisiteError(f"The weights of {checkpoint.name} cannot be loaded: {reason}") from error
    ids = model.generation_config.eos_token_id
    ends = {*(ids if isinstance(ids, list) else [ids]), checkpoint.tokenizer.eos_token_id} - {None}
    return model, frozenset(ends)
