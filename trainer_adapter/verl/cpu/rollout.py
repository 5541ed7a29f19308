"""The rollout "transformers": a Ray actor that holds a copy of the policy and draws responses from it.

verl talks to it from two sides. Its agent loops call `ResponseServer.generate` for one prompt at a time; the
server draws them in one moving batch. Its training worker holds a `TransformersRollout`, which
sends the weights after every update.
"""

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

from service.models.local.cache import Room
from service.models.local.images import as_given, has_positions_of_images
from service.models.local.loading import Device, model_class, room_for_keys
from service.models.local.rows import PromptImages
from service.models.processors import open_processor, pictures_key, takes_images
from trainer_adapter.verl.cpu.drawing_batch import DrawingBatch, Drawn, SamplingParams, from_verl

BATCH_SIZE = 512
"""Responses decoded at a time where the memory allows it; a step of the batch costs a small model nearly the
same for 64 as for 512."""

ARRIVAL_WINDOW_S = 0.02
"""How long the server waits for more prompts before it begins: Ray delivers those of one step a few
milliseconds apart, and equal ones that come together are read once. What comes later joins in."""

_Request = tuple[list[int], SamplingParams, PromptImages | None, "asyncio.Future[Drawn]"]


class ResponseServer:
    """Draws responses, as a Ray actor of its own; it refuses to until the weights have come by `load`.

    It computes in float32, or in float64 where `rollout.dtype` says so: then not even rounding lets a
    response depend on what is drawn beside it.
    """

    def __init__(self, model_path: str, response_length: int, seed: int, dtype: str = "float32") -> None:
        from transformers import AutoConfig, GenerationConfig

        config = AutoConfig.from_pretrained(model_path)
        precision = torch.float64 if dtype == "float64" else torch.float32
        self._model = model_class(config).from_config(config, dtype=precision).eval()
        self._processor = open_processor(model_path) if takes_images(config) else None
        try:
            ends = GenerationConfig.from_pretrained(model_path).eos_token_id
        except OSError:
            ends = config.get_text_config().eos_token_id
        end_ids = frozenset([ends] if isinstance(ends, int) else ends or [])
        room = Room(BATCH_SIZE, room_for_keys(self._model, Device("cpu", "cpu", None)))
        self._batch = DrawingBatch(self._model, end_ids, room, seed)
        self._response_length = response_length
        self._version: int | None = None
        self._loaded = False
        self._arrived: asyncio.Queue[_Request] = asyncio.Queue()
        self._open: set[asyncio.Future[Drawn]] = set()
        self._drawing: asyncio.Task[None] | None = None

    async def ready(self) -> bool:
        return True

    async def load(self, weights: dict[str, torch.Tensor], version: int | None) -> None:
        """Take over the policy's weights as of the global step `version`."""
        missing, unexpected = self._model.load_state_dict(weights, strict=False)
        self._model.tie_weights()
        tied = {"lm_head.weight"} if self._model.config.tie_word_embeddings else set()
        if unexpected or not set(missing) <= tied:
            raise ValueError(f"the policy's weights do not fit: missing {missing}, unexpected {unexpected}")
        self._loaded, self._version = True, version

    async def generate(
        self,
        request_id: str,
        *,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        image_data: Any = None,
        video_data: Any = None,
        mm_processor_kwargs: Any = None,
    ) -> TokenOutput:
        """Draw one response for one prompt, as verl's agent loops ask for it."""
        if video_data:
            raise ValueError("the CPU rollout supports text and images, but no videos")
        images = self._images(image_data, mm_processor_kwargs or {}) if image_data else None
        return await self._generate(prompt_ids, sampling_params, images)

    async def generate_many(
        self, requests: Sequence[tuple[list[int], dict[str, Any]]]
    ) -> list[TokenOutput | BaseException]:
        """Draw a response for each prompt and its sampling parameters; errors stand in their places."""
        asked = [self._generate(prompt_ids, params) for prompt_ids, params in requests]
        return await asyncio.gather(*asked, return_exceptions=True)

    def _images(self, pictures: Sequence[Any], options: dict[str, Any]) -> PromptImages:
        processor = self._processor
        if processor is None or not has_positions_of_images(self._model):
            raise ValueError(
                "the CPU rollout supports images for models like Qwen 2 VL, not for "
                f"{type(self._model).__name__}"
            )

        def load() -> Mapping[str, torch.Tensor]:
            made = processor.image_processor(images=list(pictures), return_tensors="pt", **options)
            return as_given(made, self._model.dtype)

        return PromptImages(pictures_key(pictures), load)

    async def _generate(
        self,
        prompt_ids: Sequence[int],
        sampling_params: dict[str, Any],
        images: PromptImages | None = None,
    ) -> TokenOutput:
        if not self._loaded:
            raise RuntimeError("the rollout has no weights yet")
        if self._drawing is None or self._drawing.done():
            self._drawing = asyncio.create_task(self._draw_what_arrives())
        params = from_verl(sampling_params, response_length=self._response_length)
        answer: asyncio.Future[Drawn] = asyncio.get_running_loop().create_future()
        await self._arrived.put((list(prompt_ids), params, images, answer))
        drawn = await answer
        return TokenOutput(
            token_ids=drawn.token_ids,
            log_probs=drawn.log_probs if sampling_params.get("logprobs") else None,
            stop_reason="completed" if drawn.ended else "length",
            num_preempted=0,
            extra_fields={"global_steps": self._version},
        )

    async def sleep(self) -> None:
        """The weights stay: there is no device memory to make room in."""

    async def wake_up(self) -> None:
        """See `sleep`."""

    async def _draw_what_arrives(self) -> None:
        while True:
            self._add(await self._arrived.get())
            await asyncio.sleep(ARRIVAL_WINDOW_S)
            while True:
                while not self._arrived.empty():
                    self._add(self._arrived.get_nowait())
                if not self._batch.under_way:
                    break
                try:
                    finished = await asyncio.to_thread(self._batch.step)
                except Exception as error:
                    self._batch.clear()
                    for answer in self._open:
                        if not answer.done():
                            answer.set_exception(error)
                    self._open.clear()
                    break
                for answer, drawn in finished:
                    self._open.discard(answer)
                    if not answer.done():
                        answer.set_result(drawn)

    def _add(self, request: _Request) -> None:
        prompt, params, images, answer = request
        self._open.add(answer)
        self._batch.add(answer, prompt, params, images)


