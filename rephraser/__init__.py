"""Neighbors: proposing rephrasings, checking them, judging equivalence, publishing immutable sets."""
