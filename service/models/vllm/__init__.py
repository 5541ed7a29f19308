"""Samples from vLLM's offline engine, in this process's machine. Importing this does not load vLLM."""

from service.models.vllm.sampler import VllmSampler

__all__ = ["VllmSampler"]
