"""Built-in and custom benchmarks; their content and golds are checked before any run."""

from evaluator.benchmarks.catalogue import BENCHMARKS
from evaluator.benchmarks.golds import (
    GoldFailure,
    check_golds,
    describe_failure,
    require_golds,
    whole_solutions,
)
from evaluator.benchmarks.loading import find_benchmark, load_benchmark
from evaluator.benchmarks.types import (
    Benchmark,
    BenchmarkColumns,
    ChangedBenchmarkError,
    LoadedBenchmark,
    content_hash,
    source_name,
)

__all__ = [
    "BENCHMARKS",
    "Benchmark",
    "BenchmarkColumns",
    "ChangedBenchmarkError",
    "GoldFailure",
    "LoadedBenchmark",
    "check_golds",
    "content_hash",
    "describe_failure",
    "find_benchmark",
    "load_benchmark",
    "require_golds",
    "source_name",
    "whole_solutions",
]
