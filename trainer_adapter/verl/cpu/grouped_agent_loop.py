"""verl's agent loops for the CPU rollout: one Ray call per question.

verl makes six calls between processes for each response, which cost a small model several times what drawing
does. Here the responses of a question are graded in this process and stored in one call, and the sampler is
asked for many at a time. Everything else is verl's. With verl's own worker a training of 6 steps of the demo,
512 responses each, took 272 instead of 193 seconds of processor time.

verl loads it by its setting `actor_rollout_ref.rollout.agent.agent_loop_manager_class`.
"""

import asyncio
import copy
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import cycle
from typing import Any

import hydra
import ray
import torch
from tensordict import NonTensorData
from verl.experimental.agent_loop.agent_loop import DictConfigWrap, ToolListWrap, _agent_loop_registry
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ

from trainer_adapter.verl.cpu import server_name
from trainer_adapter.verl.plugin import REWARD
from trainer_adapter.verl.plugin.grading import grade, reward_function
from trainer_adapter.verl.transfer import add_responses, set_status

_LOG = logging.getLogger("tagrpo.agent_loop")

_GATHERED_FOR_S = 0.01
_REQUESTS_A_CALL = 64
"""So that several samplers share the work, and answers come back before the last of a step is drawn."""

_OF_THE_LOOP = ("neighbors", "neighbor_ids", "neighbor_strategies")
"""Columns that only the agent loop reads."""

_Asked = tuple[list[int], dict[str, Any], "asyncio.Future[Any]"]

# Ray keeps the class under the actor that it made of it.
_Worker: Any = AgentLoopWorkerTQ.__ray_metadata__.modified_class.__ray_actor_class__


