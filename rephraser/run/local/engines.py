"""Opening the engine of a stored model again, and finding it to be what the run was made with."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from service.errors import InputError, PrerequisiteError
from service.models.drawing import Sampler
from service.models.offline import CheckpointSampler, open_engine

_OF_A_FOLDER = "weights_"  # the tag of `service.models.checkpoint.fingerprint`; else a commit of the Hub

_STORED = {"local": ("device", "dtype"), "vllm": ("dtype", "tensor_parallel", "max_model_len")}


def open_stored(
    model: str, engine: Mapping[str, Any], options: Mapping[str, Any], *, prefix: str = "", grace_s: float
) -> CheckpointSampler:
    """Return the sampler of a stored model: its folder or its commit on the Hub, as `engine` describes it.

    `options` are those that shape no answer, as batch size and GPUs; `prefix` stands before them on the
    command line.

    Raises:
        InputError: an option of another engine.
        PrerequisiteError: the folder is not there.
    """
    weights = str(engine["weights"])
    is_folder = weights.startswith(_OF_A_FOLDER)
    if is_folder and not Path(model).is_dir():
        raise PrerequisiteError(
            f"the folder of the model {model} is not here; restore it, or run the command in the directory "
            "in which the run was started."
        )
    stored = {key: engine[key] for key in _STORED[engine["sampler"]]}
    stored["revision"] = None if is_folder else weights
    return open_engine(engine["sampler"], model, {**options, **stored}, prefix=prefix, grace_s=grace_s)


def check_engine(model: str, engine: Mapping[str, Any], sampler: Sampler) -> None:
    """See that a sampler is what a model's answers so far were drawn with.

    Raises:
        InputError: weights, versions, device or chat template are others; they are listed.
        PrerequisiteError: the engine is not installed, or the model cannot be found.
    """
    now = dict(sampler.describe())
    changed = [
        f"{key} ({engine.get(key, 'not set')} there, {now.get(key, 'not set')} now)"
        for key in sorted({*engine, *now})
        if engine.get(key) != now.get(key)
    ]
    if changed:
        raise InputError(
            f"the model {model} is not what this run was made with: {'; '.join(changed)}. Restore it, or "
            "start a run of another --name: answers of two models are not mixed."
        )
