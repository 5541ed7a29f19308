"""What verifiers and prime-rl load by the id `tagrpo`."""

from trainer_adapter.verifiers import NeighborEnv, NeighborTaskset, OneReply

__all__ = ["NeighborEnv", "NeighborTaskset", "OneReply"]
