"""Runs: settings, costs and progress."""
