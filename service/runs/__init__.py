"""Runs: settings, costs and progress; removing and renaming them."""
