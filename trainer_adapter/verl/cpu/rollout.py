"""The rollout "transformers": a Ray actor that holds a copy of the policy and draws responses from it.

verl's agent loops call `ResponseServer.generate` for one prompt at a time. The server draws all of them in
one batch. verl's training worker holds a `TransformersRollout`, which sends the weights after every update.
"""

import asyncio
import os
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

from service.engines.choosing import LoadImages, Row
from service.engines.decoding import Decoder
from service.engines.images import FORBIDDEN, image_tokens, model_class, open_processor, takes_images
from service.models.settings import NEUTRAL, Sampling
from trainer_adapter.verl.cpu import server_name

BATCH_SIZE = 512
"""Responses at a time if memory allows: a step costs a small model nearly the same for 64 as for 512."""

_SAMPLING = {"temperature": 1.0, "top_p": 1.0, **NEUTRAL}
"""The settings that verl may leave out, with the values that change nothing."""


class ResponseServer:
    """Draws responses, as a Ray actor of its own; before the first `load` it refuses to.

    With `rollout.dtype=float64` not even rounding lets a response depend on the batch. The log-probabilities
    are those of the distribution that a token was drawn from.
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
        self._end_ids = frozenset([ends] if isinstance(ends, int) else ends or [])
        self._never = image_tokens(config)
        self._decoder = Decoder(self._model, BATCH_SIZE)
        self._response_length, self._seeds = response_length, random.Random(seed)
        self._version: int | None = None
        self._loaded = False
        self._images: WeakValueDictionary[Any, LoadImages] = WeakValueDictionary()

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
            raise ValueError("the CPU rollout supports text and images, but not video")
        images = self._read(prompt_ids, image_data, mm_processor_kwargs or {}) if image_data else None
        row = self._row(prompt_ids, sampling_params, images)
        if not self._loaded:
            raise RuntimeError("the rollout engine has no weights yet")
        await self._decoder.draw([row])
        return TokenOutput(
            token_ids=row.tokens,
            log_probs=row.log_probs if sampling_params.get("logprobs") else None,
            stop_reason="completed" if row.stop_reason == "stop" else "length",
            num_preempted=0,
            extra_fields={"global_steps": self._version},
        )

    async def generate_many(
        self, requests: Sequence[tuple[list[int], dict[str, Any]]]
    ) -> list[TokenOutput | BaseException]:
        """Draw a response for each prompt and its sampling parameters; return errors in its place."""
        asked = [self.generate("", prompt_ids=ids, sampling_params=params) for ids, params in requests]
        return await asyncio.gather(*asked, return_exceptions=True)

    async def sleep(self) -> None:
        """The weights stay: there is no device memory to make room in."""

    async def wake_up(self) -> None:
        """See `sleep`."""

    def _row(self, prompt: Sequence[int], params: Mapping[str, Any], images: LoadImages | None) -> Row:
        given = {name: value for name, value in params.items() if value is not None and name != "logprobs"}
        bias, seed = given.pop("logit_bias", {}), given.pop("seed", None)
        if unknown := sorted(given.keys() - (_SAMPLING.keys() - {"stop"})):
            raise ValueError(f"the CPU rollout does not support {', '.join(unknown)}. Remove it")
        if not set(bias) <= self._never or any(value != FORBIDDEN for value in bias.values()):
            raise ValueError(f"the CPU rollout supports logit_bias only as {FORBIDDEN} for image tokens")
        return Row(
            tuple(prompt),
            self._response_length,
            self._seeds.getrandbits(62) if seed is None else seed,
            Sampling(**_SAMPLING | given | {"top_k": max(0, given.get("top_k", 0))}),
            self._end_ids,
            images=images,
        )

    def _read(self, prompt: Sequence[int], pictures: Sequence[Any], options: dict[str, Any]) -> LoadImages:
        """Return what reads the images of a prompt: the same object for each of its responses."""
        processor = self._processor
        if processor is None or not hasattr(self._model.model, "get_rope_index"):
            raise ValueError(
                "the CPU rollout supports images for models like Qwen 2 VL, not for "
                f"{type(self._model).__name__}"
            )

        def load() -> Mapping[str, torch.Tensor]:
            images = processor.image_processor(images=list(pictures), return_tensors="pt", **options)
            kinds = torch.isin(torch.tensor([prompt]), torch.tensor(sorted(self._never))).long()
            return {**images, "mm_token_type_ids": kinds}

        pixels = tuple((each.mode, each.size, each.tobytes()) for each in pictures)
        return self._images.setdefault((tuple(prompt), pixels), load)


class TransformersReplica(RolloutReplica):  # type: ignore[misc]
    """Starts the server for verl."""

    async def launch_servers(self) -> None:
        name = server_name(self.replica_rank)
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

    async def resume(self, tags: Sequence[str] = ()) -> None:
        """The server's weights never leave the memory."""

    release = resume

    async def update_weights(
        self,
        weights: Iterable[tuple[str, torch.Tensor]],
        global_steps: int | None = None,
        wire_format: str = "named_tensors",
        peft_config: Any = None,
        base_sync_done: bool = True,
    ) -> None:
        """Send all weights."""
        if peft_config is not None:
            raise ValueError(
                "the CPU rollout needs merged weights. Set verl.actor_rollout_ref.model.lora.merge=true"
            )
        if wire_format != "named_tensors":
            raise ValueError(f"the CPU rollout needs full weights, not {wire_format}")
        # Each rank walks through the weights, because gathering a shard takes all of them.
        gathered = {name: tensor.detach().float().cpu().clone() for name, tensor in weights}
        replica, rank = divmod(int(os.environ["RANK"]), self.config.tensor_model_parallel_size)
        if rank == 0:
            await ray.get_actor(server_name(replica)).load.remote(gathered, global_steps)
