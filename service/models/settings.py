"""How a text becomes a prompt and how responses to it are drawn: what shapes every response."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from service.config import Config, pick
from service.errors import InputError

SHORTEST_TIMEOUT_S = 120.0
TOKENS_PER_S = 10.0
"""The slowest that a response is waited for: a server under load, a large model."""

NO_RAW_IMAGES = "raw text cannot contain images: remove form=raw, or use a preset other than paper-eval."

_THINKING = {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": 0.0, "max_tokens": 32_768}

PUBLISHED: Mapping[str, Mapping[str, Any]] = {
    "qwen3-thinking": _THINKING,
    "qwen3-non-thinking": {"temperature": 0.7, "top_p": 0.8, "top_k": 20, "min_p": 0.0},
    "qwq": {"temperature": 0.6, "top_p": 0.95, "top_k": 40, "min_p": 0.0, "max_tokens": 32_768},
    "deepseek-r1": {"temperature": 0.6, "top_p": 0.95, "max_tokens": 32_768},
    "gpt-oss": {"temperature": 1.0, "top_p": 1.0},
}
"""Settings by name, as the cards of the models on the Hugging Face Hub say under "Best Practices" or "Usage":

- qwen3-*: Qwen/Qwen3-8B and its sisters; 32,768 tokens is their length for most queries, 38,912 for
  competitions. Thinking itself is switched by the chat template (`enable_thinking`).
- qwq: Qwen/QwQ-32B, which says "between 20 and 40" of top_k.
- deepseek-r1: deepseek-ai/DeepSeek-R1, "Usage Recommendations", and the length of its evaluation.
- gpt-oss: github.com/openai/gpt-oss, "Recommended Sampling Parameters".

What a card leaves open is left to the verb.
"""


class Sampling(Config):
    """How responses are drawn.

    Every value is sent to the server, or refused if it cannot be sent. The server chooses none.
    """

    temperature: float = Field(0.6, ge=0, le=10, description="Sampling temperature; 0 is greedy.")
    top_p: float = Field(0.95, gt=0, le=1, description="Nucleus sampling probability; 1 is off.")
    max_tokens: int = Field(3072, ge=1, le=10_000_000, description="Maximum tokens in a response.")
    top_k: int = Field(0, ge=0, description="Sample only from this many most probable tokens; 0 is off.")
    min_p: float = Field(0.0, ge=0, le=1)
    """Minimum probability relative to the top token; 0 is off."""
    repetition_penalty: float = Field(1.0, gt=0, le=10, description="Factor on repeated tokens; 1 is off.")
    presence_penalty: float = Field(0.0, ge=-2, le=2, description="Penalty on tokens seen before; 0 is off.")
    frequency_penalty: float = Field(0.0, ge=-2, le=2, description="Penalty per repeat of a token; 0 is off.")
    stop: tuple[str, ...] = Field((), description="Stop strings: a response ends before the first of them.")

    @model_validator(mode="after")
    def _check_stop(self) -> "Sampling":
        if "" in self.stop:
            raise ValueError("stop contains an empty string, which would end every response. Remove it.")
        return self

    def without_neutral(self) -> dict[str, Any]:
        """Return the form that is stored and hashed: values that change nothing are left out."""
        neutral = {name for name, value in NEUTRAL.items() if getattr(self, name) == value}
        return self.model_dump(mode="json", exclude=neutral)

    @property
    def decoding(self) -> dict[str, Any]:
        """All of these settings by name, as a request has them."""
        return pick(self, Sampling)


NEUTRAL: Mapping[str, Any] = {
    name: info.default
    for name, info in Sampling.model_fields.items()
    if name not in ("temperature", "top_p", "max_tokens")
}
"""The values with which a setting changes nothing."""


class Seeded(Config):
    """A run whose random choices have a seed."""

    seed: int | None = Field(0, ge=0, le=2**63 - 1)
    """Random seed; with none, no seed is sent and the run cannot be repeated exactly."""


class SamplingSettings(Seeded, Sampling):
    """How an evaluation draws responses; by default as in the public evaluation of arXiv 2601.22478.

    The seed of a sample follows from `seed`, the problem and the sample's ordinal, whatever is drawn with it.
    """

    samples_per_request: int = Field(8, ge=1, le=1024)
    """Responses per request; the last request may ask for fewer."""


class PublishedSampling(Config):
    """Settings that a model's authors publish, instead of the defaults."""

    sampling: Literal["qwen3-thinking", "qwen3-non-thinking", "qwq", "deepseek-r1", "gpt-oss"] | None = None
    """Use the sampling settings that the model's authors recommend."""

    @model_validator(mode="after")
    def _use_published(self) -> "PublishedSampling":
        published = PUBLISHED.get(self.sampling or "", {})
        vars(self).update({name: published[name] for name in published.keys() - self.model_fields_set})
        return self


