"""The part of vLLM's public API that is used: `LLM`, `LLM.enqueue`, and the steps of its engine.

Written against vLLM 0.24.0 (vllm/entrypoints/llm.py, vllm/v1/engine/llm_engine.py, vllm/sampling_params.py,
vllm/outputs.py). Where a request of n samples has a seed s, vLLM draws its sample i with the seed s + i
(vllm/v1/engine/parallel_sampling.py).
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from service.errors import InputError, PrerequisiteError

GREEDY = 0.0
LEAST_TEMPERATURE = 0.01
"""vLLM raises lower temperatures to this one (`_MAX_TEMP` in vllm/sampling_params.py); 0 is greedy."""

_WITHOUT_SAMPLES = frozenset({"abort", "error", None})


@dataclass(frozen=True)
class Settings:
    """How the engine is started; as the options of `vllm.LLM` of these names."""

    model: str
    revision: str | None
    tensor_parallel_size: int
    dtype: str
    gpu_memory_utilization: float
    max_model_len: int | None


@dataclass(frozen=True)
class Order:
    """A request for `n` samples: `seed`, `seed` + 1, ... are theirs."""

    prompt: Sequence[int]
    n: int
    seed: int
    max_tokens: int


@dataclass(frozen=True)
class Completion:
    """One sample that came back."""

    text: str
    tokens: int
    finish_reason: str


@dataclass(frozen=True)
class Finished:
    """An order that ended: its samples in order, or why there are none."""

    number: int
    completions: tuple[Completion, ...]
    cached_tokens: int | None = None
    failure: str | None = None


class EngineDiedError(Exception):
    """The engine ended under way; what was in flight is lost."""


def find_vllm() -> Any:
    """Import vLLM.

    Raises:
        PrerequisiteError: it is not installed, or not for this machine.
    """
    # vLLM's own messages go to stdout otherwise, where a command's JSON stands. Read when vLLM is imported.
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    try:
        import vllm
    except ImportError as error:
        missing = (getattr(error, "name", None) or "").partition(".")[0] == "vllm"
        reason = "vLLM is not installed" if missing else f"vLLM cannot be imported ({error})"
        raise PrerequisiteError(
            f"{reason}: pip install 'tagrpo[vllm]' on a machine with a GPU; without one use --sampler local, "
            "or a vLLM server elsewhere with --api-base."
        ) from error
    return vllm


def find_device() -> dict[str, str]:
    """Return kind and name of the first device as vLLM sees it, without starting CUDA in this process."""
    from vllm.platforms import current_platform

    kind = str(current_platform.device_type)
    try:
        return {"device": kind, "gpu": str(current_platform.get_device_name(0))}
    except NotImplementedError:
        return {"device": kind}


class Engine:
    """A running engine. Orders are numbered by the caller and come back in any order."""

    def __init__(self, settings: Settings) -> None:
        """Start the engine, which loads the weights and takes minutes.

        Raises:
            PrerequisiteError: vLLM is not installed or does not start; its own message is passed on.
        """
        vllm = find_vllm()
        self._sampling_params = vllm.SamplingParams
        self._tokens_prompt = vllm.TokensPrompt
        try:
            self._llm = vllm.LLM(
                settings.model,
                revision=settings.revision,
                tokenizer_revision=settings.revision,
                tensor_parallel_size=settings.tensor_parallel_size,
                dtype=settings.dtype,
                gpu_memory_utilization=settings.gpu_memory_utilization,
                max_model_len=settings.max_model_len,
                enable_prefix_caching=True,
            )
        except Exception as error:  # vLLM raises what torch, CUDA and its workers raise
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise PrerequisiteError(
                f"vLLM does not start with {settings.model}: {reason} (its own messages stand above). Too "
                "little GPU memory: raise --tensor-parallel, or lower --max-model-len."
            ) from error
        self._engine = self._llm.llm_engine
        self._numbers: dict[str, int] = {}

    @property
    def context(self) -> int:
        """How many tokens prompt and response may have together."""
        return int(self._engine.model_config.max_model_len)

    @property
    def in_flight(self) -> int:
        """Orders that have not come back."""
        return len(self._numbers)

    def submit(self, orders: Sequence[tuple[int, Order]], *, temperature: float, top_p: float) -> None:
        """Queue orders, each under its number.

        Raises:
            InputError: vLLM refuses a request.
            EngineDiedError: it is not there any more.
        """
        prompts = [self._tokens_prompt(prompt_token_ids=list(order.prompt)) for _, order in orders]
        settings = [
            self._sampling_params(
                n=order.n,
                temperature=temperature,
                top_p=top_p,
                seed=order.seed,
                max_tokens=order.max_tokens,
            )
            for _, order in orders
        ]
        try:
            with _as_death():
                ids = self._llm.enqueue(prompts, settings, use_tqdm=False)
        except EngineDiedError as error:
            if isinstance(error.__cause__, ValueError):
                raise InputError(f"vLLM refuses a request: {error.__cause__}") from error.__cause__
            raise
        for (number, _), id in zip(orders, ids, strict=True):
            # Outputs are named by the number before the random part that `enqueue` gives back with it.
            self._numbers[str(id).partition("-")[0]] = number

    def step(self) -> list[Finished]:
        """Let the engine go on for a step; return the orders that ended.

        Raises:
            EngineDiedError: it did not survive the step.
        """
        with _as_death():
            outputs = self._engine.step()
        ended = [self._read(output) for output in outputs if output.finished]
        if self._numbers and not self._engine.has_unfinished_requests():
            ended += [Finished(number, (), failure="lost") for number in self._numbers.values()]
            self._numbers.clear()
        return [one for one in ended if one is not None]

    def abort(self) -> None:
        """Give up what is in flight."""
        ids = list(self._numbers)
        self._numbers.clear()
        with _as_death():
            self._engine.abort_request(ids)

    def _read(self, output: Any) -> Finished | None:
        number = self._numbers.pop(output.request_id, None)
        if number is None:
            return None
        bad = next((one for one in output.outputs if one.finish_reason in _WITHOUT_SAMPLES), None)
        if bad is not None:
            return Finished(number, (), failure=bad.finish_reason or "unfinished")
        completions = tuple(
            Completion(one.text, len(one.token_ids), one.finish_reason)
            for one in sorted(output.outputs, key=lambda one: one.index)
        )
        return Finished(number, completions, output.num_cached_tokens)


@contextmanager
def _as_death() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # EngineDeadError, and what workers raise in this process
        reason = (str(error).strip().splitlines() or [""])[0]
        raise EngineDiedError(f"{type(error).__name__}: {reason}") from error
