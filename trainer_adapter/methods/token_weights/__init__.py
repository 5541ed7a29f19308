"""Token weights, constant in the gradient: CW-GRPO and Clip-Cov."""
