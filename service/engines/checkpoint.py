"""A Hugging Face checkpoint: its configuration and tokenizer, its prompts, the identity of its weights."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from service.asks.request import CONTEXT_LENGTH, SETTINGS, Fault, Message, Request
from service.asks.servers import Endpoint
from service.engines.images import open_held, open_processor, takes_images
from service.errors import InputError, PrerequisiteError, first_line, missing_extra
from service.hashing import canonical_json, content_id, file_sha256
from service.models.access import Model

ADAPTER = "lora_adapter"
"""The folder that verl's model_merger writes a trained LoRA adapter to, next to the untrained weights."""

_DAY = date(2024, 7, 26)
"""The date for templates that print today's, so that prompts do not change overnight: Llama 3's default."""
_CONTEXT_NAMES = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
_CACHED = 256  # prompts: requests for more responses to a prompt follow each other
_BLOCK = 4096
_BLOCKS_PER_FILE = 1024
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
_SMALL_FILES = frozenset(
    {"config.json", "generation_config.json", "model.safetensors.index.json", "preprocessor_config.json"}
    | {"processor_config.json", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"}
    | {"tokenizer.model", "vocab.json", "merges.txt"}
)


@dataclass(frozen=True)
class Prompt:
    """A rendered prompt; `images` are the bytes of its pictures, in the order of their places."""

    text: str
    token_ids: tuple[int, ...]
    images: tuple[bytes, ...] = ()

    @property
    def opens_thought(self) -> bool:
        """Whether the template already wrote `<think>`, so that responses lack it."""
        return self.text.rstrip().endswith("<think>")


def open_thought(response: str) -> str:
    """Prepend `<think>` to a response whose prompt ended in it, unless it is there.

    A thought that was cut off can then be recognized.
    """
    return response if "<think>" in response else f"<think>\n{response}"


@dataclass
class Checkpoint:
    """The parts of a checkpoint that load fast; they render prompts.

    `commit` is its Hub commit, None for a local folder. `notices` are warnings about the prompts so far.
    """

    name: str
    commit: str | None
    config: Any
    tokenizer: Any
    notices: list[str] = field(default_factory=list)

    @property
    def context(self) -> int | None:
        """The maximum tokens of prompt and response together; None if the configuration sets no limit."""
        text = self.config.get_text_config()
        lengths = (getattr(text, name, None) for name in _CONTEXT_NAMES)
        return next((int(length) for length in lengths if length), None)

    @property
    def dtype(self) -> str:
        """The dtype of the stored weights, as in `bfloat16`."""
        stored = getattr(self.config.get_text_config(), "dtype", None) or self.config.dtype
        return str(stored or "float32").removeprefix("torch.")

    @cached_property
    def processor(self) -> Any:
        """The processor of a model that takes images."""
        try:
            return open_processor(self.name, self.commit)
        except (OSError, ValueError, ImportError, KeyError) as error:
            raise PrerequisiteError(
                f"The processor of {self.name} cannot be loaded: {first_line(error)} A model "
                "for images needs preprocessor_config.json next to its weights."
            ) from error

    @cached_property
    def _template(self) -> str | None:
        # A model may have several templates by name; transformers picks its default.
        template: str | None = self.tokenizer.get_chat_template() if self.tokenizer.chat_template else None
        return template

    @cached_property
    def template_id(self) -> str | None:
        """Content id of the chat template; None if the model has none and continues raw text."""
        return content_id("template", [self._template]) if self._template else None

    def fit(self, request: Request, context: int | None) -> tuple[Prompt, int]:
        """Return the prompt of a request, and how many tokens a response may have.

        Raises:
            Fault: the prompt cannot be rendered, or leaves no room for a response.
        """
        try:
            prompt = self.render(request)
        except InputError as error:
            raise Fault(SETTINGS, str(error)) from error
        length = len(prompt.token_ids)
        room = request.max_tokens if context is None else min(request.max_tokens, context - length)
        if not length:
            raise Fault(CONTEXT_LENGTH, "the prompt has no tokens. Write a prompt with text.")
        if room < 1:
            raise Fault(
                CONTEXT_LENGTH,
                f"the prompt has {length} tokens, but the model's context has {context}. Use a model with a "
                "longer context or a shorter prompt.",
            )
        if room < request.max_tokens:
            self._note("Some prompts leave fewer than max_tokens tokens in the context.")
        return prompt, room

    def _note(self, notice: str) -> None:
        if notice not in self.notices:
            self.notices.append(notice)

    def render(self, request: Request) -> Prompt:
        """Return the prompt of a request.

        The template writes all special tokens of a chat, and opens the answer. The tokenizer adds its special
        tokens to raw text, except a second BOS and a final EOS.
        """
        if request.prompt is not None:
            return self._raw(request.prompt)
        return self._cached(request.messages, canonical_json(request.extra.get("chat_template_kwargs", {})))

    @cached_property
    def _cached(self) -> Callable[[tuple[Message, ...], str], Prompt]:
        return lru_cache(_CACHED)(self._render)

    def _render(self, chat: tuple[Message, ...], kwargs: str) -> Prompt:
        images = tuple(image.data for message in chat for image in message.images)
        if images and not (takes_images(self.config) and self.processor.chat_template):
            raise InputError(
                f"{self.name} does not support images. Use a model that does "
                "(Qwen/Qwen2.5-VL-3B-Instruct), or remove the questions with images."
            )
        if not images and not self._template:
            if [message.role for message in chat] != ["user"]:
                raise InputError(
                    f"{self.name} has no chat template, so it accepts only a single user message. Use a "
                    "chat model, or move the system prompt into the prompt."
                )
            self._note(
                f"{self.name} has no chat template, so it continues prompts as raw text. If it is a chat "
                "model, add its chat_template.jinja to the folder; otherwise use form=raw."
            )
            return self._raw(chat[0].content)
        for name in json.loads(kwargs):
            if not images and not re.search(rf"\b{name}\b", self._template or ""):
                self._note(f"The chat template of {self.name} does not use {name}.")
        text = self._apply_template(self.processor if images else self.tokenizer, chat, kwargs)
        if not images:
            return Prompt(text, tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"]))
        try:
            ids = self.encode_images(Prompt(text, (), images))["input_ids"][0]
        except (ValueError, IndexError, StopIteration) as error:  # the template has another number of places
            raise InputError(
                f"The processor of {self.name} fails on {len(images)} images: {error}"
            ) from error
        return Prompt(text, tuple(map(int, ids)), images)

    def encode_images(self, prompt: Prompt, **options: Any) -> Mapping[str, Any]:
        """Return what the model's processor makes of a prompt with images."""
        pictures = [open_held({"bytes": image}) for image in prompt.images]
        encoded: Mapping[str, Any] = self.processor(text=[prompt.text], images=pictures, **options)
        return encoded

    def _raw(self, text: str) -> Prompt:
        ids = tuple(self.tokenizer(text)["input_ids"])
        bos, eos = self.tokenizer.bos_token_id, self.tokenizer.eos_token_id
        if bos is not None and ids[:2] == (bos, bos):  # the text has its own
            ids = ids[1:]
        if ids and ids[-1] == eos and eos != bos:  # some tokenizers end every text; the model shall continue
            ids = ids[:-1]
        return Prompt(text, ids)

    def _apply_template(self, renderer: Any, chat: tuple[Message, ...], kwargs: str) -> str:
        from jinja2.exceptions import TemplateError

        messages: list[dict[str, Any]] = []
        for message in chat:
            parts = [
                {"type": "text", "text": part} if isinstance(part, str) else {"type": "image"}
                for part in message.parts
            ]
            messages.append({"role": message.role, "content": parts or message.content})
        settings = json.loads(kwargs)
        if "strftime_now" in (self._template or ""):
            settings["strftime_now"] = _DAY.strftime
        try:
            rendered: str = renderer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, **settings
            )
        except TemplateError as error:
            raise InputError(
                f"The chat template of {self.name} fails: {error}. If it does not support system messages, "
                "move the text into the prompt."
            ) from error
        if any(each.role == "system" and each.content.strip() not in rendered for each in chat):
            raise InputError(
                f"The chat template of {self.name} drops the system message. Move its text into the prompt."
            )
        return rendered


def check_installed(extra: str) -> None:
    """Raise unless torch and transformers are installed; `extra` installs them with this package."""
    for name in ("torch", "transformers"):
        if find_spec(name) is None:
            raise missing_extra(f"{name} is not installed", extra)


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
