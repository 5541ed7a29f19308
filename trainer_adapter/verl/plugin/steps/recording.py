"""The rollout record: its writer, and how it is filled with verl's own trainer.

With verl's own trainer no part sees all of a response: the reward function has its text and its grade, the
advantage estimator has the groups. So the reward function leaves a small file per response in the record's
folder, and the estimator collects those of its step.
"""

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer_adapter.methods.recipes import Recipe
from trainer_adapter.verl.plugin.settings import RunSettings

# The database comes with it, and this module is loaded in every process of verl.
if TYPE_CHECKING:
    from trainer_adapter.methods.groups import Tensor
    from trainer_adapter.methods.step_advantages import StepAdvantages
    from trainer_adapter.record.writing import RolloutWriter
    from trainer_adapter.verl.alarms import Alarms

_LOG = logging.getLogger("tagrpo.rollouts")
_PARTS = "responses-being-graded"
_opened: list[tuple["RolloutWriter", "Alarms"]] = []


def open_record(config: Mapping[str, Any], recipe: Recipe, settings: RunSettings) -> "RolloutWriter | None":
    """Return the writer of the rollout record; None where none is kept."""
    if settings.record is None:
        return None
    from service.runs.store import package_versions
    from trainer_adapter.record.writing import RolloutWriter

    spec = {
        "recipe": recipe.to_json(),
        "settings": settings.model_dump(),
        "model": config["actor_rollout_ref"]["model"]["path"],
        "train_files": config["data"]["train_files"],
    }
    return RolloutWriter(
        Path(settings.record),
        str(config["trainer"]["experiment_name"]),
        spec=spec,
        versions=package_versions(),
    )


def leave_response(folder: str, about: Mapping[str, Any], response: str, reward: Mapping[str, Any]) -> None:
    """Write what is to be recorded of a graded response; a failure never stops training."""
    place = Path(folder) / _PARTS / str(about["step"]) / about["uid"]
    log_probs = about["log_probs"]
    fields = {
        **{name: about[name] for name in ("step", "question_id", "neighbor_id", "strategy", "variant")},
        **{name: about[name] for name in ("session", "tokens", "truncated", "weights_version", "prompt")},
        "correct": None if reward["unknown"] else reward["acc"] > 0,
        "reason": reward["reason"],
        "extracted": reward["extracted"] or None,
        "response": response,
        "sampling_log_prob": None if log_probs is None else float(log_probs.sum(dtype="float64")),
        "score": reward["score"],
    }
    try:
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{about['session']}.json").write_text(json.dumps(fields), encoding="utf-8")
    except OSError as error:
        _LOG.warning("a response of step %s was not recorded: %s", about["step"], error)


def record_tier_1(
    config: Mapping[str, Any],
    recipe: Recipe,
    settings: RunSettings,
    questions: Sequence[str],
    scores_B: "Tensor",
    tokens_B: "Tensor",
    made: "StepAdvantages",
) -> None:
    """Record the responses of a step that the reward function left, and its metrics.

    Rows of a question with equal scores and lengths have the same advantage.
    """
    import numpy as np

    from trainer_adapter.record.rollout import RolloutRecord
    from trainer_adapter.verl.alarms import MARK, Alarms

    if not _opened:
        writer = open_record(config, recipe, settings)
        assert writer is not None
        _opened.append((writer, Alarms()))
    writer, alarms = _opened[0]
    rows = zip(questions, scores_B.tolist(), tokens_B.tolist(), strict=True)
    shaped = zip(made.rewards_B.tolist(), made.advantages_B.tolist(), strict=True)
    computed = dict(zip(rows, shaped, strict=True))
    records: list[RolloutRecord] = []
    folder = Path(settings.record or "") / _PARTS
    for group, uid in enumerate(dict.fromkeys(questions)):
        for file in folder.glob(f"*/{uid}/*.json"):
            fields = json.loads(file.read_text(encoding="utf-8"))
            score = float(np.float32(fields.pop("score")))  # verl holds it so
            if values := computed.get((uid, score, fields["tokens"])):  # else it failed after it was graded
                fields |= {"group": group, "reward": values[0], "advantage": values[1]}
                records.append(RolloutRecord(**fields))
    if not records:
        _LOG.warning("no responses were recorded: the reward function is not tagrpo's")
        return
    step = records[0].step
    writer.write(step, records)
    writer.flush()
    correct = [bool(record.correct) for record in records]
    metrics = {
        "tagrpo/batch/responses": len(records),
        "tagrpo/correct/mean": sum(correct) / len(records),
        "tagrpo/reward/mean": sum(record.reward for record in records) / len(records),
        "tagrpo/tokens/mean": sum(record.tokens for record in records) / len(records),
        "tagrpo/tokens/truncated_share": sum(record.truncated for record in records) / len(records),
    }
    writer.write_metrics(step, metrics)
    for alarm in alarms.look(step, metrics):
        _LOG.warning("%s: %s", MARK, alarm)
    for earlier in folder.iterdir():
        if int(earlier.name) <= step:
            shutil.rmtree(earlier, ignore_errors=True)
