"""Prompts and sampling settings by name: those of papers, and those that a model's authors publish."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from service.config import Config
from service.errors import InputError
from service.models.settings import PromptSpec

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


class PublishedSampling(Config):
    """Settings that a model's authors publish, instead of the defaults."""

    sampling: Literal["qwen3-thinking", "qwen3-non-thinking", "qwq", "deepseek-r1", "gpt-oss"] | None = None
    """Use the sampling settings that the model's authors recommend."""

    @model_validator(mode="after")
    def _use_published(self) -> "PublishedSampling":
        published = PUBLISHED.get(self.sampling or "", {})
        vars(self).update({name: published[name] for name in published.keys() - self.model_fields_set})
        return self


PROGRAM = (
    "{question}\n\nPlease reason step by step, and put the whole program, with the imports it needs, within "
    "one block of code: ```python ... ```."
)

_PAPER = "Please provide step-by-step reasoning, and enclose your final answer in the box: \\boxed{}."


PRESETS: Mapping[str, PromptSpec] = {
    # Qwen's model cards for mathematics have this instruction after the problem.
    "default": PromptSpec(
        template="{question}\n\nPlease reason step by step, and put your final answer within \\boxed{}."
    ),
    # arXiv 2601.22478 v5, Box 2
    "paper": PromptSpec(template=f"{_PAPER}\n{{question}}", chat_template_kwargs={"enable_thinking": False}),
    # github.com/lhkhiem28/TA-GRPO, utils.py; its test.py continues this and the problem as raw text.
    "paper-eval": PromptSpec(
        template="You FIRST think about the reasoning process step by step and then provide the user with "
        "the answer. Please enclose your final answer in the box: \\boxed{}. Please stop generating "
        "immediately after outputting the box.\n{question}",
        form="raw",
    ),
    "plain": PromptSpec(template="{question}"),
}

CHOICE_TEMPLATES = {
    "default": "{question}\n\nPlease reason step by step, and put the letter of the right option within "
    "\\boxed{}.",
    "paper": f"{_PAPER} The answer is the letter of an option.\n{{question}}",
}
"""Templates of presets for benchmarks that ask for the letter of an option."""

PRESET_SAMPLES = {"paper": 128, "paper-eval": 128}
"""Samples per problem of presets that have a number of their own."""


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
        template = CHOICE_TEMPLATES.get(self.preset, preset.template) if choice else preset.template
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
