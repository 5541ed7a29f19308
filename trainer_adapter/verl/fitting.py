"""What has to fit before anything is drawn: sequences into micro-batches and the engine, memory on GPUs."""

import contextlib
import importlib.util
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from service.errors import InputError, TagrpoError
from trainer_adapter.plans.memory import GIB, plan_memory
from trainer_adapter.runs.composing import Composition
from trainer_adapter.runs.model_sizes import find_shape, known_model
from trainer_adapter.verl.plugin.checks import value_at

_ACTOR, _REF, _ROLLOUT = (f"actor_rollout_ref.{part}" for part in ("actor", "ref", "rollout"))
_BUDGETS = (
    (_ACTOR, "use_dynamic_bsz", "ppo_max_token_len_per_gpu", _ACTOR),
    (_ROLLOUT, "log_prob_use_dynamic_bsz", "log_prob_max_token_len_per_gpu", _ACTOR),
    (_REF, "log_prob_use_dynamic_bsz", "log_prob_max_token_len_per_gpu", _REF),
)
"""Where verl keeps the tokens of a micro-batch, whether they count, and whose ranks share a sequence."""

_ENGINE = ("tensor_model", "data", "pipeline_model")


def has_flash_attention() -> bool:
    """Return whether flash-attn is installed here; it is not imported."""
    return importlib.util.find_spec("flash_attn") is not None


def has_verl() -> bool:
    """Return whether verl and hydra are here to compose a configuration; neither is imported."""
    return importlib.util.find_spec("verl") is not None and importlib.util.find_spec("hydra") is not None


def check_sequences(config: Mapping[str, Any], composition: Composition) -> None:
    """Raise unless the longest prompt and response together fit a micro-batch and the rollout engine.

    verl finds out where the first such response is trained on, after it was drawn.

    Args:
        config: verl's whole configuration as plain dictionaries.

    Raises:
        InputError: with every limit that is too low.
    """
    prompt, response = (int(config["data"][f"max_{part}_length"]) for part in ("prompt", "response"))
    buffer = composition.settings.overlong_buffer
    if composition.recipe.reward == "overlong" and buffer is not None and buffer > response:
        raise InputError(
            f"run.overlong_buffer is {buffer} of the {response} tokens of a response. Give at most "
            f"{response}, or remove it for a fifth of them."
        )
    longest = prompt + response
    low = [f"{key} is {limit}" for key, limit in _limits(config, composition) if limit < longest]
    if low:
        raise InputError(
            f"prompt and response may have {prompt} + {response} = {longest} tokens together, but "
            f"{', '.join(low)}. Give {longest} or more, or a smaller data.max_response_length."
        )


def check_ranks(config: Mapping[str, Any]) -> None:
    """Raise unless the GPUs can share the responses of an update evenly.

    verl finds out at its first update, after everything was drawn, or when its workers start.

    Args:
        config: verl's whole configuration as plain dictionaries.

    Raises:
        InputError: with what does not divide.
    """
    trainer = config["trainer"]
    gpus = int(trainer["nnodes"]) * int(trainer["n_gpus_per_node"])
    together = _sharing(config, _ACTOR)
    engine = math.prod(int(value_at(config, f"{_ROLLOUT}.{kind}_parallel_size") or 1) for kind in _ENGINE)
    for what, size in (("share a sequence (ulysses)", together), ("make an engine", engine)):
        if gpus % size:
            raise InputError(f"{size} GPUs {what}, but {gpus} GPUs are not a multiple of that.")
    ranks = gpus // together
    key = f"{_ACTOR}.ppo_mini_batch_size"
    questions, responses = int(value_at(config, key)), int(value_at(config, f"{_ROLLOUT}.n"))
    if questions * responses % ranks:
        step = ranks // math.gcd(ranks, responses)
        raise InputError(
            f"an update has {questions} questions with {responses} responses each, which {ranks} GPUs "
            f"cannot share evenly. Give {key} as a multiple of {step} that divides data.train_batch_size, "
            "or use another number of GPUs."
        )


def rate_notes(config: Mapping[str, Any]) -> list[str]:
    """Say where a warm-up begins with a rate of 0: verl counts the steps of a constant schedule from 0.

    Args:
        config: verl's whole configuration as plain dictionaries.
    """
    optimizer = f"{_ACTOR}.optim"
    warm_up = (value_at(config, f"{optimizer}.lr_warmup_{part}") for part in ("steps", "steps_ratio"))
    begins_at_0 = any(isinstance(each, int | float) and each > 0 for each in warm_up)
    if value_at(config, f"{optimizer}.lr_scheduler_type") != "constant" or not begins_at_0:
        return []
    flat = f"{optimizer}.lr_scheduler_type=cosine with {optimizer}.min_lr_ratio=1"
    note = (
        "the first step of a warm-up trains nothing, since verl starts a constant schedule at a learning "
        f"rate of 0. Use {flat} to skip that step, or {optimizer}.lr_warmup_steps_ratio=0 for no warm-up"
    )
    return [note]


def _sharing(config: Mapping[str, Any], part: str) -> int:
    """Return how many GPUs share a sequence; verl's older key counts where it says more than 1."""
    older, newer = (
        int(value_at(config, f"{part}.{place}ulysses_sequence_parallel_size") or 1)
        for place in ("", "fsdp_config.")
    )
    return older if older > 1 else newer


def _limits(config: Mapping[str, Any], composition: Composition) -> Iterator[tuple[str, int]]:
    has_reference = composition.recipe.loss.kl_coef > 0
    for part, counts, name, ranks in _BUDGETS:
        if (part != _REF or has_reference) and value_at(config, f"{part}.{counts}"):
            key = f"{part}.{name}"
            together = _sharing(config, ranks)
            shared = f" on each of {together} GPUs" if together > 1 else ""
            yield f"{key}{shared}", int(value_at(config, key)) * together
    if composition.machine.cpu:
        return
    key = f"{_ROLLOUT}.max_model_len"
    if (limit := value_at(config, key)) is not None:
        yield key, int(limit)
    if (positions := _positions(str(composition.value("actor_rollout_ref.model.path")))) is not None:
        yield "max_position_embeddings of the model", positions


def _positions(model: str) -> int | None:
    """Return how long a sequence a model allows; None where that is not known, or its folder stretches it."""
    if (known := known_model(model)) is not None:
        return known.positions
    try:
        config = json.loads((Path(model) / "config.json").read_text(encoding="utf-8"))
        scaled = config.get("rope_scaling") or (config.get("rope_parameters") or {}).get("factor")
        return None if scaled else int(config["max_position_embeddings"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def memory_note(composition: Composition, gpu_bytes: int) -> str | None:
    """Return what by the estimate of `train plan` does not fit a GPU; None where all does, or none is made.

    Args:
        gpu_bytes: memory of a GPU.
    """
    with contextlib.suppress(TagrpoError):
        shape = find_shape(str(composition.value("actor_rollout_ref.model.path")))
        shortage = plan_memory(composition, shape, gpu_bytes / GIB).shortage
        return None if shortage is None else f"by the estimate of `tagrpo train plan`, {shortage}"
    return None
