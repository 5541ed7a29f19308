"""Training with stock verl: compose, check, start and resume runs.

Nothing here imports verl, torch or ray; verl runs in a process of its own.
"""
