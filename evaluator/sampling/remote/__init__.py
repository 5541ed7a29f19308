"""Samples from a model behind a server or a provider's API, by the client of all remote calls."""

from evaluator.sampling.remote.sampler import RemoteSampler

__all__ = ["RemoteSampler"]
