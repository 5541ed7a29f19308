"""Grading, benchmarks, pass@k, evaluations, reports and the training signal."""
