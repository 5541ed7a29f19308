"""Samples from vLLM's offline engine, in this process's machine. Importing this does not load vLLM."""

from evaluator.sampling.vllm.sampler import VllmSampler

__all__ = ["VllmSampler"]
