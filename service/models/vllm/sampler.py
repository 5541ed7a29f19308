"""The sampler of vLLM's offline engine: keeps many cells in flight and stores each as it comes back."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from service.errors import InputError
from service.models.checkpoint import Checkpoint, open_checkpoint
from service.models.protocol import Report
from service.models.rendering import PlannedPrompts, plan_prompts
from service.models.settings import DrawingSpec
from service.models.speed import Speed
from service.models.stopping import INTERRUPTED, stop_on_signals
from service.models.vllm.engine import (
    GREEDY,
    LEAST_TEMPERATURE,
    Engine,
    EngineDiedError,
    Finished,
    Order,
    Settings,
    find_device,
    find_vllm,
)
from service.models.work import Drawn, DrawnCell, SampleRequest, SamplingWork
from service.runs.cells import Receipt
from service.runs.filling import Filled

IN_FLIGHT = 256
_CLAIM = 64
_REPORT_EVERY_S = 1.0
DIED = "engine"
"""Why a pass stopped: the engine ended under way."""


class VllmSampler:
    """Draws with vLLM on the GPUs of this machine; see `service.models.protocol.Sampler`.

    A cell is one request of n samples; prompts are rendered here and given as token ids, and prefix caching
    reads each prompt once. vLLM draws sample i of a request with its seed plus i: that is the seed stored.
    `tensor_parallel` GPUs share the model; `max_model_len` None takes the model's own context.
    """

    def __init__(
        self,
        model: str,
        *,
        revision: str | None = None,
        tensor_parallel: int = 1,
        dtype: str = "auto",
        gpu_memory_utilization: float = 0.9,
        max_model_len: int | None = None,
    ) -> None:
        if tensor_parallel < 1:
            raise InputError(f"tensor-parallel is {tensor_parallel}; give the number of GPUs, at least 1.")
        if not 0 < gpu_memory_utilization <= 1:
            raise InputError(
                f"gpu-memory-utilization is {gpu_memory_utilization}; give more than 0, at most 1."
            )
        if max_model_len is not None and max_model_len < 2:
            raise InputError(f"max-model-len is {max_model_len}; give at least 2 tokens.")
        self._name, self._revision = model, revision
        self._tensor_parallel, self._dtype = tensor_parallel, dtype
        self._memory, self._max_model_len = gpu_memory_utilization, max_model_len
        self._checkpoint: Checkpoint | None = None
        self._engine: Engine | None = None
        self._notices: list[str] = []

    @property
    def notices(self) -> Sequence[str]:
        """What the user should know: raw text for want of a template, responses cut at the context, ..."""
        return tuple(dict.fromkeys(self._notices))

    def describe(self) -> Mapping[str, Any]:
        """Return engine, versions, weights, dtype, GPUs and chat template; the engine is not started.

        Raises:
            PrerequisiteError: vLLM is not installed, or the model cannot be found.
        """
        vllm = find_vllm()
        checkpoint = self._open()
        import torch
        import transformers

        template = checkpoint.renderer.template_id
        return {
            "sampler": "vllm",
            "vllm": vllm.__version__,
            "transformers": transformers.__version__,
            "torch": torch.__version__,
            "weights": checkpoint.weights,
            "dtype": self._dtype,
            **find_device(),
            "tensor_parallel": self._tensor_parallel,
            "max_model_len": self._max_model_len,
            "seeds": "first of the request, plus its place",
            "chat_template": template,
            **({} if template else {"form": "raw"}),
        }

    def check(self, spec: DrawingSpec) -> None:
        """See that a run can be drawn, before it is made; what there is to say goes to `notices`.

        Raises:
            InputError: a temperature that vLLM would change, or a system prompt without a chat template.
        """
        temperature = spec.sampling.temperature
        if 0 < temperature < LEAST_TEMPERATURE:
            raise InputError(
                f"temperature is {temperature}, but vLLM draws at 0 or at {LEAST_TEMPERATURE} and more."
            )
        self._notices += self._open().renderer.notices(spec.prompt)

    def fill(self, work: SamplingWork, report: Report) -> Filled:
        """Draw all empty cells. `stopped` is `interrupted` after SIGINT or SIGTERM, `engine` where it died.

        Raises:
            InputError: a prompt does not fit into the model's context; see also `check`.
            PrerequisiteError: vLLM is not installed or does not start.
        """
        self.check(work.spec)
        expected = self._max_model_len or self._open().context
        prompts = self._plan(work, expected)  # what cannot be drawn is told before the engine starts
        with work.keep_leases(), stop_on_signals() as stop:
            engine = self._started()
            if engine.context != expected:
                prompts = self._plan(work, engine.context)
            self._notices += prompts.notices
            filling = _Filling(work, engine, prompts, report)
            try:
                return filling.run(stop.is_set)
            except EngineDiedError as error:
                self._engine = None
                return filling.after_death(error, interrupted=stop.is_set())

    def _open(self) -> Checkpoint:
        if self._checkpoint is None:
            find_vllm()  # before torch, as it asks for
            self._checkpoint = open_checkpoint(self._name, self._revision, "vllm")
        return self._checkpoint

    def _plan(self, work: SamplingWork, context: int | None) -> PlannedPrompts:
        return plan_prompts(
            self._open().renderer,
            work.spec.prompt,
            work.problems.values(),
            max_tokens=work.spec.sampling.max_tokens,
            context=context,
        )

    def _started(self) -> Engine:
        if self._engine is None:
            self._engine = Engine(
                Settings(
                    model=self._name,
                    revision=self._open().commit,
                    tensor_parallel_size=self._tensor_parallel,
                    dtype=self._dtype,
                    gpu_memory_utilization=self._memory,
                    max_model_len=self._max_model_len,
                )
            )
        return self._engine


@dataclass(frozen=True)
class _InFlight:
    request: SampleRequest
    order: Order
    began: float


class _Filling:
    """One pass: from leased cells to orders, from what comes back to stored cells."""

    def __init__(self, work: SamplingWork, engine: Engine, prompts: PlannedPrompts, report: Report) -> None:
        self._work, self._engine = work, engine
        self._prompts, self._report = prompts, report
        self._in_flight: dict[int, _InFlight] = {}
        self._filled = Filled()
        self._speed = Speed()
        self._stored_samples, self._reported = 0, time.monotonic()

    def run(self, is_stopped: Callable[[], bool]) -> Filled:
        """Draw until no cell is left or a signal came; see `VllmSampler.fill`."""
        is_last = False
        while not is_stopped():
            if not is_last and self._engine.in_flight <= IN_FLIGHT - _CLAIM:
                is_last = not self._lease()
                continue
            if not self._in_flight:
                return self._filled
            self._take_in(self._engine.step())
        self._engine.abort()
        return self._interrupted()

    def after_death(self, error: EngineDiedError, *, interrupted: bool) -> Filled:
        """Return what was drawn before the engine died; Ctrl-C ends its processes too."""
        if interrupted:
            return self._interrupted()
        self._filled.stopped = DIED
        self._filled.message = f"vLLM's engine died ({error}); what had come back is stored"
        return self._filled

    def _interrupted(self) -> Filled:
        self._filled.stopped = INTERRUPTED
        self._filled.message = "interrupted; whole requests are stored"
        return self._filled

    def _lease(self) -> bool:
        sampling = self._work.spec.sampling
        requests = self._work.lease(_CLAIM)
        now = time.monotonic()
        orders: list[tuple[int, Order]] = []
        for request in requests:
            planned = self._prompts.by_problem[request.problem.id]
            # At temperature 0 all samples are one text, and vLLM takes no n above 1.
            n = 1 if sampling.temperature == GREEDY else request.count
            order = Order(planned.prompt.token_ids, n, request.seeds[0], planned.max_tokens)
            self._in_flight[request.cell.id] = _InFlight(request, order, now)
            orders.append((request.cell.id, order))
        if orders:
            self._engine.submit(orders, temperature=sampling.temperature, top_p=sampling.top_p)
        return bool(requests)

    def _take_in(self, finished: Sequence[Finished]) -> None:
        drawn: list[DrawnCell] = []
        for one in finished:
            asked = self._in_flight.pop(one.number)
            if one.failure is not None:
                self._work.fail(asked.request, f"vLLM ended the request: {one.failure}")
                self._filled.failed += 1
                self._filled.failures[one.failure] = self._filled.failures.get(one.failure, 0) + 1
                continue
            drawn.append(self._drawn(asked, one))
        if drawn:
            self._work.store(drawn)
            self._filled.answered += len(drawn)
            self._stored_samples += sum(len(cell.responses) for cell in drawn)
            samples = sum(len(one.completions) for one in finished)
            self._speed.add(samples, sum(got.tokens for one in finished for got in one.completions))
        now = time.monotonic()
        if now - self._reported >= _REPORT_EVERY_S or not self._in_flight:
            self._report(
                self._stored_samples, f"{self._speed.words()}, {len(self._in_flight)} requests in flight"
            )
            self._stored_samples, self._reported = 0, now

    def _drawn(self, asked: _InFlight, one: Finished) -> DrawnCell:
        request, order = asked.request, asked.order
        responses = [
            Drawn(got.text, got.finish_reason, len(order.prompt), got.tokens) for got in one.completions
        ]
        seeds = tuple(order.seed + place for place in range(order.n))
        if order.n < request.count:  # greedy
            responses, seeds = responses * request.count, seeds * request.count
        receipt = Receipt(
            model=self._work.spec.model,
            prompt_tokens=len(order.prompt),
            completion_tokens=sum(got.tokens for got in one.completions),
            cost_usd=0.0,
            attempts=1,
            latency_s=time.monotonic() - asked.began,
        )
        raw = {
            "n": order.n,
            "seed": order.seed,
            "max_tokens": order.max_tokens,
            "cached_tokens": one.cached_tokens,
        }
        return DrawnCell(replace(request, seeds=seeds), responses, receipt, json.dumps(raw))
