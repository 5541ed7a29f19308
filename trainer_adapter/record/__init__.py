"""The record of a training's rollouts: files that training writes, read where they are."""

from trainer_adapter.record.rollout import RolloutRecord
from trainer_adapter.record.writing import RolloutWriter

__all__ = ["RolloutRecord", "RolloutWriter"]
