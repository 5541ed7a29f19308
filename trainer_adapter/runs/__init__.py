"""Training with stock verl: what a run is told and why, what it will cost, starting it and going on with it.

Nothing here imports verl, torch or ray; verl runs in a process of its own.
"""
