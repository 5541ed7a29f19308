"""Samples from a Hugging Face checkpoint on a CPU or a GPU. Importing this does not load torch."""

from service.models.local.sampler import LocalSampler

__all__ = ["LocalSampler"]
