"""A module that verl loads: on a CPU, vLLM packs the weights of linear layers and drops what it packed.

An update of weights has no place to go then, and verl waits for it forever.
"""

from typing import Any

from wrapt import when_imported


@when_imported("vllm.model_executor.layers.utils")
def keep_weights(utils: Any) -> None:
    """Let linear layers keep their weights, and compute as torch does."""
    import torch

    def compute_by_torch(layer: Any, remove_weight: bool) -> None:
        layer.cpu_linear = torch.nn.functional.linear

    utils.dispatch_cpu_unquantized_gemm = compute_by_torch
