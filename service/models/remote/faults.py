"""What an exception of a remote call means: its kind, whether it may have been billed, when to come back."""

import json
import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from service.models.remote.chat import (
    AUTHENTICATION,
    BAD_REQUEST,
    CONNECTION,
    CONTENT_FILTER,
    CONTEXT_LENGTH,
    INVALID_ANSWER,
    QUOTA,
    RATE_LIMITED,
    RETRYABLE_KINDS,
    SERVER_ERROR,
    SETTINGS,
    TIME_OUT,
    UNKNOWN_MODEL,
)
from service.models.remote.redaction import redact

LONGEST_MESSAGE = 500

# Names of classes, so that nothing has to be imported: litellm turns most errors into "status 500", and only
# the chain of causes tells a server's 500 from a cable that was cut or an answer that was no JSON.
_NEVER_SENT = {
    "ConnectError",
    "ConnectTimeout",
    "ClientConnectorError",
    "ClientConnectorDNSError",
    "ConnectionRefusedError",
    "InvalidURL",
    "InvalidUrlClientError",
    "UnsupportedProtocol",
    "PoolTimeout",
}
_BAD_ADDRESS = {"InvalidURL", "InvalidUrlClientError", "UnsupportedProtocol"}
_TIMED_OUT = {
    "TimeoutError",
    "Timeout",
    "APITimeoutError",
    "ReadTimeout",
    "WriteTimeout",
    "SocketTimeoutError",
}
_CUT = {
    "ReadError",
    "WriteError",
    "RemoteProtocolError",
    "ClientPayloadError",
    "ServerDisconnectedError",
    "ConnectionResetError",
    "ClientOSError",
}
_ANSWERED = {"HTTPStatusError", "MaskedHTTPStatusError"}

_NO_KEY = re.compile(r"missing credentials|api_key client option must be set|no api[-_ ]?key", re.IGNORECASE)
_NO_PROVIDER = re.compile(r"LLM Provider NOT provided", re.IGNORECASE)
_EMPTY_ACCOUNT = re.compile(
    r"insufficient_quota|exceeded your current quota|insufficient (?:credits?|balance|funds)",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"content[-_ ]?(?:filter|management|policy)|responsibleaipolicy|moderation|safety system|usage policy",
    re.IGNORECASE,
)
# As OpenAI, vLLM, SGLang, TGI, llama.cpp, Anthropic, Mistral and Gemini word it.
_TOO_LONG = re.compile(
    r"context[-_ ](?:length|window|limit|size)|maximum (?:context|model length)|too many tokens|"
    r"prompt is too long|too long and exceeds|must have less than \d+ tokens|tokens. must be <=|"
    r"maximum input length|maximum number of tokens allowed|too large for model with",
    re.IGNORECASE,
)
_CONTEXT = (
    re.compile(r"maximum context length (?:is|of) (\d+)"),
    re.compile(r"exceed context limit: \d+ \+ \d+ > (\d+)"),
    re.compile(r"max_new_tokens. must be <= (\d+)"),
)
_PROMPT = (
    re.compile(r"(\d+) in the (?:messages|prompt)"),
    re.compile(r"(\d+) (?:input tokens|tokens from the input|.inputs. tokens)"),
    re.compile(r"exceed context limit: (\d+) \+"),
    re.compile(r"resulted in (\d+) tokens"),
)
_LONGEST_ANSWER = re.compile(
    r"max_(?:completion_)?tokens.*(?:supports at most \d+ completion|maximum allowed number of output|"
    r"cannot be greater than max_model_len)"
)
_INVALID = re.compile(r"json|choices|invalid response|unterminated", re.IGNORECASE)


_WRAPPING = re.compile(r"^(?:(?:litellm\.)?\w+Error: )*(?:\w+Exception - )?")


@dataclass(frozen=True)
class Fault:
    """A failed attempt, which took `took_s`. `billed` is whether the provider may have charged for it."""

    kind: str
    message: str
    billed: bool
    retry_after_s: float | None = None
    status: int | None = None
    took_s: float = 0.0


def classify(error: BaseException) -> Fault:
    """Return what a litellm, OpenAI, httpx, aiohttp or asyncio exception means."""
    names = {type(link).__name__ for link in _chain(error)}
    text = str(error)
    status = _status(error, names)
    kind = _kind(names, status, text)
    text = _words(_WRAPPING.sub("", text))
    if kind == TIME_OUT and not text.strip():
        text = "no complete answer within the time-out"
    if kind == CONNECTION:
        text = _connection_text(error, text)
    billed = kind in (TIME_OUT, INVALID_ANSWER) or (kind == CONNECTION and not names & _NEVER_SENT)
    retry_after = parse_retry_after(_headers(error)) if kind in (RATE_LIMITED, SERVER_ERROR) else None
    return Fault(kind, shorten(redact(text)), billed, retry_after, status)


