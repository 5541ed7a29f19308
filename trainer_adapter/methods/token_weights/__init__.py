"""Weights of tokens, constants for the gradient: CW-GRPO and Clip-Cov."""

from trainer_adapter.methods.token_weights.clip_cov import Candidates, choose_clipped, clip_cov_candidates
from trainer_adapter.methods.token_weights.covariance import token_covariance
from trainer_adapter.methods.token_weights.cw_grpo import cw_weights, cw_weights_repo

__all__ = [
    "Candidates",
    "choose_clipped",
    "clip_cov_candidates",
    "cw_weights",
    "cw_weights_repo",
    "token_covariance",
]
