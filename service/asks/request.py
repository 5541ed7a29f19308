"""A request to a model, its form as OpenAI's JSON, its reply, and the meaning of failed attempts."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from service.asks.redaction import redact
from service.errors import InputError
from service.hashing import canonical_json, whole_characters
from service.models.settings import NO_RAW_IMAGES, PromptSpec, Sampling
from service.questions.images import PLACEHOLDER, Image, data_address

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

RETRIED = frozenset({RATE_LIMITED, TIME_OUT, SERVER_ERROR, CONNECTION, INVALID_ANSWER})
"""Faults after which the same request is worth another attempt."""
FATAL = frozenset({AUTHENTICATION, UNKNOWN_MODEL, QUOTA, SETTINGS})
"""Faults that every further request to the endpoint would meet too: the run stops."""
FINAL = frozenset({CONTEXT_LENGTH, CONTENT_FILTER})
"""Faults that the same request meets again whenever it is sent."""

_CUT_SHORT = frozenset({"abort", "error"})
"""Finish reasons of a server that gave up: vLLM and SGLang at shutdown, OpenRouter."""


@dataclass(frozen=True)
class Message:
    """One chat message; `role` is system, user or assistant.

    `parts` replace `content` where the message has images: its text in pieces, the images between them.
    """

    role: str
    content: str
    parts: tuple[str | Image, ...] = ()

    @property
    def images(self) -> tuple[Image, ...]:
        return tuple(part for part in self.parts if not isinstance(part, str))


@dataclass(frozen=True)
class Request:
    """A request for `n` responses to messages, or for continuations of the raw text `prompt`.

    `model` identifies what answers: a provider's model name, or the weights, engine and device of a model on
    this machine. `sampling` maps every decoding setting to its value (`max_tokens`, `temperature`, ...).
    `extra` holds fields of one kind of server, such as vLLM's `chat_template_kwargs`. Runs with the same
    `scope` share answers: "" shares with all runs, a run's id keeps them private. `draw` tells equal requests
    apart if the provider takes no seed, and orders the answers about one thing. `kind` and `about` (a content
    id) serve reports; neither they nor the server's address are part of the key.
    """

    model: str
    messages: tuple[Message, ...] = ()
    prompt: str | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    n: int = 1
    draw: int = 0
    response_schema: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    scope: str = ""
    kind: str = "answer"
    about: str = ""

    @property
    def max_tokens(self) -> int:
        return int(self.sampling["max_tokens"])

    @cached_property
    def key(self) -> bytes:
        """Hash of everything that can change the answer, 16 bytes."""
        asked = {name: value for name, value in vars(self).items() if name not in ("kind", "about")}
        asked["messages"] = [
            [each.role, each.content, [part if isinstance(part, str) else part.id for part in each.parts]]
            for each in self.messages
        ]
        return hashlib.blake2b(
            canonical_json(asked).encode("utf-8", "surrogatepass"), digest_size=16
        ).digest()


def prompt_request(
    model: str,
    prompt: PromptSpec,
    sampling: Sampling,
    text: str,
    images: Sequence[Image] = (),
    **identity: Any,
) -> Request:
    """Return the request that sends `text` to a model; `<image>` in it marks the places of its images.

    `identity` are further fields of the request: seed, n, draw, kind, about, scope, response_schema.
    """
    filled = prompt.fill(text)
    if prompt.form == "raw":
        if images:
            raise InputError(NO_RAW_IMAGES)
        return Request(model, prompt=filled, sampling=sampling.decoding, **identity)
    system = (Message("system", prompt.system),) if prompt.system is not None else ()
    kwargs = dict(prompt.chat_template_kwargs)
    return Request(
        model,
        messages=(*system, message_with_images(filled, text, images)),
        sampling=sampling.decoding,
        extra={"chat_template_kwargs": kwargs} if kwargs else {},
        **identity,
    )


def message_with_images(content: str, question: str, images: Sequence[Image]) -> Message:
    """Return a user message whose content holds a question, with the question's images in their places.

    Other placeholders in the content, as in an example before the question, stay text.
    """
    if not images:
        return Message("user", content)
    start = content.rindex(question)
    first, *others = question.split(PLACEHOLDER)
    if len(others) != len(images):
        raise InputError(
            f"{question[:80]!r} has {len(others)} {PLACEHOLDER} for {len(images)} images. Use one per image."
        )
    others[-1] += content[start + len(question) :]
    parts: list[str | Image] = [content[:start] + first]
    for image, piece in zip(images, others, strict=True):
        parts += [image, piece]
    return Message("user", content, tuple(part for part in parts if part != ""))


def chat_messages(request: Request) -> list[dict[str, Any]]:
    """Return the messages; those with images have a list of parts."""
    return [
        {"role": message.role, "content": [*map(_part, message.parts)] or message.content}
        for message in request.messages
    ]


def _part(part: str | Image) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image_url", "image_url": {"url": data_address(part)}}


def request_fields(request: Request) -> dict[str, Any]:
    """Return the fields of OpenAI's protocol next to model and prompt, as vLLM spells them.

    Neutral settings are among them: vLLM would take others from the model. A server may lack seed, n and
    response_format: responses without a seed are drawn again, without n there are fewer, and the prompt asks
    for structured output too.
    """
    fields = {name: value for name, value in request.sampling.items() if value is not None}
    if fields.get("top_k") == 0:
        fields["top_k"] = -1  # all tokens, in every version of vLLM
    if stop := fields.pop("stop", None):
        fields["stop"] = list(stop)
    if request.seed is not None:
        fields["seed"] = request.seed
    if request.n != 1:
        fields["n"] = request.n
    if (schema := request.response_schema) is not None:
        schema = {"name": "answer", "strict": True, "schema": dict(schema)}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    return fields


@dataclass(frozen=True)
class Choice:
    """One response. `finish_reason` is the server's word: stop, length, content_filter, ...

    `reasoning` is what a server's reasoning parser took out of the text; None where it took nothing. `tokens`
    is its number of tokens; None where the server counts the responses of a request together.
    """

    text: str
    finish_reason: str
    reasoning: str | None = None
    tokens: int | None = None

    @property
    def full_text(self) -> str:
        """The text with its thought in front, as a server without a reasoning parser sends it.

        A thought without an answer stays open: the server cut it off.
        """
        if self.reasoning is None:
            return self.text
        head = f"<think>\n{self.reasoning.strip()}\n"
        return f"{head}</think>\n\n{self.text}" if self.text else head


@dataclass(frozen=True)
class Answer:
    """A reply as it was read. Token counts are 0 where the server sent none.

    `choices` can be fewer than the request's `n` where a provider does not know `n`. `seeded` is False where
    the server took no seed, so that the same request would draw another response. `body` is the reply as JSON
    without secrets, until it is stored in the row `ask_id`.
    """

    choices: tuple[Choice, ...]
    model: str
    prompt_tokens: int
    completion_tokens: int
    seeded: bool = True
    body: str = field(default="", repr=False)
    ask_id: int = 0


@dataclass(eq=False)
class Fault(Exception):
    """A failed attempt. Its message contains no keys.

    `billed`: the provider may have charged for it. `retry_after_s` is the pause the server asked for, None
    where it named none; `status` is the HTTP status, None where no answer came.
    """

    kind: str
    message: str
    billed: bool = False
    retry_after_s: float | None = None
    status: int | None = None

    def __post_init__(self) -> None:
        self.message = redact(self.message)

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


def read_reply(body: str, *, seeded: bool = True) -> Answer:
    """Read a completion's JSON body.

    Half characters, where a server cut a reply inside of one, become U+FFFD. Absurd counts of tokens are 0:
    not known. A body without choices, and an answer that the server broke off, are a `Fault`.
    """
    try:
        parsed = json.loads(body)
        usage = parsed.get("usage") or {}
        tokens = int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)
        tokens = tokens if min(tokens) >= 0 and max(tokens) < 2**31 else (0, 0)
        choices = tuple(_choice(choice) for choice in parsed.get("choices") or ())
    except (ValueError, AttributeError, LookupError, TypeError, OverflowError, RecursionError) as error:
        raise Fault(INVALID_ANSWER, f"the reply is not a completion: {error!r}", billed=True) from error
    if not choices:
        raise Fault(INVALID_ANSWER, "the reply contains no choices", billed=True)
    if broken := {choice.finish_reason for choice in choices} & _CUT_SHORT:
        raise Fault(INVALID_ANSWER, f"the server cut the answer short ({broken.pop()})", billed=True)
    return Answer(choices, str(parsed.get("model") or ""), *tokens, seeded, body)


def _choice(choice: Mapping[str, Any]) -> Choice:
    message = choice["message"] if "message" in choice else {"content": choice["text"]}
    extra = message.get("provider_specific_fields") or {}
    # litellm reports finish reasons that it does not know as "stop".
    native = (choice.get("provider_specific_fields") or {}).get("native_finish_reason")
    reason = native if native in _CUT_SHORT else str(choice.get("finish_reason") or "unknown")
    content, refusal = message.get("content"), message.get("refusal") or extra.get("refusal")
    if not content and refusal:
        return Choice(str(refusal), "refusal")
    thought = message.get("reasoning_content") or message.get("reasoning") or extra.get("reasoning_content")
    return Choice(
        whole_characters(content) if isinstance(content, str) else "",
        reason,
        whole_characters(thought) if isinstance(thought, str) and thought else None,
        choice.get("completion_tokens"),
    )
