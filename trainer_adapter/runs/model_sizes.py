"""The size of a model, from its config.json or as one of the papers' models."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.errors import InputError, PrerequisiteError, first_line


@dataclass(frozen=True)
class ModelShape:
    """A dense decoder of the Llama or Qwen family."""

    vocabulary: int  # rows of the embedding
    hidden: int  # its width
    layers: int
    heads: int  # of the queries
    kv_heads: int
    head_dim: int
    intermediate: int  # width inside the gated feed-forward part
    tied: bool = True  # the output layer is the embedding
    norms_qk: bool = False  # queries and keys are normalised (Qwen 3)
    biases: bool = False  # queries, keys and values have biases (Qwen 2)

    @property
    def _linear(self) -> dict[str, tuple[int, int]]:
        """Input and output width of the linear layers of a block, by their names."""
        hidden, queries, keys = self.hidden, self.heads * self.head_dim, self.kv_heads * self.head_dim
        return {
            "q_proj": (hidden, queries),
            **dict.fromkeys(("k_proj", "v_proj"), (hidden, keys)),
            "o_proj": (queries, hidden),
            **dict.fromkeys(("gate_proj", "up_proj"), (hidden, self.intermediate)),
            "down_proj": (self.intermediate, hidden),
        }

    @property
    def parameters(self) -> int:
        """Number of parameters: embeddings, and each layer's attention, feed-forward part and norms."""
        layer = sum(width * out for width, out in self._linear.values()) + 2 * self.hidden
        if self.biases:
            layer += (self.heads + 2 * self.kv_heads) * self.head_dim
        if self.norms_qk:
            layer += 2 * self.head_dim
        embeddings = self.vocabulary * self.hidden * (1 if self.tied else 2)
        return embeddings + self.layers * layer + self.hidden

    def adapter_parameters(self, rank: int, modules: Collection[str] | None = None) -> int:
        """Number of parameters of a low-rank adapter (LoRA) on all layers of the blocks.

        Args:
            modules: only on layers whose names end so, as in peft's `target_modules`.
        """
        ends = None if modules is None else {name.rpartition(".")[2] for name in modules}
        chosen = (sum(widths) for name, widths in self._linear.items() if ends is None or name in ends)
        return rank * self.layers * sum(chosen)

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of a token in the key-value cache, two bytes a number."""
        return 2 * self.layers * self.kv_heads * self.head_dim * 2


_QWEN_7B = ModelShape(152064, 3584, 28, 28, 4, 128, 18944, tied=False, biases=True)
_LLAMA_1B = ModelShape(128256, 2048, 16, 32, 8, 64, 8192)
_LLAMA_3B = ModelShape(128256, 3072, 28, 24, 8, 128, 8192)

MODELS: dict[str, ModelShape] = {
    "Qwen/Qwen3-1.7B": ModelShape(151936, 2048, 28, 16, 8, 128, 6144, norms_qk=True),
    "Qwen/Qwen3-4B": ModelShape(151936, 2560, 36, 32, 8, 128, 9728, norms_qk=True),
    "meta-llama/Llama-3.2-1B": _LLAMA_1B,
    "meta-llama/Llama-3.2-1B-Instruct": _LLAMA_1B,
    "meta-llama/Llama-3.2-3B": _LLAMA_3B,
    "meta-llama/Llama-3.2-3B-Instruct": _LLAMA_3B,
    "Qwen/Qwen2.5-Math-7B": _QWEN_7B,
    "Qwen/Qwen2.5-Math-7B-Instruct": _QWEN_7B,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": ModelShape(
        151936, 1536, 28, 12, 2, 128, 8960, tied=False, biases=True
    ),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": _QWEN_7B,
    "Qwen/Qwen2.5-VL-3B-Instruct": ModelShape(151936, 2048, 36, 16, 2, 128, 11008, biases=True),
}
"""The models of arXiv 2601.22478, 2602.05548 and 2605.11538; sizes as in their config.json."""


def known_shape(name: str) -> ModelShape | None:
    """Return the shape of the papers' model of this name, with or without its owner; None for any other."""
    return next((shape for known, shape in MODELS.items() if name in (known, known.split("/")[1])), None)


_FAMILIES = ("llama", "mistral", "qwen2", "qwen3")


def read_shape(config: Mapping[str, Any], place: str) -> ModelShape:
    """Return the shape that a config.json describes."""
    family = config.get("model_type")
    if family not in _FAMILIES:
        raise InputError(f"{place}: model_type is {family!r}. Supported: {', '.join(_FAMILIES)}.")
    try:
        hidden, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
        return ModelShape(
            vocabulary=int(config["vocab_size"]),
            hidden=hidden,
            layers=int(config["num_hidden_layers"]),
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or hidden // heads),
            intermediate=int(config["intermediate_size"]),
            tied=bool(config.get("tie_word_embeddings", False)),
            norms_qk=family == "qwen3",
            biases=family == "qwen2",
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{place}: a model size is missing or not a number ({error}).") from error


def find_shape(model: str) -> ModelShape:
    """Return the shape of a local folder, of a model of the papers, or of a model on the Hub."""
    folder = Path(model)
    if folder.is_dir():
        return _read_file(folder / "config.json")
    if (shape := known_shape(model)) is not None:
        return shape
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return _read_file(Path(hf_hub_download(model, "config.json")))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise PrerequisiteError(
            f"model {model}: neither a local folder nor available on the Hub. If the Hub cannot be reached, "
            f"give a folder with config.json ({first_line(error)})."
        ) from error


def _read_file(path: Path) -> ModelShape:
    try:
        config = dict(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}. Give the folder of a transformers model.") from error
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: not valid JSON ({error}).") from error
    return read_shape(config, str(path))
