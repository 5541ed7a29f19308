"""Values of remote model calls: what is asked, what comes back, what went wrong."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
BUDGET = "budget"
INTERRUPTED = "interrupted"

RETRYABLE_KINDS = frozenset({RATE_LIMITED, TIME_OUT, SERVER_ERROR, CONNECTION, INVALID_ANSWER})
FATAL_KINDS = frozenset(
    {AUTHENTICATION, UNKNOWN_MODEL, QUOTA, BUDGET}
)  # every further request would fail too


@dataclass(frozen=True)
class Endpoint:
    """Where a model answers. The key comes from the environment, where litellm looks for it.

    `model` is litellm's spelling (`gpt-4-turbo`, `hosted_vllm/Qwen/Qwen3-4B`), `api_base` the address of an
    own server (`http://localhost:8000/v1`), `timeout_s` the time one attempt may take from its start to the
    last byte.
    """

    model: str
    api_base: str | None = None
    timeout_s: float = 120.0


@dataclass(frozen=True)
class Message:
    """One message of a chat; `role` is system, user or assistant."""

    role: str
    content: str


@dataclass(frozen=True)
class ChatRequest:
    """One request: `n` answers to the same messages, or continuations of the same text.

    `key` is the caller's and comes back with the answer. `response_schema` (JSON Schema) asks for structured
    output; where the model does not support it, it is left out, so the messages must ask for it too. Settings
    that are None are left to the server; those that a provider does not know are not sent.

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

    `cost_usd` counts attempts that may have been billed at their worst case; None where the price is not
    known and something may have been billed.
    """

    kind: str
    message: str
    attempts: int
    retryable: bool
    cost_usd: float | None = 0.0

    @property
    def fatal(self) -> bool:
        """Whether every other request to the same endpoint would fail in the same way."""
        return self.kind in FATAL_KINDS


@dataclass(frozen=True)
class RunOutcome:
    """What `RemoteClient.run` did.

    `stopped` is None when all requests were asked, else why no more were: budget, requests, authentication,
    unknown model, quota, failing, interrupted; `message` says it in a sentence. `unsent` requests were taken
    from the caller and never sent; they were not reported to `on_result` either.
    """

    answered: int
    failed: int
    unsent: int
    stopped: str | None
    message: str | None


@dataclass(frozen=True)
class EndpointCheck:
    """What `RemoteClient.check` found. None means that the endpoint does not say.

    `supports_n` False: ask for one answer a request. `structured` tells whether response_schema is sent.
    """

    reachable: bool
    model_listed: bool | None
    models: tuple[str, ...]
    structured: bool
    supports_n: bool
    price_known: bool
    problem: str | None
