"""Reports on eval runs: rows, tables, curves, comparisons and published figures."""
