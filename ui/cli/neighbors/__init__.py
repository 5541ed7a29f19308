"""Commands of neighbors: proposing, judging, reviewing."""