def shorten(text: str) -> str:
    """Return the first part of a message on one line."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_MESSAGE else line[: LONGEST_MESSAGE - 3] + "..."


def _kind(names: set[str], status: int | None, text: str) -> str:
    if _NO_KEY.search(text):
        return AUTHENTICATION
    if _NO_PROVIDER.search(text) or names & _BAD_ADDRESS:
        return UNKNOWN_MODEL
    if status is not None:
        return kind_of_status(status, text, names)
    if names & _NEVER_SENT or names & _CUT:
        return CONNECTION
    if names & _TIMED_OUT:
        return TIME_OUT
    if "JSONDecodeError" in names or "APIResponseValidationError" in names or _INVALID.search(text):
        return INVALID_ANSWER
    return SERVER_ERROR if "APIError" in names or "InternalServerError" in names else BAD_REQUEST


def kind_of_status(status: int, text: str, names: Collection[str] = ()) -> str:
    """Return the kind of failure that a server's status and words stand for."""
    if status == 429:
        return QUOTA if _EMPTY_ACCOUNT.search(text) else RATE_LIMITED
    if status == 402:
        return QUOTA
    if status in (401, 403):
        return CONTENT_FILTER if _FILTERED.search(text) else AUTHENTICATION
    if status == 404:
        return UNKNOWN_MODEL
    if status in (408, 504):
        return TIME_OUT
    if status in (409, 425) or status >= 500:
        return SERVER_ERROR
    if "ContextWindowExceededError" in names or _TOO_LONG.search(text):
        return CONTEXT_LENGTH
    if "ContentPolicyViolationError" in names or _FILTERED.search(text):
        return CONTENT_FILTER
    return BAD_REQUEST


def blame(fault: Fault, max_tokens: int) -> Fault:
    """Return the fault of a request for answers of `max_tokens`: its own, or that of its settings.

    A server that counts the answer's tokens with the prompt's refuses a prompt that is too long for the
    model's context in the same words as every prompt where `max_tokens` alone fills it. By the numbers in its
    words it is the settings where the prompt would fit and `max_tokens` is no smaller than the context, or
    larger than any answer may be. Words without numbers say nothing: see `Stream` for those.
    """
    context, prompt = _number(_CONTEXT, fault.message), _number(_PROMPT, fault.message)
    fills = context is not None and prompt is not None and prompt < context <= max_tokens
    too_much = fills or _LONGEST_ANSWER.search(fault.message) is not None
    if fault.kind not in (CONTEXT_LENGTH, BAD_REQUEST) or not too_much:
        return fault
    return replace(
        fault,
        kind=SETTINGS,
        message=f"answers of up to {max_tokens:,} tokens are more than the model takes ({fault.message}): "
        "lower --max-tokens (of solvers --solver-max-tokens), or serve the model with a longer context",
    )


def _number(patterns: Sequence[re.Pattern[str]], text: str) -> int | None:
    matches = (pattern.search(text) for pattern in patterns)
    return next((int(match[1]) for match in matches if match is not None), None)


def _status(error: BaseException, names: set[str]) -> int | None:
    """Return the status that the server sent, or None where litellm made up its 408 or 500."""
    statuses = (getattr(link, "status_code", None) for link in _chain(error))
    status = next((status for status in statuses if isinstance(status, int)), None)
    made_up = not names & _ANSWERED and (status == 408 or status == 200 or (status or 0) >= 500)
    return None if made_up else status


def _words(text: str) -> str:
    """Return the message of an OpenAI-style error body, other texts as they are."""
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return text


def _connection_text(error: BaseException, text: str) -> str:
    """Return the words of the network's own exception: the OpenAI client only says "Connection error."."""
    for link in _chain(error):
        if type(link).__name__ in _NEVER_SENT | _CUT and str(link):
            return str(link)
    return text


def _headers(error: BaseException) -> Mapping[str, str]:
    for link in _chain(error):
        for holder in (link, getattr(link, "response", None)):
            for name in ("litellm_response_headers", "headers"):
                headers = getattr(holder, name, None)
                if isinstance(headers, Mapping) and headers:
                    return headers
    return {}


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    for _ in range(12):
        if link is None:
            return
        yield link
        link = link.__cause__ or link.__context__


def parse_retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the seconds that a server asks to wait, or None.

    Understands `retry-after-ms`, and `retry-after` in seconds and as an HTTP date (RFC 9110, 10.2.3). Dates
    in the past mean 0. Anything else is None.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = lower.get(name, "").strip()
        try:
            seconds = float(text) * scale
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        due = parsedate_to_datetime(lower.get("retry-after", ""))
    except ValueError:
        return None
    if due.tzinfo is None:
        due = due.replace(tzinfo=UTC)
    return max(0.0, (due - (now or datetime.now(UTC))).total_seconds())


@dataclass(frozen=True)
class RetryPolicy:
    """Exponential back-off with jitter; the one owner of retries.

    Attempt k (from 1) that failed is followed by a pause drawn uniformly from [half, 1] times
    `base_s * 2**(k-1)`, at most `longest_s`. A server's Retry-After is a lower bound, up to
    `longest_retry_after_s`; a server that asks for more is given up on. A request that ran out of
    time `time_outs` times is not asked again: it would take as long once more. That failure is final.
    """

    attempts: int = 6
    base_s: float = 1.0
    longest_s: float = 60.0
    longest_retry_after_s: float = 300.0
    time_outs: int = 2

    def back_off(self, attempt: int, rng: random.Random) -> float:
        """Return the pause after so many attempts, in seconds."""
        return min(self.longest_s, self.base_s * 2.0 ** min(attempt - 1, 60)) * rng.uniform(0.5, 1.0)

    def delay(
        self, kind: str, attempt: int, rng: random.Random, retry_after_s: float | None = None
    ) -> float | None:
        """Return the pause before the next attempt in seconds, or None to give up."""
        if kind not in RETRYABLE_KINDS or attempt >= self.attempts:
            return None
        pause = self.back_off(attempt, rng)
        if retry_after_s is None:
            return pause
        if retry_after_s > self.longest_retry_after_s:
            return None
        # The jitter on top keeps requests that were refused together from coming back together.
        return retry_after_s + pause * 0.1
