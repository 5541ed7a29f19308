"""Losses: the clipped surrogate, its aggregation, and KL estimators. Pure functions of tensors."""
