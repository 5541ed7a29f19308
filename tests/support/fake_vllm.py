"""A module that answers like vLLM, without a GPU, and misbehaves on demand.

Signatures and behaviour were read in the wheel vllm-0.24.0, errors and the end of an engine in vllm-0.31.0:
- vllm/entrypoints/llm.py: `LLM.__init__`, `LLM.enqueue`;
- vllm/entrypoints/offline_utils.py and vllm/v1/engine/input_processor.py (`assign_request_id`): `enqueue`
  returns "<number>-<8 hex digits>", outputs carry "<number>";
- vllm/v1/engine/llm_engine.py: `step`, `abort_request`, `has_unfinished_requests`;
- vllm/v1/engine/parallel_sampling.py: sample i of n has the seed of the request plus i;
- vllm/sampling_params.py: `SamplingParams.__post_init__`; vllm/outputs.py: `CompletionOutput`,
  `RequestOutput`; vllm/v1/engine/__init__.py: `FinishReason`; vllm/platforms/interface.py;
- vllm/exceptions.py; vllm/v1/engine/core_client.py: `MPClient.shutdown`.

`install(monkeypatch, behaviour)` puts it into `sys.modules`; `behaviour` counts what was asked for.
"""

import sys
import types
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


class VLLMClientError(Exception):
    """As in vllm/exceptions.py: no ValueError since 0.31."""


class VLLMValidationError(VLLMClientError):
    """As in vllm/exceptions.py."""


class EngineDeadError(Exception):
    """As in vllm/v1/engine/exceptions.py."""

    def __init__(self) -> None:
        super().__init__("EngineCore encountered an issue. See stack trace (above) for the root cause.")


class TokensPrompt(dict[str, Any]):
    """As in vllm/inputs/llm.py: a typed dict with `prompt_token_ids`."""


class SamplingParams:
    """The fields of vllm/sampling_params.py that a request of text has, with its checks."""

    def __init__(
        self,
        n: int = 1,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        repetition_penalty: float = 1.0,
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int = 0,
        min_p: float = 0.0,
        seed: int | None = None,
        stop: str | list[str] | None = None,
        stop_token_ids: list[int] | None = None,
        ignore_eos: bool = False,
        max_tokens: int | None = 16,
        min_tokens: int = 0,
        logprobs: int | None = None,
        prompt_logprobs: int | None = None,
        detokenize: bool = True,
        skip_special_tokens: bool = True,
    ) -> None:
        if n < 1:
            raise ValueError(f"n must be at least 1, got {n}.")
        if not 0 < top_p <= 1:
            raise VLLMValidationError(f"top_p must be in (0, 1], got {top_p}.")
        if max_tokens is not None and max_tokens < 1:
            raise VLLMValidationError(f"max_tokens must be at least 1, got {max_tokens}.")
        if temperature < 1e-5 and n > 1:
            raise ValueError(f"n must be 1 when using greedy sampling, got {n}.")
        self.n, self.seed, self.max_tokens = n, None if seed == -1 else seed, max_tokens
        self.temperature = max(temperature, 0.01) if temperature > 0 else 0.0
        self.top_p = top_p


@dataclass
class CompletionOutput:
    index: int
    text: str
    token_ids: Sequence[int]
    cumulative_logprob: float | None
    logprobs: None
    routed_experts: None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    lora_request: None = None


class RequestOutput:
    def __init__(
        self,
        request_id: str,
        prompt: str | None,
        prompt_token_ids: list[int] | None,
        prompt_logprobs: None,
        outputs: list[CompletionOutput],
        finished: bool,
        metrics: None = None,
        lora_request: None = None,
        encoder_prompt: str | None = None,
        encoder_prompt_token_ids: list[int] | None = None,
        num_cached_tokens: int | None = None,
    ) -> None:
        self.request_id, self.prompt, self.prompt_token_ids = request_id, prompt, prompt_token_ids
        self.outputs, self.finished, self.num_cached_tokens = outputs, finished, num_cached_tokens


@dataclass
class Behaviour:
    """How the engine behaves, and what it was asked for."""

    max_model_len: int = 512
    per_step: int = 3  # requests that end in a step
    finish: Callable[[int], str] = lambda number: (
        "stop"
    )  # by the request's number: stop, length, abort, error
    lost: Callable[[int], bool] = lambda number: False  # requests that end without an output
    dies_at_step: int | None = None
    fails_to_start: str | None = None
    before_step: Callable[[int], None] = lambda step: None
    before_request: Callable[[int], None] = lambda number: None
    llms: list[dict[str, Any]] = field(default_factory=list)  # arguments of LLM
    asked: list[tuple[list[int], SamplingParams]] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    most_in_flight: int = 0
    ended: int = 0  # engines that were shut down
    device: str = "cuda"
    devices: int = 2


def text_of(prompt: Sequence[int], seed: int | None) -> str:
    """Return what the engine writes for a prompt and a seed; None where greedy."""
    return f"response to {sum(prompt)} with {seed}"


