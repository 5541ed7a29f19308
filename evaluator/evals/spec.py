"""The specification of an eval run: everything that shapes its samples and its score, and so its key."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from evaluator.errors import InputError

EVAL = "eval"
"""The kind of these runs in the table of runs."""

MAX_SAMPLES = 100_000

Answers: TypeAlias = Literal["all", "boxed"]
"""Which answers of responses count: all that are found, or those in a box alone."""


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


@dataclass(frozen=True)
class EvalSpec:
    """An eval run: problems, model, engine, prompt and sampling. The number of samples is not part of it.

    `problems` names the benchmark or neighbor set, `problems_hash` is the hash of its content, `source` where
    it was loaded from (a Hub revision, a file's hash, the seed of shuffled options). `engine` names sampler,
    versions and the chat template's hash: what the sampler's `describe` returns. `answers` says which answers
    count; grades that take others may stand beside those.
    """

    problems: str
    problems_hash: str
    source: Mapping[str, Any]
    model: str
    engine: Mapping[str, Any]
    prompt: PromptSpec
    sampling: SamplingSettings
    answers: Answers = "all"

    def __post_init__(self) -> None:
        if self.answers not in ("all", "boxed"):
            raise InputError(f"answers is {self.answers!r}; give all or boxed.")

    def to_json(self) -> dict[str, Any]:
        """Return the form that is stored, hashed and shown."""
        return {
            "problems": self.problems,
            "problems_hash": self.problems_hash,
            "source": dict(self.source),
            "model": self.model,
            "engine": dict(self.engine),
            "prompt": {**asdict(self.prompt), "chat_template_kwargs": dict(self.prompt.chat_template_kwargs)},
            "sampling": asdict(self.sampling),
            # Left out where it is the default, as in runs that were made before there was a choice.
            **({} if self.answers == "all" else {"answers": self.answers}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "EvalSpec":
        """Return the spec of a stored run."""
        return cls(
            problems=data["problems"],
            problems_hash=data["problems_hash"],
            source=data["source"],
            model=data["model"],
            engine=data["engine"],
            prompt=PromptSpec(**data["prompt"]),
            sampling=SamplingSettings(**data["sampling"]),
            answers=data.get("answers", "all"),
        )
