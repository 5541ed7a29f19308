"""The prompt a policy is trained on: chat messages around a question, and their length in tokens."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rephraser.run.spec import PROGRAM_INSTRUCTION
from service.answer_kinds import AnswerKind
from service.errors import InputError, PrerequisiteError, first_line
from service.writing import read_text

Message = dict[str, str]
CountPrompts = Callable[[Sequence[list[Message]]], list[int]]

DEFAULT_INSTRUCTION = "Work through the problem step by step and give the final answer inside \\boxed{}."
"""Asks for reasoning and a boxed answer, as [TA Box 2] does, in our words."""

_THINKING = "enable_thinking"

TEMPLATE_NAME = "chat_template.jinja"
"""Where transformers keeps the chat template in a model's folder."""

ESTIMATED_TEMPLATE_TOKENS = 48
ESTIMATED_MESSAGE_TOKENS = 8
"""What an estimate adds for the marks of a chat template, once a prompt and once a message.

Llama 3.2 writes a system header with two dates of its own; Qwen 3 needs a third of that.
"""


@dataclass(frozen=True)
class PromptTemplate:
    """How a question becomes a prompt, and how long the prompt may be."""

    # stands below the question; "" for none. In place of the default one questions that ask for programs get
    # `PROGRAM_INSTRUCTION`.
    instruction: str = DEFAULT_INSTRUCTION
    system: str | None = None  # a system message; None for none
    # name on the Hub or local folder of the tokenizer whose chat template gives the exact length; None
    # estimates it (`estimated_length`)
    tokenizer: str | None = None
    # passed to the chat template (`{"enable_thinking": False}`); give verl the same as
    # `data.apply_chat_template_kwargs`
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    # the most tokens a prompt may have with its chat template [TA Table 2]; give verl the same as
    # `data.max_prompt_length`
    max_prompt_tokens: int = 512

    def __post_init__(self) -> None:
        if not isinstance(self.max_prompt_tokens, int) or self.max_prompt_tokens < 1:
            raise InputError(
                f"the prompt limit is {self.max_prompt_tokens} tokens, but must be positive (such as 512)."
            )

    def asking_for(self, kind: AnswerKind) -> "PromptTemplate":
        """Return the template for questions of a kind: programs are asked for in a block of code."""
        if kind is AnswerKind.CODE and self.instruction == DEFAULT_INSTRUCTION:
            return replace(self, instruction=PROGRAM_INSTRUCTION)
        return self

    def messages(self, text: str) -> list[Message]:
        """Return the chat messages that ask the question `text`."""
        asked = f"{text}\n\n{self.instruction}" if self.instruction else text
        user = {"role": "user", "content": asked}
        return [user] if self.system is None else [{"role": "system", "content": self.system}, user]


def without_thinking(template: PromptTemplate) -> PromptTemplate:
    """Return the template with thinking turned off if the tokenizer's chat template has a switch for it."""
    arguments = template.chat_template_kwargs
    if template.tokenizer is None or _THINKING in arguments:
        return template
    if _THINKING not in str(_load_tokenizer(template.tokenizer, None).chat_template):
        return template
    return replace(template, chat_template_kwargs={**arguments, _THINKING: False})


def read_words(path: Path) -> str:
    """Return the words of a prompt from a text file, without white space around them."""
    words = read_text(path).strip()
    if not words:
        raise InputError(f"{path}: is empty. Write the instruction into the file, or remove prompt_file.")
    return words


def prompt_counter(template: PromptTemplate, *, chat_template: str | None = None) -> CountPrompts:
    """Return the function that gives the lengths of prompts in tokens, as verl's length filter has them."""
    if template.tokenizer is None:
        return lambda prompts: [estimated_length(prompt) for prompt in prompts]
    tokenizer = _load_tokenizer(template.tokenizer, chat_template)
    kwargs = dict(template.chat_template_kwargs)

    def count(prompts: Sequence[list[Message]]) -> list[int]:
        if not prompts:
            return []
        rendered = tokenizer.apply_chat_template(
            list(prompts), tokenize=False, add_generation_prompt=True, **kwargs
        )
        # The template writes the special tokens itself, so that the tokenizer must not add them again.
        return [len(ids) for ids in tokenizer(rendered, add_special_tokens=False)["input_ids"]]

    return count


def estimated_length(messages: Sequence[Message]) -> int:
    """Return the estimated length of a prompt in tokens, meant to be rather too high than too low."""
    from rephraser.checks.text import estimate_tokens

    words = sum(estimate_tokens(message["content"]) + ESTIMATED_MESSAGE_TOKENS for message in messages)
    return ESTIMATED_TEMPLATE_TOKENS + words


def _load_tokenizer(name: str, chat_template: str | None) -> Any:
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise PrerequisiteError(
            f"counting tokens with {name} needs transformers. Install the extra `train` (docs/install.md). "
            "`tagrpo sets export` without --tokenizer estimates lengths."
        ) from error
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise PrerequisiteError(
            f"tokenizer {name}: could not be loaded ({first_line(error)}). Give a local folder or a Hub "
            "repository that this machine can reach (`tagrpo sets export` without --tokenizer estimates "
            "lengths)."
        ) from error
    if chat_template is not None:
        tokenizer.chat_template = chat_template
    if not tokenizer.chat_template:
        raise InputError(
            f"tokenizer {name}: has no chat template, as is usual for base models. Choose a chat model "
            f"(often named -Instruct). Or save the model in a folder, add a template as {TEMPLATE_NAME}, "
            "and pass the folder; verl reads the template from there."
        )
    return tokenizer
