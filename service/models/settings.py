"""How a text becomes a prompt and how responses to it are drawn: what shapes every response."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from service.config import Config, pick

NO_RAW_IMAGES = "raw text cannot contain images: remove form=raw, or use a preset other than paper-eval."


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
