"""Commands of training and its rollouts."""
