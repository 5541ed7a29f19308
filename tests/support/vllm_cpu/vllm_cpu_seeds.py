"""A plug-in of vLLM for its CPU build, which cannot take back what a seeded request has drawn.

Where a prompt is read in several pieces, vLLM samples after each and then sets the request's generator back
by an offset. Generators of the CPU have none, so that the engine dies ("CPU Generator does not use offset").
Here they get back the state they had, so that a text depends on its seed and not on what else was in flight.
"""

from typing import Any


def keep_generators() -> None:
    """Give generators their state back where a token is thrown away; vLLM calls this in each process."""
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    if getattr(GPUModelRunner, "_keeps_generators", False):
        return
    sample, bookkeeping = GPUModelRunner._sample, GPUModelRunner._bookkeeping_sync

    def sample_and_take_back(runner: Any, *args: Any, **kwargs: Any) -> Any:
        batch = runner.input_batch
        thrown_away = runner.discard_request_mask.np[: batch.num_reqs].nonzero()[0].tolist()
        states = {row: batch.generators[row].get_state() for row in thrown_away if row in batch.generators}
        output = sample(runner, *args, **kwargs)
        for row, state in states.items():
            batch.generators[row].set_state(state)
        return output

    def without_generators(runner: Any, *args: Any, **kwargs: Any) -> Any:
        generators = runner.input_batch.generators
        runner.input_batch.generators = {}
        try:
            return bookkeeping(runner, *args, **kwargs)
        finally:
            runner.input_batch.generators = generators

    GPUModelRunner._sample = sample_and_take_back
    GPUModelRunner._bookkeeping_sync = without_generators
    GPUModelRunner._keeps_generators = True
