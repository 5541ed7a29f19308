"""Models that are asked: their settings, what a run of them costs, and how it stops."""
