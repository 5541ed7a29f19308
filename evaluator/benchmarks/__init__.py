"""Built-in and custom benchmarks; their content and golds are checked before any run."""
