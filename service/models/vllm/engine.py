"""The part of vLLM's public API that is used: `LLM`, `LLM.enqueue`, and the steps of its engine.

Written against vLLM 0.24.0 and 0.31.0 (vllm/entrypoints/llm.py, vllm/v1/engine/llm_engine.py,
vllm/sampling_params.py, vllm/outputs.py, vllm/exceptions.py). Where a request of n samples has a seed s, vLLM
draws its sample i with the seed s + i (vllm/v1/engine/parallel_sampling.py).
"""

import multiprocessing
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from service.errors import InputError, PrerequisiteError, first_line
from service.models.drawing import Response
from service.models.engine_ending import name_this_command
from service.models.offline import FinishedOrder, Order
from service.models.settings import SamplingSettings

IN_FLIGHT = 256
_CLAIM = 64
LEAST_TEMPERATURE = 0.01
"""vLLM raises lower temperatures to this one (`_MAX_TEMP` in vllm/sampling_params.py); 0 is greedy."""

ENDING_S = 3.0
_PROCESS = "EngineCore"
"""How the names of the engine's processes begin (`CoreEngineProcManager` in vllm/v1/engine/utils.py)."""

_WITHOUT_SAMPLES = frozenset({"abort", "error", None})


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
            f"{reason}: pip install 'tagrpo[vllm]' on a machine with a GPU; without one take the sampler "
            "local, or ask a vLLM server elsewhere by its address."
        ) from error
    return vllm


def find_device() -> dict[str, str]:
    """Return kind and name of the first device as vLLM sees it, without starting CUDA in this process."""
    from vllm.platforms import current_platform

    kind = str(current_platform.device_type)
    if kind == "cpu":
        return {"device": kind}  # its name there is cpu again
    try:
        return {"device": kind, "gpu": str(current_platform.get_device_name(0))}
    except NotImplementedError:
        return {"device": kind}


class Engine:
    """A running engine. Orders are numbered by the caller and come back in any order."""

    name = "vLLM"

    def __init__(self, model: str, **options: Any) -> None:
        """Start the engine with these options of `vllm.LLM`, which loads the weights and takes minutes.

        Raises:
            PrerequisiteError: vLLM is not installed or does not start; its own message is passed on.
        """
        vllm = find_vllm()
        self._refusals = _refusals()
        self._sampling_params = vllm.SamplingParams
        self._tokens_prompt = vllm.TokensPrompt
        name_this_command()
        try:
            self._llm = vllm.LLM(model, enable_prefix_caching=True, **options)
        except Exception as error:  # vLLM raises what torch, CUDA and its workers raise
            reason = first_line(error)
            raise PrerequisiteError(
                f"vLLM does not start with {model}: {reason} Its own messages, above, say why; if they "
                "are about memory, raise --tensor-parallel, or lower --max-model-len."
            ) from error
        self._engine = self._llm.llm_engine
        _wake_at_death(self._engine.engine_core)
        self._orders: dict[str, Order] = {}

    @property
    def context(self) -> int:
        """How many tokens prompt and response may have together."""
        return int(self._engine.model_config.max_model_len)

    @property
    def at_work(self) -> str:
        """What is being drawn, in words."""
        return f"{len(self._orders)} requests in flight"

    def wanted(self, samples_per_order: int) -> int:
        """Return how many orders it would take now."""
        return _CLAIM if len(self._orders) <= IN_FLIGHT - _CLAIM else 0

    def submit(self, orders: Sequence[Order], sampling: SamplingSettings) -> None:
        """Queue orders, each under its number; the seeds are the first one's and what follows it.

        Raises:
            InputError: vLLM refuses a request; others of the call may have been taken, so close the engine.
            EngineDiedError: it is not there any more.
        """
        try:
            prompts = [self._prompt(order) for order in orders]
            settings = [
                self._sampling_params(
                    n=len(order.seeds), seed=_first_seed(order), **_settings(sampling, order.max_tokens)
                )
                for order in orders
            ]
            ids = self._llm.enqueue(prompts, settings, use_tqdm=False)
        except self._refusals as error:
            raise InputError(f"vLLM refuses a request: {error}") from error
        except Exception as error:
            raise _death(error) from error
        for order, id in zip(orders, ids, strict=True):
            # Outputs are named by the number before the random part that `enqueue` gives back with it.
            self._orders[str(id).partition("-")[0]] = order

    def _prompt(self, order: Order) -> Any:
        """Return an order's prompt; where it holds images, vLLM puts in their tokens itself."""
        pictures = order.pictures
        if pictures is None:
            return self._tokens_prompt(prompt_token_ids=list(order.prompt))
        return self._tokens_prompt(
            prompt_token_ids=list(pictures.ids), multi_modal_data={"image": pictures.opened()}
        )

    def step(self) -> list[FinishedOrder]:
        """Let the engine go on for a step; return the orders that ended.

        Raises:
            EngineDiedError: it did not survive the step.
        """
        with _as_death():
            outputs = self._engine.step()
        ended = [
            _read(output, order)
            for output in outputs
            if output.finished and (order := self._orders.pop(output.request_id, None)) is not None
        ]
        if self._orders and not self._engine.has_unfinished_requests():
            ended += [FinishedOrder(order.number, failure="lost") for order in self._orders.values()]
            self._orders.clear()
        return ended

    def abort(self) -> None:
        """Give up what is in flight."""
        ids = list(self._orders)
        self._orders.clear()
        with _as_death():
            self._engine.abort_request(ids)

    def close(self) -> None:
        """End the engine's processes, which may take some seconds.

        Python waits at exit for processes of multiprocessing, and those of an engine end only when told.
        """
        try:
            self._engine.engine_core.shutdown(timeout=ENDING_S)
        finally:  # a signal in between leaves none behind either
            for process in multiprocessing.active_children():
                if process.name.startswith(_PROCESS):
                    process.kill()


