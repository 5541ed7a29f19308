"""A module that verl loads: on a CPU, vLLM packs the weights of linear layers and drops what it packed.

An update of weights has no place to go then, and verl waits for it forever.
"""

from typing import Any

from trainer_adapter.verl.plugin.registration import after_import


def keep_weights() -> None:
    """Let linear layers keep their weights, and compute as torch does."""
    import torch
    from vllm.model_executor.layers import utils

    def compute_by_torch(layer: Any, remove_weight: bool) -> None:
        layer.cpu_linear = torch.nn.functional.linear

    utils.dispatch_cpu_unquantized_gemm = compute_by_torch


after_import("vllm.model_executor.layers.utils", keep_weights)
