"""The record of rollouts: parquet shards while training runs, rows in the database afterwards."""

from trainer_adapter.rollouts.reading import read_rollouts
from trainer_adapter.rollouts.record import SCHEMA_VERSION, RolloutRecord
from trainer_adapter.rollouts.writing import RolloutWriter

__all__ = ["SCHEMA_VERSION", "RolloutRecord", "RolloutWriter", "read_rollouts"]
