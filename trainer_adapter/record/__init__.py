"""The record of rollouts: parquet shards while training runs, rows in the database afterwards."""

from trainer_adapter.record.reading import read_rollouts
from trainer_adapter.record.rollout import RolloutRecord
from trainer_adapter.record.writing import RolloutWriter

__all__ = ["RolloutRecord", "RolloutWriter", "read_rollouts"]
