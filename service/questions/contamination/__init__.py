"""Contamination: which texts of a set repeat problems of a benchmark, found and kept for reports."""
