"""A chat with a remote model: what is asked, what comes back or goes wrong, and how an answer is read."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from service.errors import InputError
from service.hashing import whole_characters
from service.models.settings import SHORTEST_TIMEOUT_S, TOKENS_PER_S

if TYPE_CHECKING:
    from service.questions.images import Image

RATE_LIMITED = "rate limited"
TIME_OUT = "time-out"
SERVER_ERROR = "server error"
CONNECTION = "connection"
INVALID_ANSWER = "invalid answer"
BAD_REQUEST = "bad request"
CONTEXT_LENGTH = "context length"
CONTENT_FILTER = "content filter"
AUTHENTICATION = "authentication"
UNKNOWN_MODEL = "unknown model"
QUOTA = "quota"
SETTINGS = "settings"
BUDGET = "budget"
INTERRUPTED = "interrupted"

RETRYABLE_KINDS = frozenset({RATE_LIMITED, TIME_OUT, SERVER_ERROR, CONNECTION, INVALID_ANSWER})
FATAL_KINDS = frozenset(
    {AUTHENTICATION, UNKNOWN_MODEL, QUOTA, BUDGET, SETTINGS}
)  # every further request would fail too
FINAL_KINDS = frozenset({CONTEXT_LENGTH, CONTENT_FILTER})  # the same request would fail again


@dataclass(frozen=True)
class Endpoint:
    """Where a model answers. The key comes from the environment: from `key_env`, else where litellm looks.

    `model` is litellm's spelling (`gpt-4-turbo`, `hosted_vllm/Qwen/Qwen3-4B`), `api_base` the address of an
    own server (`http://localhost:8000/v1`), `other_bases` those of further servers of the same model, which
    share the requests. `timeout_s` is the time one attempt may take from its start to the last byte; None:
    `SHORTEST_TIMEOUT_S` and what the longest response takes at `tokens_per_s`.
    """

    model: str
    api_base: str | None = None
    timeout_s: float | None = None
    tokens_per_s: float = TOKENS_PER_S
    key_env: str | None = None
    other_bases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse an address that holds a name or password: the key is sent in the header that they need.

        Raises:
            InputError: it does, or an address is given twice.
        """
        for base in self.bases:
            address = urlsplit(base)
            if address.username is not None:
                raise InputError(
                    f"{self.model}: the address of {address.hostname} holds a name or password, which no "
                    "request can carry beside a key; leave it out, and let a proxy of yours add it where one "
                    "is needed."
                )
        plain = [base.rstrip("/") for base in self.bases]
        for base in plain:
            if plain.count(base) > 1:
                raise InputError(f"{self.model}: {base} is given twice; name each server once.")

    @classmethod
    def at(cls, model: str, bases: Sequence[str], **settings: Any) -> Self:
        """Return the endpoint of a model at servers of one's own; without any, at its provider.

        Raises:
            InputError: an address holds a password, or is given twice.
        """
        addresses = split_bases(bases)
        return cls(model, next(iter(addresses), None), other_bases=addresses[1:], **settings)

    @property
    def bases(self) -> tuple[str, ...]:
        """The addresses of own servers."""
        return () if self.api_base is None else (self.api_base, *self.other_bases)

    def alone(self) -> tuple["Endpoint", ...]:
        """Return each server as an endpoint of its own; a provider is the only one."""
        return tuple(replace(self, api_base=base, other_bases=()) for base in self.bases) or (self,)

    def attempt_s(self, max_tokens: int) -> float:
        """Return the seconds that one attempt may take for responses of at most `max_tokens`."""
        if self.timeout_s is not None:
            return self.timeout_s
        return SHORTEST_TIMEOUT_S + max_tokens / self.tokens_per_s


def split_bases(bases: Sequence[str]) -> tuple[str, ...]:
    """Return the addresses that were given, several in one text separated by commas."""
    return tuple(base.strip() for text in bases for base in text.split(",") if base.strip())


@dataclass(frozen=True)
class Message:
    """One message of a chat; `role` is system, user or assistant.

    `parts` are sent in place of `content` where it has images: its text in pieces, the images between them.
    """

    role: str
    content: str
    parts: "tuple[str | Image, ...]" = ()

    @property
    def images(self) -> "tuple[Image, ...]":
        """The images among its parts."""
        return tuple(part for part in self.parts if not isinstance(part, str))


def message_with_images(content: str, question: str, images: "Sequence[Image]") -> Message:
    """Return a user's message whose content holds a question, with the question's images in their places.

    Other placeholders in the content, as in an example before the question, stay text.

    Raises:
        InputError: the question has more or fewer places than images.
    """
    from service.questions.images import PLACEHOLDER, split_at_images

    if not images:
        return Message("user", content)
    start = content.rindex(question)
    first, *others = split_at_images(question)
    if len(others) != len(images):
        raise InputError(
            f"a text with {len(others)} {PLACEHOLDER} for {len(images)} images: {question[:80]!r}"
        )
    parts: list[str | Image] = [content[:start] + first]
    for image, piece in zip(images, others, strict=True):
        parts += [image, piece]
    parts.append(content[start + len(question) :])
    joined = [*parts[:-2], f"{parts[-2]}{parts[-1]}"]
    return Message("user", content, tuple(part for part in joined if part != ""))


