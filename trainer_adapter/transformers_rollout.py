"""The rollout "transformers": a Ray actor that holds a copy of the policy and draws responses from it.

verl talks to it from two sides. Its agent loops call `ResponseServer.generate` for one prompt at a time; the
server draws those that arrive together in one batch. Its training worker holds a `TransformersRollout`, which
sends the weights after every update.

It stands outside `trainer_adapter.verl_cpu`: Ray imports a server's module before anything else in its
process, and that package has to be imported by verl, not before it.
"""

import asyncio
import os
from collections.abc import Iterable
from typing import Any

import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

from trainer_adapter.sampling import Drawn, SamplingParams, draw, from_verl

BATCH_SIZE = 64
ARRIVAL_WINDOW_S = 0.02
"""How long the server waits for more prompts: Ray delivers those of one step a few milliseconds apart."""

_Request = tuple[list[int], SamplingParams, "asyncio.Future[Drawn]"]


class ResponseServer:
    """Draws responses, as a Ray actor of its own; it refuses to until the weights have come by `load`."""

    def __init__(self, model_path: str, response_length: int, seed: int) -> None:
        from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

        torch.set_num_threads(1)  # the training worker computes beside it
        config = AutoConfig.from_pretrained(model_path)
        self._model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
        try:
            ends = GenerationConfig.from_pretrained(model_path).eos_token_id
        except OSError:
            ends = config.eos_token_id
        self._end_ids = frozenset([ends] if isinstance(ends, int) else ends or [])
        self._response_length = response_length
        self._shared = torch.Generator().manual_seed(seed)
        self._version: int | None = None
        self._loaded = False
        self._arrived: asyncio.Queue[_Request] = asyncio.Queue()
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
    ) -> TokenOutput:
        """Draw one response for one prompt, as verl's agent loops ask for it."""
        if not self._loaded:
            raise RuntimeError("the rollout has no weights yet")
        if image_data or video_data:
            raise ValueError("the CPU rollout reads text only")
        if self._drawing is None or self._drawing.done():
            self._drawing = asyncio.create_task(self._draw_what_arrives())
        params = from_verl(sampling_params, response_length=self._response_length)
        answer: asyncio.Future[Drawn] = asyncio.get_running_loop().create_future()
        await self._arrived.put((list(prompt_ids), params, answer))
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
            batch = [await self._arrived.get()]
            await asyncio.sleep(ARRIVAL_WINDOW_S)
            while not self._arrived.empty() and len(batch) < BATCH_SIZE:
                batch.append(self._arrived.get_nowait())
            prompts, params, answers = zip(*batch, strict=True)
            try:
                drawn = await asyncio.to_thread(
                    draw, self._model, prompts, params, end_ids=self._end_ids, shared=self._shared
                )
            except Exception as error:
                for answer in answers:
                    answer.set_exception(error)
                continue
            for answer, response in zip(answers, drawn, strict=True):
                if not answer.done():
                    answer.set_result(response)


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
                "the CPU rollout takes whole weights; set actor_rollout_ref.model.lora.merge=True"
            )
        if wire_format != "named_tensors":
            raise ValueError(f"the CPU rollout takes whole weights, not {wire_format}")
        # Each rank walks through the weights, because gathering a shard takes all of them.
        gathered = {name: tensor.detach().float().cpu().clone() for name, tensor in weights}
        if self._sends:
            await ray.get_actor(_server_name(self.replica_rank)).load.remote(gathered, global_steps)


def _server_name(replica_rank: int) -> str:
    return f"transformers_rollout_{replica_rank}"
