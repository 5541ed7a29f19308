"""A plug-in of vLLM for its CPU build, which cannot take back what a seeded request has drawn.

Where a prompt is read in several pieces, vLLM samples after each and then sets the request's generator back
by an offset. Generators of the CPU have none, so that the engine dies ("CPU Generator does not use offset").
"""

from typing import Any


def keep_generators() -> None:
    """Hide the generators from the bookkeeping that would set them back; vLLM calls this in each process."""
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    if getattr(GPUModelRunner, "_keeps_generators", False):
        return
    bookkeeping = GPUModelRunner._bookkeeping_sync

    def without_generators(runner: Any, *args: Any, **kwargs: Any) -> Any:
        generators = runner.input_batch.generators
        runner.input_batch.generators = {}
        try:
            return bookkeeping(runner, *args, **kwargs)
        finally:
            runner.input_batch.generators = generators

    GPUModelRunner._bookkeeping_sync = without_generators
    GPUModelRunner._keeps_generators = True