class GatheringClient:
    """Asks the samplers for what comes within a moment in calls of many requests, each sampler in turn."""

    def __init__(self) -> None:
        self._waiting: list[_Asked] = []
        self._sending: set[asyncio.Task[None]] = set()

    async def generate(
        self,
        request_id: str,
        *,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        image_data: Any = None,
        video_data: Any = None,
        audio_data: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Return the response of one prompt."""
        if image_data or video_data or audio_data:
            raise ValueError("a model without a processor supports text only")
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((prompt_ids, sampling_params, answer))
        if len(self._waiting) == 1:
            self._keep(self._send_soon())
        output = await answer
        version = output.extra_fields.get("global_steps")
        output.extra_fields.setdefault("min_global_steps", version)
        output.extra_fields.setdefault("max_global_steps", version)
        return output

    async def _send_soon(self) -> None:
        await asyncio.sleep(_GATHERED_FOR_S)
        waiting, self._waiting = self._waiting, []
        for first in range(0, len(waiting), _REQUESTS_A_CALL):
            self._keep(self._send(waiting[first : first + _REQUESTS_A_CALL]))

    async def _send(self, asked: Sequence[_Asked]) -> None:
        try:
            outputs = await next(self._servers).generate_many.remote([each[:2] for each in asked])
        except Exception as error:
            outputs = [error] * len(asked)
        for (_, _, answer), output in zip(asked, outputs, strict=True):
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

    def _keep(self, sending: Any) -> None:
        task = asyncio.create_task(sending)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)


def rewards_itself(config: Any) -> bool:
    """Return whether tagrpo's reward function alone rewards, by verl's config."""
    reward = config.reward
    return bool(
        reward.custom_reward_function.path == REWARD
        and reward.reward_manager.name == "naive"
        and not reward.reward_model.enable
    )


class GroupedAgentLoopWorker(_Worker):  # type: ignore[misc]
    """verl's worker, whose loops share a client that gathers, and which stores a question's rows together."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Images and a teacher go by the response; a reward that is not ours may end the process it runs in.
        self._by_verl = (
            self.processor is not None or self.distillation_enabled or not rewards_itself(self.config)
        )
        self._loops: dict[str, Any] = {}
        if not self._by_verl:
            self.llm_client: Any = GatheringClient()

    async def _run_prompt(
        self,
        prompt: dict[str, Any],
        sampling_params: dict[str, Any],
        trajectory: dict[str, Any],
        trace: bool = False,
    ) -> None:
        """Draw, grade and store the responses to one row, as verl's method of this name does."""
        if self._by_verl:
            await super()._run_prompt(prompt, sampling_params, trajectory, trace)
            return
        uid, validate = prompt["uid"], trajectory["validate"]
        partition = "val" if validate else "train"
        await set_status(partition, uid, "running")
        status = "failure"
        try:
            rollout = self.config.actor_rollout_ref.rollout
            name = prompt.pop("agent_name")
            drawn = await asyncio.gather(
                *(
                    self._loop(name).run(dict(sampling_params), **prompt, session_id=session)
                    for session in range(rollout.val_kwargs.n if validate else rollout.n)
                ),
                return_exceptions=True,
            )
            outputs = {
                session: each for session, each in enumerate(drawn) if not isinstance(each, BaseException)
            }
            errors = [each for each in drawn if isinstance(each, BaseException)]
            errors += await self._finish(outputs, prompt, partition)
            for error in errors:
                _LOG.error(
                    "question %s: a response failed", uid, exc_info=(type(error), error, error.__traceback__)
                )
            status = "failure" if errors else "finished"
        except Exception:
            _LOG.exception("question %s failed", uid)
        await set_status(partition, uid, status)

    def _loop(self, name: str) -> Any:
        """Return a loop for one response: a copy of one that was made, which reads a dozen settings."""
        if name not in self._loops:
            self._loops[name] = hydra.utils.instantiate(
                config=_agent_loop_registry[name],
                trainer_config=DictConfigWrap(config=self.config),
                server_manager=self.llm_client,
                tokenizer=self.tokenizer,
                processor=self.processor,
                hf_model_type=getattr(self, "hf_model_type", None),  # verl 0.9.0 has none
                dataset_cls=self.dataset_cls,
                data_config=DictConfigWrap(self.config.data),
                tools=ToolListWrap(self.tools),
            )
        return copy.copy(self._loops[name])

    async def _finish(
        self, outputs: dict[int, Any], prompt: dict[str, Any], partition: str
    ) -> list[BaseException]:
        """Grade and store responses by session; return what went wrong with single ones."""
        open_ = [session for session, output in outputs.items() if output.reward_score is None]
        ungraded = [outputs[session] for session in open_]
        graded = await grade(reward_function(self.config), self.tokenizer, ungraded, prompt)
        failed = {session: error for session, error in zip(open_, graded, strict=True) if error is not None}
        rows: dict[frozenset[str], list[tuple[str, dict[str, Any], dict[str, Any]]]] = {}
        columns = {  # of all responses, made ready for verl's queue once
            name: value if isinstance(value, torch.Tensor) else NonTensorData(value)
            for name, value in prompt.items()
            if name not in _OF_THE_LOOP
        }
        for session, output in outputs.items():
            if session not in failed:
                row = _row(output, prompt, columns, session)
                rows.setdefault(frozenset(row[1]), []).append(row)
        for alike in rows.values():
            keys, fields, tags = zip(*alike, strict=True)
            await add_responses(partition, keys, fields, tags)
        return list(failed.values())


def _row(
    output: Any, prompt: dict[str, Any], columns: dict[str, Any], session: int
) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return key, fields and tag of a response in verl's queue."""
    field = output.as_dict()
    field.update(columns)
    field["session_id"] = session
    field.pop("multi_modal_data", None)
    field["loss_mask"] = field["response_mask"]
    field["input_ids"] = torch.cat([field["prompts"], field["responses"]])
    field["position_ids"] = torch.arange(len(field["input_ids"]))
    field["multi_modal_inputs"] = {}
    asked, answered = len(field["prompts"]), len(field["responses"])
    tag = {
        "status": "success",
        "prompt_len": asked,
        "response_len": answered,
        "seq_len": asked + answered,
        "global_steps": prompt["global_steps"],
        "min_global_steps": field["extra_fields"].get("min_global_steps"),
        "max_global_steps": field["extra_fields"].get("max_global_steps"),
    }
    return f"{prompt['uid']}_{session}_0", field, tag


class GroupedAgentLoopManager(AgentLoopManagerTQ):  # type: ignore[misc]
    """verl's manager of agent loops, with the worker of this file."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = ray.remote(GroupedAgentLoopWorker)
