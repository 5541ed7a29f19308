"""Prompts and presets: how a problem is put to a model. What comes out is in the run's key."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from service.config import Config
from service.errors import InputError
from service.models.settings import PromptSpec

BOXED = "{question}\n\nPlease reason step by step, and put your final answer within \\boxed{}."
"""The instruction of Qwen's model cards for mathematics, after the problem."""

BOXED_CHOICE = (
    "{question}\n\nPlease reason step by step, and put the letter of the right option within \\boxed{}."
)

PROGRAM = (
    "{question}\n\nPlease reason step by step, and put the whole program, with the imports it needs, within "
    "one block of code: ```python ... ```."
)

PAPER_INSTRUCTION = (
    "Please provide step-by-step reasoning, and enclose your final answer in the box: \\boxed{}."
)
"""arXiv 2601.22478 v5, Box 2."""

PAPER_EVAL_INSTRUCTION = (
    "You FIRST think about the reasoning process step by step and then provide the user with the answer. "
    "Please enclose your final answer in the box: \\boxed{}. Please stop generating immediately after "
    "outputting the box."
)
"""github.com/lhkhiem28/TA-GRPO, utils.py; its test.py continues this and the problem as raw text."""


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
    "default": Preset(BOXED, BOXED_CHOICE),
    "paper": Preset(
        f"{PAPER_INSTRUCTION}\n{{question}}",
        f"{PAPER_INSTRUCTION} The answer is the letter of an option.\n{{question}}",
        chat_template_kwargs={"enable_thinking": False},
        n=128,
    ),
    "paper-eval": Preset(f"{PAPER_EVAL_INSTRUCTION}\n{{question}}", form="raw", n=128),
    "plain": Preset("{question}"),
}


class PromptConfig(Config):
    """How a problem is turned into a prompt for a model."""

    preset: Literal["default", "paper", "paper-eval", "plain"] = Field(
        "default",
        description="Prompt and sampling settings. paper: arXiv 2601.22478; paper-eval: that paper's public "
        "evaluation code, as raw text; plain: the question without instructions.",
    )
    prompt_file: Path | None = Field(
        None, description="Prompt template file that contains {question}; by default the preset's template."
    )
    system: str | None = Field(None, description="System prompt.")
    form: Literal["chat", "raw"] | None = Field(
        None,
        description="chat: apply the model's chat template; raw: send the prompt as plain text, which "
        "the model continues. By default as in the preset.",
    )
    chat_template_kwargs: dict[str, Any] | None = Field(
        None, description="Arguments for the model's chat template, such as {enable_thinking = false}."
    )

    def prompt(self, *, choice: bool = False, programs: bool = False) -> PromptSpec:
        """Return the prompt; with `choice` (all problems ask for an option's letter) the preset's for such.

        With `programs` (all ask for programs) it is `PROGRAM`, but for presets that put the question alone.
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
