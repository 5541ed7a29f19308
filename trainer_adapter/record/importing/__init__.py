"""Rollouts into the database and out of it: import, watch, prune."""

from trainer_adapter.record.importing.meanwhile import ImportMeanwhile
from trainer_adapter.record.importing.pruning import prune, steps_to_prune
from trainer_adapter.record.importing.shards import Imported, import_rollouts
from trainer_adapter.record.importing.watching import watch_rollouts

__all__ = [
    "ImportMeanwhile",
    "Imported",
    "import_rollouts",
    "prune",
    "steps_to_prune",
    "watch_rollouts",
]
