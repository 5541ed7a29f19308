"""Neighbor sets: immutable versions of a run's neighbors; find, compare, verify, export, import."""
