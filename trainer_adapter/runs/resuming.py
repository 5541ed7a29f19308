"""Resume a run: its fixed settings, the settings that may change, and its checkpoint."""

import re
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

from evaluator.grading.workers.own import own_version
from service.config import OPERATIONAL
from service.errors import InputError
from service.writing import write_text
from trainer_adapter.methods.registry import user_sources
from trainer_adapter.runs.composing import Composition
from trainer_adapter.runs.data import TrainingData
from trainer_adapter.verl.plugin.settings import RunSettings

_FREE = {
    "data.train_files",
    "data.max_prompt_length",
    "trainer.default_local_dir",
    "trainer.experiment_name",
    "trainer.log_val_generations",
    "trainer.logger",
    "trainer.max_actor_ckpt_to_keep",
    "trainer.project_name",
    "trainer.resume_mode",
    "trainer.rollout_data_dir",
    "trainer.save_freq",
    "trainer.test_freq",
    "trainer.val_before_train",
    "trainer.validation_data_dir",
}
"""Keys whose values may differ between the starts of a run: they change what is kept and shown only."""

_GRADER = "reward.custom_reward_function.reward_kwargs.grader"
_ENGINES = ("actor_rollout_ref.actor", "actor_rollout_ref.ref")
_ROLLOUT = "actor_rollout_ref.rollout"
_MEMORY = {
    *(f"{engine}.fsdp_config.{what}_offload" for engine in _ENGINES for what in ("param", "optimizer")),
    *(f"{engine}.{name}" for engine in _ENGINES for name in ("use_dynamic_bsz", "log_prob_use_dynamic_bsz")),
    *(
        f"{place}.{use}_{size}"
        for place in (*_ENGINES, _ROLLOUT)
        for use in ("ppo", "log_prob")
        for size in ("max_token_len_per_gpu", "micro_batch_size_per_gpu")
    ),
    *(
        f"{_ROLLOUT}.{name}"
        for name in (
            *("gpu_memory_utilization", "max_model_len", "max_num_seqs", "max_num_batched_tokens"),
            *("enforce_eager", "free_cache_engine", "tensor_model_parallel_size", "log_prob_use_dynamic_bsz"),
            "checkpoint_engine.update_weights_bucket_megabytes",
        )
    ),
    *(
        f"actor_rollout_ref.model.{name}"
        for name in (
            *("enable_gradient_checkpointing", "enable_activation_offload", "use_remove_padding"),
            "override_config.attn_implementation",
        )
    ),
}
"""Keys that decide what fits into memory. They change rounding only: the loss is a mean over a mini-batch,
however it is cut into micro-batches."""

_FREE_GROUPS = ("global_profiler.", "hydra.", "ray_kwargs.", "transfer_queue.")
_LENGTH = ("trainer.total_epochs", "trainer.total_training_steps")
_OPTIMIZER = "actor_rollout_ref.actor.optim"


def make_spec(composition: Composition, data: TrainingData) -> dict[str, Any]:
    """Return the specification of a run: two runs with the same one differ by chance only.

    Settings of memory are no part of it, so that a run can continue after it ran out of memory. The length of
    training is part of it if the learning rate depends on it.
    """
    free_settings = {
        name for name, info in RunSettings.model_fields.items() if info.json_schema_extra == OPERATIONAL
    }
    schedule = composition.value(f"{_OPTIMIZER}.lr_scheduler_type", "constant")
    any_length = schedule == "constant" and not composition.value(f"{_OPTIMIZER}.lr_warmup_steps_ratio", 0)
    free = {*_FREE, *_MEMORY, *(_LENGTH if any_length else ())}
    if data.validation_file is not None and composition.value("data.val_files") == str(data.validation_file):
        free.add("data.val_files")
    return {
        "preset": composition.preset.name,
        "recipe": composition.recipe.to_json(),
        **({"own_formulas": own} if (own := user_sources(composition.recipe.formulas)) else {}),
        **({"own_grader": own_version(str(grader))} if (grader := composition.value(_GRADER, "")) else {}),
        "plug_in": composition.settings.model_dump(exclude=free_settings),
        "model": composition.value("actor_rollout_ref.model.path"),
        "data": data.identity(),
        "machine": {name: getattr(composition.config, name) for name in ("gpus", "nodes", "cpu")},
        "settings": {
            each.name: each.value
            for each in sorted(composition.values, key=lambda each: each.name)
            if each.source != "recipe"
            and each.name not in free
            and each.name != "actor_rollout_ref.model.path"
            and not each.name.startswith(_FREE_GROUPS)
        },
    }


