"""Reports over eval runs: which runs make a row, tables and curves, comparisons, the figures of papers."""
