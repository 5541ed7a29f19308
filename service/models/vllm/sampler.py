"""The sampler of vLLM's offline engine: keeps many cells in flight and stores each as it comes back."""

from collections.abc import Mapping
from typing import Any

from service.errors import InputError
from service.models.checkpoint import Checkpoint, open_checkpoint
from service.models.drawing import CellsToDraw, ReportSamples
from service.models.offline import CheckpointSampler, OfflineFilling
from service.models.settings import DrawingSpec
from service.models.stopping import GRACE_S, stop_on_signals
from service.models.vllm.engine import LEAST_TEMPERATURE, Engine, EngineDiedError, find_device, find_vllm
from service.models.vllm.parallel import ParallelEngines, look_at_device, start_cluster
from service.ray_cluster import leave_cluster
from service.runs.filling import Filled

DIED = "engine"
"""Why a pass stopped: the engine ended under way."""


class VllmSampler(CheckpointSampler):
    """Draws with vLLM on the GPUs of this machine; see `service.models.drawing.Sampler`.

    A cell is one request of n samples; prompts are rendered here and given as token ids, and prefix caching
    reads each prompt once. vLLM draws sample i of a request with its seed plus i: that is the seed stored.
    `tensor_parallel` GPUs share the model; `max_model_len` None takes the model's own context. After SIGTERM
    a step that takes longer than `grace_s` seconds is given up. With `gpus`, or `ray_address` of a cluster,
    engines draw side by side, on so many GPUs in all (None: all that the cluster has).
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
        gpus: int | None = None,
        ray_address: str | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        if tensor_parallel < 1:
            raise InputError(f"tensor-parallel is {tensor_parallel}; give the number of GPUs, at least 1.")
        if not 0 < gpu_memory_utilization <= 1:
            raise InputError(
                f"gpu-memory-utilization is {gpu_memory_utilization}; give more than 0, at most 1."
            )
        if max_model_len is not None and max_model_len < 2:
            raise InputError(f"max-model-len is {max_model_len}; give at least 2 tokens.")
        if gpus is not None and (gpus < 1 or gpus % tensor_parallel):
            raise InputError(
                f"gpus is {gpus}; give a multiple of the {tensor_parallel} that each engine takes."
            )
        super().__init__(model, revision)
        self._gpus, self._ray_address = gpus, ray_address
        self._ray: Any = None
        self._tensor_parallel, self._dtype = tensor_parallel, dtype
        self._memory, self._max_model_len = gpu_memory_utilization, max_model_len
        self._grace_s = grace_s
        self._checkpoint: Checkpoint | None = None
        self._engine: Engine | ParallelEngines | None = None

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
            **self._device(),
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
        super().check(spec)

    def fill(self, cells: CellsToDraw, report: ReportSamples) -> Filled:
        """Draw all empty cells. `stopped` is `interrupted` after SIGINT or SIGTERM, `engine` where it died.

        Raises:
            InputError: a prompt does not fit into the model's context; see also `check`.
            PrerequisiteError: vLLM is not installed or does not start.
        """
        self.check(cells.spec)
        expected = self._max_model_len or self._open().context
        prompts = self._plan(cells, expected)  # what cannot be drawn is told before the engine starts
        with cells.keep_leases():
            engine = self._started()  # signals end a start, which takes minutes
            if engine.context != expected:
                prompts = self._plan(cells, engine.context)
            self._notices += prompts.notices
            filling = OfflineFilling(cells, engine, prompts, report)
            with stop_on_signals(grace_s=self._grace_s) as stop:
                try:
                    return filling.run(stop.is_set)
                except EngineDiedError as error:
                    self.close()
                    if stop.is_set():  # Ctrl-C ends its processes too
                        return filling.interrupted()
                    filled = filling.filled
                    filled.stopped = DIED
                    filled.message = f"vLLM's engine died ({error}); what had come back is stored"
                    return filled
                except InputError:
                    self.close()  # of a refused request something may be left in it
                    raise

    def close(self) -> None:
        """End the engine and its processes; the next `fill` starts another."""
        engine, self._engine = self._engine, None
        ray, self._ray = self._ray, None
        if engine is not None:
            engine.close()
        elif ray is not None:
            leave_cluster(ray)

    def _open(self) -> Checkpoint:
        if self._checkpoint is None:
            find_vllm()  # before torch, as it asks for
            self._checkpoint = open_checkpoint(self._name, self._revision, "vllm")
        return self._checkpoint

    @property
    def _is_parallel(self) -> bool:
        return self._gpus is not None or self._ray_address is not None

    def _cluster(self) -> Any:
        if self._ray is None:
            self._ray = start_cluster(self._ray_address, self._gpus)
        return self._ray

    def _device(self) -> dict[str, str]:
        if not self._is_parallel:
            return find_device()
        return look_at_device(self._cluster(), self._tensor_parallel)

    def _started(self) -> Engine | ParallelEngines:
        if self._engine is None:
            commit = self._open().commit
            options = {
                "revision": commit,
                "tokenizer_revision": commit,
                "tensor_parallel_size": self._tensor_parallel,
                "dtype": self._dtype,
                "gpu_memory_utilization": self._memory,
                "max_model_len": self._max_model_len,
            }
            if not self._is_parallel:
                self._engine = Engine(self._name, **options)
                return self._engine
            if self._tensor_parallel > 1:
                options["distributed_executor_backend"] = "mp"  # an engine's GPUs are those of its actor
            self._engine = ParallelEngines(
                self._cluster(),
                self._name,
                options,
                gpus_each=self._tensor_parallel,
                most=None if self._gpus is None else self._gpus // self._tensor_parallel,
                device=self._device(),
            )
        return self._engine
