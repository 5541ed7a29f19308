"""A database with two small trainings and all that the pages show of them."""

from pathlib import Path

import numpy as np
from rollout_shards import add_training, make_record, make_step

from service.database import Database
from trainer_adapter.record import RolloutRecord, RolloutWriter
from trainer_adapter.record.rollout import token_ratios_text

STEPS = 6
QUESTIONS = 8


def step_with_tokens(step: int) -> list[RolloutRecord]:
    """Return the records of a step whose responses say the log-ratio of each of three tokens."""
    records = []
    for one in make_step(step, QUESTIONS):
        lengths = (len(one.response) - 3, 3, 0)
        ratios = token_ratios_text(lengths, np.array([-2.5, 0.0, 0.4]))
        records.append(make_record(step, one.group, one.session, tokens=3, token_ratios=ratios))
    return records


def metrics(step: int, offset: float, *, anchored: bool) -> dict[str, float]:
    """Return what a step logs, as a training does; what an anchor does only where there are neighbors."""
    found = {
        "tagrpo/entropy/mean": 1.0 - step / 10 + offset,
        "tagrpo/kl/k3/mean": step / 1000,
        "tagrpo/correct/mean": 0.3 + step / 20,
        "tagrpo/tokens/mean": 100.0 + step,
        "actor/grad_norm": 0.5 + offset,
        "actor/pg_clipfrac": 0.01,
    }
    for place, group in enumerate(("original", "neighbors", "joint")):
        right, wrong = 0.1 + offset, 0.4 - 0.1 * place
        found[f"tagrpo/zero/{group}/all_right"] = right
        found[f"tagrpo/zero/{group}/all_wrong"] = wrong
        found[f"tagrpo/zero/{group}/share"] = right + wrong
    for prompt in ("original", "variant_1") if anchored else ():
        found[f"tagrpo/anchor/log_ratio_token/{prompt}"] = -0.01 * step
    for share in ("0.01", "1", "20", "40", "100"):
        found[f"tagrpo/covariance/positive/top_{share}"] = 5.0 / (1 + float(share))
        found[f"tagrpo/covariance/negative/top_{share}"] = -4.0 / (1 + float(share))
    return found


def trainings(folder: Path, model: str = "m") -> Path:
    """Write the runs `plain` (grpo) and `joint` (ta_grpo) of a model; return the database.

    `joint` has log-ratios of single tokens.
    """
    path = folder / "t.db"
    with Database.open(path) as database:
        for offset, (name, recipe) in enumerate((("plain", "grpo"), ("joint", "ta_grpo"))):
            spec = {"recipe": {"name": recipe}, "model": model}
            with RolloutWriter(folder / name, name, spec=spec, versions={"tagrpo": "0"}) as writer:
                for step in range(1, STEPS + 1):
                    made = step_with_tokens(step) if name == "joint" else make_step(step, QUESTIONS)
                    writer.write(step, made)
                    writer.write_metrics(step, metrics(step, 0.05 * offset, anchored=name == "joint"))
            add_training(database, folder / name)
    return path
