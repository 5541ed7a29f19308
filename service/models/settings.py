"""How a text becomes a prompt and how responses to it are drawn: what shapes every response."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from service.errors import InputError

SHORTEST_TIMEOUT_S = 120.0
TOKENS_PER_S = 10.0
"""The slowest that a response is waited for: a server under load, a large model."""


@dataclass(frozen=True)
class SamplingSettings:
    """How responses are drawn; by default as in the public evaluation of arXiv 2601.22478.

    `samples_per_request` responses are drawn by one request (the last of a problem may be smaller). The seed
    of a sample follows from `seed`, the problem and the sample's ordinal, whatever is drawn with it.
    """

    temperature: float = 0.6
    top_p: float = 0.95
    max_tokens: int = 3072
    seed: int = 0
    samples_per_request: int = 8

    def __post_init__(self) -> None:
        if not 0 <= self.temperature <= 10:
            raise InputError(f"temperature is {self.temperature}; give 0 to 10.")
        if not 0 < self.top_p <= 1:
            raise InputError(f"top-p is {self.top_p}; give more than 0 and at most 1.")
        if not 1 <= self.max_tokens <= 10_000_000:
            raise InputError(f"max-tokens is {self.max_tokens}; give 1 to 10,000,000.")
        if not 1 <= self.samples_per_request <= 1024:
            raise InputError(f"{self.samples_per_request} samples per request; give 1 to 1024.")


@dataclass(frozen=True)
class PromptSpec:
    """How a problem becomes a prompt.

    `template` holds `{question}`. `form` is chat (messages through the model's chat template) or raw (the
    text itself is continued). `system` and `chat_template_kwargs` belong to chat.
    """

    template: str
    form: Literal["chat", "raw"] = "chat"
    system: str | None = None
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if "{question}" not in self.template:
            raise InputError("a prompt needs the placeholder {question}, where the problem's text goes.")
        if self.form == "raw" and (self.system or self.chat_template_kwargs):
            raise InputError("a system prompt and chat-template arguments need a chat prompt, not raw text.")

    def fill(self, question: str) -> str:
        """Return the prompt's text for a question."""
        return self.template.replace("{question}", question)


class DrawingSpec(Protocol):
    """Model, prompt and sampling: what an eval run's and a solver's specification have in common."""

    @property
    def model(self) -> str: ...

    @property
    def prompt(self) -> PromptSpec: ...

    @property
    def sampling(self) -> SamplingSettings: ...
