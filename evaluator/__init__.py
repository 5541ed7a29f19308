"""What answers tell: grading, benchmarks, pass@k, evaluations, reports and the training signal."""