@dataclass(frozen=True)
class ChatRequest:
    """One request: `n` answers to the same messages, or continuations of the same text.

    `key` is the caller's and comes back with the answer. `response_schema` (JSON Schema) asks for structured
    output; where the model does not support it, it is left out, so the messages must ask for it too; the seed
    is left out likewise. Settings that are None are left to the server; that a provider takes the others is
    for `endpoint.check_sampling` to see before.

    `prompt` is raw text in place of messages; `extra` holds fields of one server's own, such as vLLM's
    `chat_template_kwargs`. Not every endpoint takes them: ask `abilities.check_abilities` before.
    """

    key: int | str
    messages: tuple[Message, ...] = ()
    n: int = 1
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int = 1024  # per answer, and part of the worst case that a cap on money counts
    seed: int | None = None
    top_k: int | None = None  # 0: all tokens
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop: tuple[str, ...] = ()
    response_schema: Mapping[str, Any] | None = None
    prompt: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if bool(self.messages) == (self.prompt is not None):
            raise ValueError("a request has either messages or a prompt of raw text")


@dataclass(frozen=True)
class Choice:
    """One answer. `finish_reason` is the server's: stop, length, content_filter, ...

    `reasoning` is what a server with a reasoning parser took out of the text, None where it did not.
    """

    text: str
    finish_reason: str
    reasoning: str | None = None


@dataclass(frozen=True)
class ChatResponse:
    """What a request brought, unusable content included.

    `choices` can be fewer than `n` where a provider does not know `n`. `cost_usd` is what all attempts cost,
    None where the price is not known; attempts whose bill cannot be known (time-outs, cut answers, answers
    without usage) are in it at their worst case, `doubtful_usd` says how much that is. Token counts are the
    server's for the answered attempt; 0 where it sent none. `raw` is the whole answer as JSON, without
    headers.
    """

    choices: tuple[Choice, ...]
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    model: str
    raw: str
    attempts: int
    latency_s: float
    doubtful_usd: float = 0.0


@dataclass(frozen=True)
class Failure:
    """A request that brought no answer after `attempts` HTTP requests. Keys in `message` are blotted out.

    `cost_usd` counts attempts that may have been billed at their worst case, which `doubtful_usd` repeats;
    None where the price is not known and something may have been billed. `final`: asking again is pointless,
    since the request is refused for what it holds, or ran out of time as often as it may.
    """

    kind: str
    message: str
    attempts: int
    cost_usd: float | None = 0.0
    doubtful_usd: float = 0.0
    final: bool = False

    @property
    def fatal(self) -> bool:
        """Whether every other request to the same endpoint would fail in the same way."""
        return self.kind in FATAL_KINDS


_BROKEN_OFF = frozenset({"abort", "error"})
"""Finish reasons of what a server gave up: vLLM's and SGLang's at their end, OpenRouter's."""


class InvalidAnswerError(Exception):
    """An answer that holds no choice, or one that was broken off.

    Carries the usage it stated, if any: it may have been billed.
    """

    def __init__(self, message: str, usage: tuple[int, int] | None) -> None:
        super().__init__(message)
        self.usage = usage


@dataclass(frozen=True)
class Answer:
    """The content of an answer. `usage` is (prompt, completion) tokens, None where the server sent none."""

    choices: tuple[Choice, ...]
    usage: tuple[int, int] | None
    model: str
    raw: str


def read_answer(response: Any) -> Answer:
    """Return the content of litellm's `ModelResponse` or `TextCompletionResponse`.

    Raises:
        InvalidAnswerError: see `read_body`.
    """
    try:
        raw = response.model_dump_json()
    except ValueError:  # such a half, which pydantic cannot write
        raw = json.dumps(response.model_dump(), ensure_ascii=False)
    return read_body(json.loads(raw), raw)


def read_body(body: Mapping[str, Any], raw: str | None = None) -> Answer:
    """Return the content of a completion, of chat or of raw text, as parsed JSON.

    Halves of characters, where a server cut an answer inside of one, become U+FFFD.

    Raises:
        InvalidAnswerError: it holds no choice, was broken off by the server, or is no completion.
    """
    usage = _usage(body.get("usage"))
    raw_choices = body.get("choices")
    if not isinstance(raw_choices, list) or not raw_choices:
        raise InvalidAnswerError("the answer holds no choice", usage)
    try:
        choices = tuple(_choice(choice) for choice in raw_choices)
    except (AttributeError, KeyError, TypeError) as error:
        raise InvalidAnswerError(f"the answer is no completion: {error!r}", usage) from error
    if broken := {choice.finish_reason for choice in choices} & _BROKEN_OFF:
        raise InvalidAnswerError(f"the server broke the answer off (finish_reason {broken.pop()})", usage)
    text = raw if raw is not None else json.dumps(body, ensure_ascii=False)
    return Answer(choices, usage, str(body.get("model") or ""), whole_characters(text))


def _choice(choice: Mapping[str, Any]) -> Choice:
    reason = choice.get("finish_reason") or "unknown"
    # litellm calls what it does not know a stop.
    native = (choice.get("provider_specific_fields") or {}).get("native_finish_reason")
    reason = native if native in _BROKEN_OFF else reason
    if "message" not in choice:
        return Choice(whole_characters(str(choice["text"] or "")), str(reason))
    message = choice["message"]
    content = message.get("content")
    extra = message.get("provider_specific_fields") or {}
    refusal = message.get("refusal") or extra.get("refusal")
    if not content and refusal:
        return Choice(str(refusal), "refusal")
    thought = message.get("reasoning_content") or message.get("reasoning") or extra.get("reasoning_content")
    return Choice(
        whole_characters(content) if isinstance(content, str) else "",
        str(reason),
        whole_characters(thought) if isinstance(thought, str) and thought else None,
    )


def _usage(usage: Any) -> tuple[int, int] | None:
    """Return (prompt, completion) tokens. litellm writes zeros where the server sent no usage."""
    if not isinstance(usage, Mapping):
        return None
    prompt, completion = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    return (int(prompt), int(completion)) if prompt + completion > 0 else None
