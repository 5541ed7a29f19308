"""Losses: the clipped surrogate, its aggregation, and KL estimators. Pure functions of tensors."""

from trainer_adapter.methods.losses.aggregation import Aggregation, aggregate
from trainer_adapter.methods.losses.kl import KLEstimator, kl_estimate
from trainer_adapter.methods.losses.policy import Surrogate, clipped_surrogate

__all__ = ["Aggregation", "KLEstimator", "Surrogate", "aggregate", "clipped_surrogate", "kl_estimate"]