class _Engine:
    def __init__(self, behaviour: Behaviour, max_model_len: int | None) -> None:
        self._behaviour = behaviour
        self._waiting: dict[str, tuple[list[int], SamplingParams]] = {}  # by external id
        self._steps = 0
        length = max_model_len or behaviour.max_model_len
        self.model_config = types.SimpleNamespace(max_model_len=length, runner_type="generate")
        self.engine_core = types.SimpleNamespace(shutdown=self._shutdown)

    def _shutdown(self, timeout: float | None = None) -> None:
        self._behaviour.ended += 1

    def add(self, number: str, prompt: list[int], params: SamplingParams) -> str:
        self._behaviour.before_request(int(number))
        if len(prompt) >= self.model_config.max_model_len:
            raise VLLMValidationError(
                f"The decoder prompt (length {len(prompt)}) is longer than the maximum model length"
            )
        self._waiting[number] = (prompt, params)
        self._behaviour.most_in_flight = max(self._behaviour.most_in_flight, len(self._waiting))
        return f"{number}-{uuid.uuid4().hex[:8]}"

    def has_unfinished_requests(self) -> bool:
        return bool(self._waiting)

    def abort_request(self, request_ids: list[str], internal: bool = False) -> None:
        assert not internal
        for id in request_ids:
            if self._waiting.pop(id, None) is not None:
                self._behaviour.aborted.append(id)

    def step(self) -> list[RequestOutput]:
        self._steps += 1
        self._behaviour.before_step(self._steps)
        if self._steps == self._behaviour.dies_at_step:
            raise EngineDeadError
        ending = list(self._waiting)[-self._behaviour.per_step :]  # not in the order of asking
        return [output for id in ending if (output := self._end(id)) is not None]

    def _end(self, id: str) -> RequestOutput | None:
        prompt, params = self._waiting.pop(id)
        if self._behaviour.lost(int(id)):
            return None
        completions = [
            CompletionOutput(
                index=index,
                text=text_of(prompt, None if params.temperature == 0 else (params.seed or 0) + index),
                token_ids=[7] * 4,
                cumulative_logprob=None,
                logprobs=None,
                finish_reason=self._behaviour.finish(int(id)),
            )
            for index in range(params.n)
        ]
        return RequestOutput(id, None, prompt, None, completions, True, num_cached_tokens=len(prompt) - 1)


def install(monkeypatch: pytest.MonkeyPatch, behaviour: Behaviour) -> None:
    """Make `import vllm` give this module."""
    for name, module in modules(behaviour).items():
        monkeypatch.setitem(sys.modules, name, module)


def modules(behaviour: Behaviour) -> dict[str, types.ModuleType]:
    """Return the modules that stand for vLLM's, by name."""

    class LLM:
        def __init__(
            self,
            model: str,
            *,
            runner: str = "auto",
            convert: str = "auto",
            tokenizer: str | None = None,
            tokenizer_mode: str = "auto",
            skip_tokenizer_init: bool = False,
            trust_remote_code: bool = False,
            allowed_local_media_path: str = "",
            allowed_media_domains: list[str] | None = None,
            tensor_parallel_size: int = 1,
            dtype: str = "auto",
            quantization: str | None = None,
            revision: str | None = None,
            tokenizer_revision: str | None = None,
            chat_template: Path | str | None = None,
            seed: int = 0,
            gpu_memory_utilization: float = 0.92,
            cpu_offload_gb: float = 0,
            enforce_eager: bool = False,
            hf_token: bool | str | None = None,
            kv_cache_memory_bytes: int | None = None,
            **kwargs: Any,  # of EngineArgs: enable_prefix_caching, max_model_len, ...
        ) -> None:
            behaviour.llms.append({key: value for key, value in locals().items() if key != "self"})
            if behaviour.fails_to_start:
                raise RuntimeError(behaviour.fails_to_start)
            assert set(kwargs) <= {"enable_prefix_caching", "max_model_len", "distributed_executor_backend"}
            self.llm_engine = _Engine(behaviour, kwargs.get("max_model_len"))
            self._counter = 0

        def enqueue(
            self,
            prompts: Any,
            sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
            lora_request: None = None,
            priority: list[int] | None = None,
            use_tqdm: bool = True,
            tokenization_kwargs: dict[str, Any] | None = None,
            mm_processor_kwargs: dict[str, Any] | None = None,
        ) -> list[str]:
            assert isinstance(sampling_params, Sequence)
            if len(sampling_params) != len(prompts):
                raise ValueError(f"The lengths of prompts ({len(prompts)}) and params must be the same.")
            return list(self._add(zip(prompts, sampling_params, strict=True)))

        def _add(self, pairs: Iterable[tuple[TokensPrompt, SamplingParams]]) -> Iterable[str]:
            for prompt, params in pairs:
                ids = prompt["prompt_token_ids"]
                behaviour.asked.append((ids, params))
                yield self.llm_engine.add(str(self._counter), ids, params)
                self._counter += 1

    class Platform:
        device_type = behaviour.device

        @classmethod
        def get_device_name(cls, device_id: int = 0) -> str:
            return "Fake H100" if cls.device_type == "cuda" else cls.device_type

        @classmethod
        def device_count(cls) -> int:
            return behaviour.devices

    vllm: Any = types.ModuleType("vllm")
    vllm.__version__ = "0.24.0"
    vllm.LLM, vllm.SamplingParams, vllm.TokensPrompt = LLM, SamplingParams, TokensPrompt
    platforms: Any = types.ModuleType("vllm.platforms")
    platforms.current_platform = Platform
    vllm.exceptions = types.ModuleType("vllm.exceptions")
    vllm.exceptions.VLLMClientError = VLLMClientError
    vllm.exceptions.VLLMValidationError = VLLMValidationError
    return {"vllm": vllm, "vllm.exceptions": vllm.exceptions, "vllm.platforms": platforms}
