"""Weights of tokens, constants for the gradient: CW-GRPO and Clip-Cov."""