class TransformersReplica(RolloutReplica):  # type: ignore[misc]
    """Starts the server for verl."""

    async def launch_servers(self) -> None:
        name = _server_name(self.replica_rank)
        server = (
            ray.remote(ResponseServer)
            .options(name=name, num_cpus=1, max_concurrency=self.max_concurrency)
            .remote(
                self.model_config.path,
                self.config.response_length,
                self.config.seed + self.replica_rank,
                self.config.dtype,
            )
        )
        await server.ready.remote()
        self.servers = [server]
        self._server_handle = server
        self._server_address = name


class TransformersRollout(BaseRollout):  # type: ignore[misc]
    """Sends the policy's weights from the training worker to the server of its replica."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1) -> None:
        super().__init__(config, model_config, device_mesh)
        rank, size = int(os.environ["RANK"]), self.config.tensor_model_parallel_size
        self.replica_rank = rank // size if replica_rank == -1 else replica_rank
        self._sends = rank % size == 0
        self.sleep_level = 1

    async def resume(self, tags: list[str]) -> None:
        """The server's weights never leave the memory."""

    async def release(self) -> None:
        """See `resume`."""

    async def update_weights(
        self,
        weights: Iterable[tuple[str, torch.Tensor]],
        global_steps: int | None = None,
        wire_format: str = "named_tensors",
        peft_config: Any = None,
        base_sync_done: bool = True,
    ) -> None:
        """Send all weights.

        Raises:
            ValueError: for LoRA adapters that were not merged, or weights sent as differences.
        """
        if peft_config is not None:
            raise ValueError(
                "the CPU rollout needs whole weights. Set actor_rollout_ref.model.lora.merge=true"
            )
        if wire_format != "named_tensors":
            raise ValueError(f"the CPU rollout needs whole weights, not {wire_format}")
        # Each rank walks through the weights, because gathering a shard takes all of them.
        gathered = {name: tensor.detach().float().cpu().clone() for name, tensor in weights}
        if self._sends:
            await ray.get_actor(_server_name(self.replica_rank)).load.remote(gathered, global_steps)


def _server_name(replica_rank: int) -> str:
    return f"transformers_rollout_{replica_rank}"