class PromptSpec(Config):
    """How a problem becomes a prompt.

    `template` holds `{question}`. `form` is chat (messages through the model's chat template) or raw (the
    text itself is continued). `system` and `chat_template_kwargs` belong to chat.
    """

    template: str
    form: Literal["chat", "raw"] = "chat"
    system: str | None = None
    chat_template_kwargs: Mapping[str, Any] = Field(default_factory=dict)

    def fill(self, question: str) -> str:
        """Return the prompt's text for a question."""
        return self.template.replace("{question}", question)


PROGRAM = (
    "{question}\n\nPlease reason step by step, and put the whole program, with the imports it needs, within "
    "one block of code: ```python ... ```."
)

_PAPER = "Please provide step-by-step reasoning, and enclose your final answer in the box: \\boxed{}."


@dataclass(frozen=True)
class Preset:
    """Prompt and number of samples per problem under one name.

    `choice_template` is for benchmarks that ask for the letter of an option; None: the same prompt for all.
    """

    template: str
    choice_template: str | None = None
    form: Literal["chat", "raw"] = "chat"
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    n: int = 32


PRESETS: dict[str, Preset] = {
    # Qwen's model cards for mathematics have this instruction after the problem.
    "default": Preset(
        "{question}\n\nPlease reason step by step, and put your final answer within \\boxed{}.",
        "{question}\n\nPlease reason step by step, and put the letter of the right option within \\boxed{}.",
    ),
    # arXiv 2601.22478 v5, Box 2
    "paper": Preset(
        f"{_PAPER}\n{{question}}",
        f"{_PAPER} The answer is the letter of an option.\n{{question}}",
        chat_template_kwargs={"enable_thinking": False},
        n=128,
    ),
    # github.com/lhkhiem28/TA-GRPO, utils.py; its test.py continues this and the problem as raw text.
    "paper-eval": Preset(
        "You FIRST think about the reasoning process step by step and then provide the user with the answer. "
        "Please enclose your final answer in the box: \\boxed{}. Please stop generating immediately after "
        "outputting the box.\n{question}",
        form="raw",
        n=128,
    ),
    "plain": Preset("{question}"),
}


class PromptConfig(Config):
    """How a problem is turned into a prompt for a model."""

    preset: Literal["default", "paper", "paper-eval", "plain"] = "default"
    """Prompt and sampling settings. paper: arXiv 2601.22478; paper-eval: that paper's public evaluation code,
    as raw text; plain: the question without instructions."""
    prompt_file: Path | None = None
    """Prompt template file that contains {question}; by default the preset's template."""
    system: str | None = Field(None, description="System prompt.")
    form: Literal["chat", "raw"] | None = None
    """chat: apply the model's chat template; raw: send the prompt as plain text, which the model continues.
    By default as in the preset."""
    chat_template_kwargs: dict[str, Any] | None = None
    """Arguments for the model's chat template, such as {enable_thinking = false}."""

    def prompt(self, *, choice: bool = False, programs: bool = False) -> PromptSpec:
        """Return the prompt; with `choice` (all problems ask for an option's letter) the preset's for such.

        With `programs` (all ask for programs) it is `PROGRAM`, unless the preset sends only the question.
        Raw text has neither the preset's system prompt nor its chat-template arguments.
        """
        preset = PRESETS[self.preset]
        template = (preset.choice_template if choice else None) or preset.template
        if programs and template != "{question}":
            template = PROGRAM
        if self.prompt_file is not None:
            template = _read_template(self.prompt_file)
        form = self.form or preset.form
        if form == "raw" and (self.system or self.chat_template_kwargs):
            raise InputError("a system prompt and chat-template arguments need form=chat, not raw text.")
        kwargs = self.chat_template_kwargs
        if kwargs is None:
            kwargs = {} if form == "raw" else dict(preset.chat_template_kwargs)
        return PromptSpec(template=template, form=form, system=self.system, chat_template_kwargs=kwargs)


def _read_template(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: the prompt cannot be read: {error}.") from error
    if "{question}" not in text:
        raise InputError(f"{path}: the prompt must contain {{question}}, the placeholder for the problem.")
    return text.removesuffix("\n")
