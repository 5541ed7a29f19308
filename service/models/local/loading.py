"""Loading a checkpoint with transformers: device, dtype, tokens that end a response, room for the batch."""

import gc
import logging
from dataclasses import dataclass
from typing import Any

import psutil
import torch
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, GenerationConfig

from service.errors import InputError, PrerequisiteError, first_line
from service.models.checkpoint import Checkpoint
from service.models.local.attention import share_keys_of_groups
from service.models.local.probing import keys_of_a_token
from service.models.processors import takes_images

_DTYPES = ("float32", "float64", "bfloat16", "float16")
_SHARE_OF_CPU, _SHARE_OF_GPU = 0.4, 0.7  # of the free memory, for keys and values


@dataclass(frozen=True)
class Device:
    """Where a model runs: as torch names it, and what it is."""

    name: str
    kind: str
    gpu: str | None

    def describe(self) -> dict[str, str]:
        """Return what is part of a run's key."""
        return {"device": self.kind, **({"gpu": self.gpu} if self.gpu else {})}


def find_device(asked: str) -> Device:
    """Return the device for `auto` (a GPU where there is one), `cpu`, `cuda`, `cuda:1`, `mps`.

    Raises:
        InputError: not a device that torch knows.
        PrerequisiteError: it is not there.
    """
    name = ("cuda" if torch.cuda.is_available() else "cpu") if asked == "auto" else asked
    try:
        kind = torch.device(name).type
    except RuntimeError as error:
        raise InputError(f"device is {asked!r}; give auto, cpu, cuda, cuda:0, ... or mps.") from error
    there = {
        "cpu": lambda: True,
        "cuda": torch.cuda.is_available,
        "mps": torch.backends.mps.is_available,
    }
    if kind not in there:
        raise InputError(f"device is {asked!r}; give auto, cpu, cuda, cuda:0, ... or mps.")
    if not there[kind]():
        raise PrerequisiteError(
            f"there is no {kind} device for torch {torch.__version__}; take --device cpu, or install the "
            "build of torch that fits the machine."
        )
    return Device(name, kind, torch.cuda.get_device_name(name) if kind == "cuda" else None)


def find_dtype(asked: str, checkpoint: Checkpoint) -> str:
    """Return the dtype's name: that of the checkpoint where `auto` is asked for.

    Raises:
        InputError: not a dtype of weights.
    """
    dtype = checkpoint.dtype if asked == "auto" else asked
    if dtype not in _DTYPES:
        way_out = "the checkpoint's own" if asked == "auto" else "asked for"
        raise InputError(f"dtype is {dtype!r} ({way_out}); give {', '.join(_DTYPES)}.")
    return dtype


def model_class(config: Any) -> Any:
    """Return the class of transformers that loads a model of this configuration, with its part that sees."""
    return AutoModelForImageTextToText if takes_images(config) else AutoModelForCausalLM


def load_model(checkpoint: Checkpoint, device: Device, dtype: str) -> Any:
    """Load the weights.

    Raises:
        PrerequisiteError: they cannot be found, read or held in memory, or some are not there.
    """
    logging.getLogger("transformers.modeling_utils").setLevel(logging.ERROR)
    try:
        model, loaded = model_class(checkpoint.config).from_pretrained(
            checkpoint.model,
            revision=checkpoint.commit or "main",
            dtype=getattr(torch, dtype),
            output_loading_info=True,
        )
        if missing := sorted(loaded["missing_keys"]):
            raise PrerequisiteError(
                f"{checkpoint.model} lacks weights that its config.json asks for, {missing[0]} and "
                f"{len(missing) - 1:,} more; they would be random. Checkpoints of adapters have to be merged."
            )
        share_keys_of_groups(model)
        return model.to(device.name).eval()
    except torch.OutOfMemoryError as error:
        raise PrerequisiteError(
            f"the weights of {checkpoint.model} do not fit into the memory of {device.gpu or device.name}; "
            "take a smaller dtype, another device, or the vLLM engine with --tensor-parallel."
        ) from error
    except (OSError, ValueError, ImportError, KeyError) as error:
        reason = first_line(error)
        raise PrerequisiteError(f"the weights of {checkpoint.model} cannot be loaded: {reason}") from error


def stop_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Return the tokens that end a response: those of the generation configuration and the tokenizer's."""
    ids = model.generation_config.eos_token_id
    named = set(ids if isinstance(ids, list) else [] if ids is None else [ids])
    if tokenizer.eos_token_id is not None:
        named.add(tokenizer.eos_token_id)
    return frozenset(named)


def forget_generation_settings(model: Any) -> None:
    """Take out the checkpoint's penalties, top-k and the like: the run's settings alone shape its samples."""
    model.generation_config = GenerationConfig()


def give_memory_back() -> None:
    """Free what nothing refers to any more, on the GPU too."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def room_for_keys(model: Any, device: Device) -> int:
    """Return for how many tokens keys and values fit into a share of the memory that is free now."""
    if device.kind == "cuda":
        give_memory_back()  # of an earlier batch
        free, share = torch.cuda.mem_get_info(device.name)[0], _SHARE_OF_GPU
    else:
        free, share = psutil.virtual_memory().available, _SHARE_OF_CPU
    return max(int(free * share / keys_of_a_token(model)), 1)