def _read(output: Any, order: Order) -> FinishedOrder:
    reasons = [completion.finish_reason for completion in output.outputs]
    bad = next((reason for reason in reasons if reason in _WITHOUT_SAMPLES), "")
    if bad != "":
        return FinishedOrder(order.number, failure=bad or "unfinished")
    responses = tuple(
        Response(completion.text, completion.finish_reason, len(order.prompt), len(completion.token_ids))
        for completion in sorted(output.outputs, key=lambda completion: completion.index)
    )
    n, seed = len(order.seeds), order.seeds[0]
    raw = {"n": n, "seed": seed, "cached_tokens": output.num_cached_tokens}
    seeds = None if seed is None else tuple(range(seed, seed + n))
    return FinishedOrder(order.number, responses, seeds, raw)


def _first_seed(order: Order) -> int | None:
    """Return the seed of an order's first sample.

    Raises:
        ValueError: a seed of more than 64 bits, which leaves a request in vLLM that never ends.
    """
    first = order.seeds[0]
    if first is not None and not 0 <= first <= 2**64 - len(order.seeds):
        raise ValueError(f"seeds are whole numbers of at most 64 bits, but the first is {first}")
    return first


def _settings(sampling: SamplingSettings, max_tokens: int) -> dict[str, Any]:
    decoding = {**sampling.decoding, "max_tokens": max_tokens, "stop": list(sampling.stop) or None}
    return {**decoding, "top_k": sampling.top_k or -1}  # all tokens


def _refusals() -> tuple[type[Exception], ...]:
    """Return what vLLM raises of a request that it does not take; none of them means that the engine died."""
    from vllm import exceptions

    # A ValueError until it became a class of its own, below the second where there is one.
    own = (getattr(exceptions, name, ValueError) for name in ("VLLMValidationError", "VLLMClientError"))
    return (ValueError, TypeError, *own)


def _wake_at_death(client: Any) -> None:
    """Have the client's wait for outputs end with its engine.

    Where the engine's process is killed, vLLM 0.31 ends the thread that receives, and
    `SyncMPClient.get_output` waits on for what that would queue (vllm/v1/engine/core_client.py).
    """
    receiver = getattr(client, "output_queue_thread", None)
    if receiver is None:
        return  # an engine in this process
    outputs = client.outputs_queue

    def wake() -> None:
        receiver.join()
        outputs.put_nowait(EngineDiedError("its process ended"))

    threading.Thread(target=wake, name="tagrpo-engine", daemon=True).start()


@contextmanager
def _as_death() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # EngineDeadError, and what workers raise in this process
        raise _death(error) from error


def _death(error: Exception) -> EngineDiedError:
    reason = (str(error).strip().splitlines() or [""])[0]
    return EngineDiedError(f"{type(error).__name__}: {reason}")
