"""Commands of evaluation and its benchmarks."""
