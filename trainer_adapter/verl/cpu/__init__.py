"""verl 0.9.1 on a machine without a GPU; `registration` makes verl know it.

Importing this package does nothing: the server that workers are forked from must not import verl, and whoever
composes a run must not choose the CPU by it.
"""

ROLLOUT = "transformers"
"""Name of the rollout, in verl's config."""
