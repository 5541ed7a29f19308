"""Runs: their settings, what they have spent, how far they are; removing and renaming them."""
