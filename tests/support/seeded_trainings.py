"""Trainings that differ in their seed, and one that differs in more: metrics alone, no rollouts."""

from pathlib import Path
from typing import Any

from rollout_shards import add_training, make_step

from service.database import Database
from trainer_adapter.record import RolloutWriter

LOGGED = {"s0": (1.0, 2.0, 3.0), "s1": (2.0, 4.0), "s2": (6.0, 6.0, 6.0), "faster": (9.0, 9.0, 9.0)}
"""What `actor/lr` says at the steps of each run; `s1` has come to its second step only."""


def seeded_spec(name: str) -> dict[str, Any]:
    """Return the settings of a run of this name."""
    return {
        "recipe": {"name": "ta_grpo"},
        "plug_in": {"seed": len(name), "kl_on": "all"},
        "model": "m",
        "machine": {"gpus": len(name)},
        "settings": {
            "data.seed": name,
            "trainer.default_local_dir": f"runs/{name}/checkpoints",
            "actor_rollout_ref.actor.optim.lr": 0.1 if name == "faster" else 0.001,
        },
    }


def seeded_trainings(folder: Path) -> Path:
    """Write them; return the database."""
    path = folder / "t.db"
    with Database.open(path) as database:
        for name, values in LOGGED.items():
            with RolloutWriter(folder / name, name, spec=seeded_spec(name), versions={}) as writer:
                for step, value in enumerate(values, start=1):
                    writer.write(step, make_step(step, 1))
                    writer.write_metrics(step, {"actor/lr": value, "critic/odd": -value})
            add_training(database, folder / name)
    return path