TRACKER = "latest_checkpointed_iteration.txt"
"""The file in which verl keeps the last step it saved; written last, but not at one stroke."""

_STEP = re.compile(r"global_step_(\d+)")


def tracked_step(folder: Path) -> int | None:
    """Return the step that verl says it saved last; None where it says none."""
    try:
        return int((folder / TRACKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


_FILES = {"model": "model", "optimizer": "optim", "extra": "extra_state"}
"""What verl's FSDP engine calls the files of what it saves, one of each for every rank."""


def loaded_parts(composition: Composition) -> tuple[str, ...]:
    """Return the parts of a checkpoint that verl loads, by the names of their files."""
    key = "actor_rollout_ref.actor.checkpoint"
    saved = str(composition.value(f"{key}.save_contents", ",".join(_FILES)))
    loaded = str(composition.value(f"{key}.load_contents", saved))
    contents = re.findall(r"\w+", saved if "${" in loaded else loaded)
    return tuple(file for content, file in _FILES.items() if content in contents)


def fault_of(folder: Path, step: int, parts: Collection[str]) -> str | None:
    """Return what the checkpoint of a step lacks, if anything; verl writes `data.pt` last."""
    place = folder / f"global_step_{step}"
    if not place.is_dir():
        return "does not exist"
    held = sorted((place / "actor").glob("*_world_size_*.pt"))
    for part in parts:
        if not any(path.name.startswith(f"{part}_world_size_") for path in held):
            return f"has no actor/{part}_world_size_*.pt"
    for path in (*held, place / "data.pt"):
        if not path.exists():
            return f"has no {path.name}"
        if not zipfile.is_zipfile(path):
            return f"has a damaged {path.relative_to(place)}"
    return None


def mend(folder: Path, parts: Collection[str], *, ended: bool = False) -> str | None:
    """Let verl's tracker name the last whole checkpoint; return what had to be done, None where nothing had.

    verl stops if the tracker is empty or a part is missing, and restarts at step 1 if its checkpoint is gone.
    """
    tracker, step = folder / TRACKER, tracked_step(folder)
    if not tracker.exists():
        return None
    if ended:
        parts = [part for part in parts if part == "model"]
    elif "model" not in parts:
        raise InputError(
            f"{folder}: the checkpoints of this run contain no weights that verl can resume from. Only a "
            "run whose checkpoint.save_contents and .load_contents include `model` can be resumed."
        )
    fault = "does not contain a step number"
    if step is not None:
        lack = fault_of(folder, step, parts)
        if lack is None:
            return None
        fault = f"points to step {step}, which {lack}"
    matches = [_STEP.fullmatch(path.name) for path in folder.glob("global_step_*")]
    steps = sorted((int(match[1]) for match in matches if match), reverse=True)
    whole = (other for other in steps if fault_of(folder, other, parts) is None)
    if (last := next(whole, None)) is not None:
        write_text(tracker, str(last), overwrite=True)
        return f"{tracker.name} {fault}; training resumes from the checkpoint at step {last}"
    if step is None:  # killed while it saved for the first time
        tracker.unlink()
        return f"{tracker.name} {fault}, and no checkpoint is complete; training starts again at step 1"
    raise InputError(
        f"{folder}: {tracker.name} {fault}, and no other checkpoint is complete. Restore the files, or "
        "remove the folder to restart from step 1."
    )
