"""Commands of runs of all kinds."""
