"""Composition of a step: groups without a gradient are redrawn, skipped or replaced; its updates."""
