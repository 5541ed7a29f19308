"""verl 0.9.1 on a machine without a GPU; `registration` makes verl know it.

Importing this package does nothing: the server that workers are forked from must not import verl, and whoever
composes a run must not choose the CPU by it.
"""


def server_name(replica_rank: int) -> str:
    """Return Ray's name of the actor that draws responses for a replica."""
    return f"transformers_rollout_{replica_rank}"
