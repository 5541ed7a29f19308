"""Contamination: which texts of a set repeat problems of a benchmark."""
