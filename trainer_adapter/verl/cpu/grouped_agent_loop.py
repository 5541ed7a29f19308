"""verl's agent loops for the CPU rollout: one Ray call draws many responses; this process grades them.

verl makes six calls between processes and an agent loop for each response, which cost a small model more than
drawing does. Everything else is verl's.

verl loads it by its setting `actor_rollout_ref.rollout.agent.agent_loop_manager_class`.
"""

import asyncio
import copy
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import hydra
import ray
from verl.experimental.agent_loop.agent_loop import _agent_loop_registry
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ

from service.database import in_parts
from trainer_adapter.verl.cpu import server_name
from trainer_adapter.verl.plugin import REWARD
from trainer_adapter.verl.plugin.grading import grade, reward_function

_GATHERED_FOR_S = 0.01
_REQUESTS_PER_CALL = 64
"""So that several samplers share the work, and answers come back before the last of a step is drawn."""

_OF_THE_LOOP = ("neighbors", "neighbor_ids", "neighbor_strategies")
"""Columns that only the agent loop reads."""

_Request = tuple[list[int], dict[str, Any], "asyncio.Future[Any]"]

# Ray keeps the class under the actor that it made of it.
_Worker: Any = AgentLoopWorkerTQ.__ray_metadata__.modified_class.__ray_actor_class__


class GatheringClient:
    """Asks the samplers for what comes within a moment in calls of many requests, each sampler in turn."""

    def __init__(self) -> None:
        self._waiting: list[_Request] = []
        self._sending: set[asyncio.Task[None]] = set()

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **more: Any
    ) -> Any:
        """Return the response of one prompt."""
        if any(more.get(name) for name in ("image_data", "video_data", "audio_data")):
            raise ValueError("a model without a processor supports text only")
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((prompt_ids, sampling_params, answer))
        if len(self._waiting) == 1:
            task = asyncio.create_task(self._send_soon())
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        output = await answer
        version = output.extra_fields.get("global_steps")
        output.extra_fields.setdefault("min_global_steps", version)
        output.extra_fields.setdefault("max_global_steps", version)
        return output

    async def _send_soon(self) -> None:
        await asyncio.sleep(_GATHERED_FOR_S)
        waiting, self._waiting = self._waiting, []
        await asyncio.gather(*(self._send(part) for part in in_parts(waiting, _REQUESTS_PER_CALL)))

    async def _send(self, requests: Sequence[_Request]) -> None:
        try:
            outputs = await next(self._servers).generate_many.remote([each[:2] for each in requests])
        except Exception as error:
            outputs = [error] * len(requests)
        for (_, _, answer), output in zip(requests, outputs, strict=True):
            if answer.done():
                continue
            if isinstance(output, Exception):
                answer.set_exception(output)
            else:
                answer.set_result(output)

    @cached_property
    def _servers(self) -> Iterator[Any]:
        """The samplers in turn; verl has started all of them before it asks for responses."""
        servers = [ray.get_actor(server_name(0))]
        with suppress(ValueError):
            while True:
                servers.append(ray.get_actor(server_name(len(servers))))
        return cycle(servers)


class GroupedAgentLoopWorker(_Worker):  # type: ignore[misc]
    """verl's worker, whose loops share a client that gathers, and which grades in its own process."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        reward = self.config.reward
        # Images and a teacher go by the response; a reward that is not ours may end the process it runs in.
        self._by_verl = (
            self.processor is not None
            or self.distillation_enabled
            or reward.custom_reward_function.path != REWARD
            or reward.reward_manager.name != "naive"
            or reward.reward_model.enable
        )
        self._loops: dict[str, Any] = {}
        if not self._by_verl:
            self.llm_client: Any = GatheringClient()

    async def _run_agent_loop(
        self,
        sampling_params: dict[str, Any],
        trajectory: dict[str, Any],
        *,
        agent_name: str,
        trace: bool = True,
        **row: Any,
    ) -> None:
        """Draw, grade and store one response, as verl's method of this name does."""
        if self._by_verl:
            await super()._run_agent_loop(
                sampling_params, trajectory, agent_name=agent_name, trace=trace, **row
            )
            return
        output = await self._loop(agent_name).run(sampling_params, **row)
        if output.reward_score is None:
            (error,) = await grade(reward_function(self.config), self.tokenizer, [output], row)
            if error is not None:
                raise error
        stored = {name: value for name, value in row.items() if name not in _OF_THE_LOOP}
        await self._agent_loop_postprocess(output, trajectory["validate"], **stored)

    def _loop(self, name: str) -> Any:
        """Return a loop for one response: a copy of one that was made, which takes milliseconds."""
        if name not in self._loops:
            self._loops[name] = hydra.utils.instantiate(
                config=_agent_loop_registry[name],
                trainer_config=SimpleNamespace(config=self.config),
                server_manager=self.llm_client,
                tokenizer=self.tokenizer,
                processor=self.processor,
                dataset_cls=self.dataset_cls,
                data_config=SimpleNamespace(config=self.config.data),
                hf_model_type=getattr(self, "hf_model_type", None),  # verl 0.9.0 has none
                tools=SimpleNamespace(tools=self.tools),
            )
        return copy.copy(self._loops[name])


class GroupedAgentLoopManager(AgentLoopManagerTQ):  # type: ignore[misc]
    """verl's manager of agent loops, with the worker of this file."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = ray.remote(GroupedAgentLoopWorker)
