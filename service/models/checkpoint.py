"""A Hugging Face checkpoint as samplers need it: configuration, tokenizer, and what its weights are."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from service.errors import PrerequisiteError, first_line
from service.hashing import content_id, file_sha256
from service.models.processors import open_processor, takes_images
from service.models.rendering import Renderer

_BLOCK = 4096
_BLOCKS_OF_A_FILE = 256
_CONTEXT_NAMES = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint's parts that are cheap to load. `commit` is that of the Hub, None for a local folder."""

    model: str
    commit: str | None
    config: Any
    tokenizer: Any

    @property
    def context(self) -> int | None:
        """How many tokens prompt and response may have together; None where the configuration sets none."""
        text = self.config.get_text_config()
        lengths = (getattr(text, name, None) for name in _CONTEXT_NAMES)
        return next((int(length) for length in lengths if length), None)

    @property
    def dtype(self) -> str:
        """The numbers' type of the stored weights, as in `bfloat16`."""
        stored = getattr(self.config.get_text_config(), "dtype", None) or self.config.dtype
        return str(stored or "float32").removeprefix("torch.")

    @cached_property
    def weights(self) -> str:
        """The commit on the Hub, or the fingerprint of the folder."""
        return self.commit or fingerprint(Path(self.model))

    @cached_property
    def renderer(self) -> Renderer:
        """What makes this model's prompts."""
        opens = (lambda: self.processor) if takes_images(self.config) else None
        return Renderer(self.tokenizer, self.model, opens)

    def reads_images_by(self) -> dict[str, str]:
        """Return what makes pixels of images, Pillow or torchvision, whose numbers differ; empty for none."""
        if not takes_images(self.config):
            return {}
        return {"images": str(getattr(self.processor.image_processor, "backend", "pil"))}

    @cached_property
    def processor(self) -> Any:
        """The processor of a model that takes images.

        Raises:
            PrerequisiteError: it cannot be loaded.
        """
        try:
            return open_processor(self.model, self.commit)
        except (OSError, ValueError, ImportError, KeyError) as error:
            reason = first_line(error)
            raise PrerequisiteError(
                f"the processor of {self.model} cannot be loaded: {reason} A model that takes images needs "
                "preprocessor_config.json beside its weights."
            ) from error


ADAPTER = "lora_adapter"
"""Where verl's model_merger puts what LoRA trained; the weights around it are those of before that."""


def open_checkpoint(model: str, revision: str | None, extra: str) -> Checkpoint:
    """Load configuration and tokenizer of a folder or a Hub id, the latter at one commit.

    `extra` is the extra of this package that brings transformers.

    Raises:
        PrerequisiteError: transformers is not installed, the model cannot be found or read, or an
            adapter lies beside it.
    """
    try:
        from transformers import AutoConfig, AutoTokenizer
    except ImportError as error:
        raise PrerequisiteError(f"transformers is not installed: pip install 'tagrpo[{extra}]'") from error
    local = Path(model).is_dir()
    if local and revision:
        raise PrerequisiteError(f"{model} is a folder and has no revisions; leave out --revision.")
    if (Path(model) / ADAPTER).is_dir():
        raise PrerequisiteError(
            f"{model} holds an adapter beside its model ({ADAPTER}), which would be left out; merge them "
            "first (docs/train.md, The checkpoint)."
        )
    try:
        config = AutoConfig.from_pretrained(model, revision=revision or "main")
        commit = None if local else getattr(config, "_commit_hash", None)
        tokenizer = AutoTokenizer.from_pretrained(model, revision=commit or revision or "main")
    except (OSError, ValueError, ImportError, KeyError) as error:
        reason = first_line(error)
        raise PrerequisiteError(
            f"the model {model!r} cannot be loaded: {reason} Give a folder with config.json and a tokenizer, "
            "or the id of a model on the Hugging Face Hub (`hf auth login` first if it is gated)."
        ) from error
    return Checkpoint(model, commit, config, tokenizer)


def fingerprint(folder: Path) -> str:
    """Return the content id of a folder's checkpoint, at the price of some megabytes read.

    Small files count whole. Of weights count the size, and 4 KiB from the middle of each tensor (safetensors)
    or 256 blocks spread evenly (other formats): a later step of a training has another fingerprint.

    Raises:
        PrerequisiteError: a file of tensors that is none.
    """
    parts: dict[str, list[str | int]] = {}
    for file in sorted(folder.iterdir()):
        size = file.stat().st_size if file.is_file() else 0
        if file.suffix == ".safetensors":
            parts[file.name] = [size, _digest_tensors(file)]
        elif file.suffix in (".bin", ".pt", ".pth") and file.name != "training_args.bin":
            parts[file.name] = [size, _digest_blocks(file, range(0, size, max(size // _BLOCKS_OF_A_FILE, 1)))]
        elif file.name in _SMALL_FILES or file.suffix == ".jinja":
            parts[file.name] = [size, file_sha256(file)]
    return content_id("weights", parts)


_SMALL_FILES = frozenset(
    {
        "config.json",
        "generation_config.json",
        "model.safetensors.index.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "vocab.json",
        "merges.txt",
        "tokenizer.model",
        "preprocessor_config.json",
        "processor_config.json",
    }
)


def _digest_tensors(file: Path) -> str:
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = stream.read(length) if length <= file.stat().st_size else b""
    try:
        tensors = json.loads(header)
    except ValueError as error:
        raise PrerequisiteError(
            f"{file}: is no whole safetensors file; it may be cut off, or what Git LFS puts in its place "
            "(`git lfs pull` gets it)."
        ) from error
    middles = (
        8 + length + sum(tensor["data_offsets"]) // 2 - _BLOCK // 2
        for name, tensor in tensors.items()
        if name != "__metadata__"
    )
    starts = [max(start, 8 + length) for start in middles]
    return hashlib.sha256(header + _digest_blocks(file, starts).encode()).hexdigest()


def _digest_blocks(file: Path, starts: Any) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        for start in starts:
            stream.seek(start)
            digest.update(stream.read(_BLOCK))
    return digest.hexdigest()
