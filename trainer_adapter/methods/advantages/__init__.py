"""Advantages of responses: pure functions of rewards and groups, one file an estimator, in float64."""
