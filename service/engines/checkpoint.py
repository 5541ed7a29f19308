"""Open a Hugging Face checkpoint, and identify its weights."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from service.asks.servers import Endpoint
from service.engines.prompts import Checkpoint
from service.errors import PrerequisiteError, first_line
from service.hashing import content_id, file_sha256
from service.models.access import Model

ADAPTER = "lora_adapter"
"""The folder that verl's model_merger writes a trained LoRA adapter to, next to the untrained weights."""

_BLOCK = 4096
_BLOCKS_PER_FILE = 1024
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
_SMALL_FILES = frozenset(
    {"config.json", "generation_config.json", "model.safetensors.index.json", "preprocessor_config.json"}
    | {"processor_config.json", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"}
    | {"tokenizer.model", "vocab.json", "merges.txt"}
)


def check_installed(extra: str) -> None:
    """Raise unless torch and transformers are installed; `extra` installs them with this package."""
    for name in ("torch", "transformers"):
        if find_spec(name) is None:
            raise PrerequisiteError(f"{name} is not installed: pip install 'tagrpo[{extra}]'")


def open_checkpoint(model: str, revision: str | None) -> Checkpoint:
    """Load configuration and tokenizer of a folder or a Hub id, the latter at one commit."""
    from transformers import AutoConfig, AutoTokenizer

    is_local = Path(model).is_dir()
    if is_local and revision:
        raise PrerequisiteError(f"{model} is a folder, so it has no revisions. Remove the revision.")
    if (Path(model) / ADAPTER).is_dir():
        raise PrerequisiteError(
            f"{model} has an unmerged adapter ({ADAPTER}), which would be ignored. Merge it first "
            "(docs/train.md, The checkpoint)."
        )
    try:
        config = AutoConfig.from_pretrained(model, revision=revision or "main")
        commit = None if is_local else getattr(config, "_commit_hash", None)
        tokenizer = AutoTokenizer.from_pretrained(model, revision=commit or revision or "main")
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise PrerequisiteError(
            f"The model {model!r} cannot be loaded: {first_line(error)} Give a folder with config.json and a "
            "tokenizer, or the id of a model on the Hugging Face Hub (`hf auth login` first if it is gated)."
        ) from error
    return Checkpoint(model, commit, config, tokenizer)


class CheckpointEndpoint(Endpoint):
    """What the engines on this machine share: they run the checkpoint of a config."""

    config: Model

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """The configuration and tokenizer; see `open_checkpoint` for its errors."""
        return open_checkpoint(self.config.model, self.config.revision)

    @cached_property
    def weights(self) -> str:
        """The identity of the weights: the Hub commit, or the fingerprint of the folder."""
        return self.checkpoint.commit or fingerprint(Path(self.checkpoint.name))

    @cached_property
    def model(self) -> str:
        """Readable weights, and a hash of all that shapes responses."""
        assert self.engine is not None
        digest = content_id("engine", dict(self.engine)).rpartition("_")[2]
        return f"{self.engine['engine']}:{self.engine['weights']}:{digest[:16]}"

    @property
    def notices(self) -> Sequence[str]:
        return self.checkpoint.notices


def gpu_name() -> str | None:
    """Return the name of the first visible NVIDIA GPU without starting CUDA; None without one."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
    which = [f"--id={visible}"] if visible else []
    command = [program, *which, "--query-gpu=name", "--format=csv,noheader"]
    query = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return query.stdout.strip().partition("\n")[0] or None if query.returncode == 0 else None


def fingerprint(folder: Path) -> str:
    """Return the content id of a checkpoint's folder; this reads only some megabytes.

    The hash covers small files as a whole. Of weights it covers the size and 1,024 blocks of 4 KiB, spread
    evenly: every step of a training differs.
    """
    parts: dict[str, list[str | int]] = {}
    for file in sorted(folder.iterdir()):
        size = file.stat().st_size if file.is_file() else 0
        is_weights = file.suffix in _WEIGHTS and file.name != "training_args.bin"
        if is_weights or file.name in _SMALL_FILES or file.suffix == ".jinja":
            parts[file.name] = [size, _digest_blocks(file, size) if is_weights else file_sha256(file)]
    return content_id("weights", parts)


def _digest_blocks(file: Path, size: int) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        for start in range(0, size, max(size // _BLOCKS_PER_FILE, _BLOCK)):
            stream.seek(start)
            digest.update(stream.read(_BLOCK))
    return digest.hexdigest()
