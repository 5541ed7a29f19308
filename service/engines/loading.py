"""Load a checkpoint's weights with transformers: device, dtype, end tokens, free memory."""

import gc
import logging
from typing import Any

import psutil
import torch
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, GenerationConfig

from service.engines.images import takes_images
from service.engines.prompts import Checkpoint
from service.errors import InputError, PrerequisiteError, first_line

_DTYPES = ("float32", "float64", "bfloat16", "float16")
_SHARE_OF_CPU, _SHARE_OF_GPU = 0.4, 0.7  # of the free memory, for keys and values


def find_device(name: str) -> torch.device:
    """Return the device for `auto` (a GPU if there is one), `cpu`, `cuda`, `cuda:1` or `mps`."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    kind = name.partition(":")[0]
    if kind not in ("cpu", "cuda", "mps"):
        raise InputError(f"{name!r} is not a device. Give auto, cpu, cuda, cuda:0, ... or mps.")
    if kind != "cpu" and not getattr(torch, kind).is_available():
        raise PrerequisiteError(
            f"torch {torch.__version__} finds no {kind} device. Set device to cpu, or install the torch "
            "build for this machine."
        )
    return torch.device(name)


def name_gpu(device: torch.device) -> str | None:
    """Return the product name of a device that is a GPU of NVIDIA or AMD."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else None


def find_dtype(name: str, checkpoint: Checkpoint) -> str:
    """Return the dtype's name; `auto` is the dtype of the checkpoint."""
    dtype = checkpoint.dtype if name == "auto" else name
    if dtype not in _DTYPES:
        source = " (the checkpoint's)" if name == "auto" else ""
        raise InputError(f"dtype is {dtype!r}{source}. Give {', '.join(_DTYPES)}.")
    return dtype


def model_class(config: Any) -> Any:
    """Return the transformers class that loads a model of this configuration, vision part included."""
    return AutoModelForImageTextToText if takes_images(config) else AutoModelForCausalLM


def load_model(checkpoint: Checkpoint, device: torch.device, dtype: str) -> tuple[Any, frozenset[int]]:
    """Load the weights; return the model and the tokens that end a response.

    The checkpoint's own sampling settings are dropped: the request's settings alone shape a response.
    """
    logging.getLogger("transformers").setLevel(logging.ERROR)
    try:
        model, loaded = model_class(checkpoint.config).from_pretrained(
            checkpoint.name,
            revision=checkpoint.commit or "main",
            dtype=getattr(torch, dtype),
            output_loading_info=True,
        )
        if missing := sorted(loaded["missing_keys"]):
            raise PrerequisiteError(
                f"{checkpoint.name} lacks {len(missing):,} weights that its config.json requires, such as "
                f"{missing[0]}; they would be random. Merge adapters first, or copy the folder again."
            )
        model = model.to(device).eval()
    except torch.OutOfMemoryError as error:
        raise PrerequisiteError(
            f"The weights of {checkpoint.name} do not fit into the memory of {name_gpu(device) or device}. "
            "Use a smaller dtype, another device, or vLLM with a larger tensor_parallel_size."
        ) from error
    except (OSError, ValueError, ImportError, KeyError) as error:
        reason = first_line(error)
        raise PrerequisiteError(f"The weights of {checkpoint.name} cannot be loaded: {reason}") from error
    ids = model.generation_config.eos_token_id
    ends = {*(ids if isinstance(ids, list) else [ids]), checkpoint.tokenizer.eos_token_id} - {None}
    model.generation_config = GenerationConfig()
    return model, frozenset(ends)


def memory_for_keys(device: torch.device) -> int:
    """Return how many bytes keys and values may take: a share of the memory that is free now."""
    if device.type != "cuda":
        return int(_SHARE_OF_CPU * psutil.virtual_memory().available)
    free_memory()
    return int(_SHARE_OF_GPU * torch.cuda.mem_get_info(device)[0])


def free_memory() -> None:
    """Free unreferenced memory, including that of the GPU."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
