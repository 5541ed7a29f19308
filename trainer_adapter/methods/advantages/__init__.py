"""Advantages of responses: pure functions of rewards and groups, one file per estimator, in float64."""
