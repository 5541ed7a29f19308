"""How a text becomes a prompt and how responses to it are drawn: what shapes every response."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, Self

from service.errors import InputError

SHORTEST_TIMEOUT_S = 120.0
TOKENS_PER_S = 10.0
"""The slowest that a response is waited for: a server under load, a large model."""


NO_RAW_IMAGES = "raw text has no place for images: leave out --raw, or take another --preset than paper-eval."
NEUTRAL: Mapping[str, Any] = {
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "stop": (),
}
"""The values with which a setting changes nothing: they are left out of a run's key."""


@dataclass(frozen=True)
class Sampling:
    """All that decides the distribution of a response, given its prompt.

    Every value is sent, or refused where it cannot be; none is a server's to choose. `top_k` 0 is all tokens,
    `stop` ends a response before any of these texts.
    """

    temperature: float = 0.6
    top_p: float = 0.95
    max_tokens: int = 3072
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.temperature <= 10:
            raise InputError(f"temperature is {self.temperature}; give 0 to 10.")
        if not 0 < self.top_p <= 1:
            raise InputError(f"top-p is {self.top_p}; give more than 0 and at most 1.")
        if not 1 <= self.max_tokens <= 10_000_000:
            raise InputError(f"max-tokens is {self.max_tokens}; give 1 to 10,000,000.")
        if self.top_k < 0:
            raise InputError(f"top_k is {self.top_k}; give 1 or more, or 0 for all tokens.")
        if not 0 <= self.min_p <= 1:
            raise InputError(f"min_p is {self.min_p}; give 0 to 1.")
        if not 0 < self.repetition_penalty <= 10:
            raise InputError(
                f"repetition_penalty is {self.repetition_penalty}; give more than 0, at most 10."
            )
        for name in ("presence_penalty", "frequency_penalty"):
            if not -2 <= getattr(self, name) <= 2:
                raise InputError(f"{name} is {getattr(self, name)}; give -2 to 2.")
        if "" in self.stop:
            raise InputError("an empty text to stop at would end every response; leave it out.")

    @property
    def beyond(self) -> dict[str, Any]:
        """The settings beside temperature, top-p and length that change something."""
        return {name: getattr(self, name) for name, none in NEUTRAL.items() if getattr(self, name) != none}

    def to_json(self) -> dict[str, Any]:
        """Return the form that is stored, hashed and shown, without neutral values."""
        every = asdict(self)
        return {name: value for name, value in every.items() if name not in NEUTRAL or name in self.beyond}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the settings that `to_json` made."""
        return cls(**{**data, "stop": tuple(data.get("stop", ()))})

    @property
    def decoding(self) -> dict[str, Any]:
        """All of these settings by name, neutral ones too, as a request has them."""
        return {each.name: getattr(self, each.name) for each in fields(Sampling)}


@dataclass(frozen=True)
class SamplingSettings(Sampling):
    """How responses are drawn; by default as in the public evaluation of arXiv 2601.22478.

    `samples_per_request` responses are drawn by one request (the last of a problem may be smaller). The seed
    of a sample follows from `seed`, the problem and the sample's ordinal, whatever is drawn with it; None
    sends no seed, and what is drawn cannot be drawn again.
    """

    seed: int | None = 0
    samples_per_request: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
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
