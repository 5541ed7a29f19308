"""Classify failed attempts: cause, possible billing, and time of the next try."""

import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, cast

from service.asks import request as kinds
from service.asks.redaction import redact
from service.asks.request import Fault

LONGEST_MESSAGE = 500

_CAUSES = (
    ("ConnectError|ConnectTimeout|PoolTimeout|ConnectionRefused|ClientConnector", kinds.CONNECTION, False),
    ("ReadError|WriteError|RemoteProtocolError|ConnectionReset|ClientPayload", kinds.CONNECTION, True),
    ("ServerDisconnected|ClientOSError", kinds.CONNECTION, True),
    ("Timeout", kinds.TIME_OUT, True),
    ("JSONDecodeError|APIResponseValidationError|KeyError", kinds.INVALID_ANSWER, True),
    ("APIError|InternalServerError", kinds.SERVER_ERROR, False),
    (" TypeError| AttributeError| IndexError", kinds.INVALID_ANSWER, True),  # a list instead of an object
)
"""By the class names of exceptions, so that nothing has to be imported: the kind of fault, and whether the
attempt may be billed.

The first line counts that fits one in the chain of causes: litellm turns most errors into "status 500", and
only the chain tells a cut connection from an invalid reply. A name after a space is not the outermost one,
which would be an error of our own code.
"""

_STATUSES = (
    dict.fromkeys((401, 403), kinds.AUTHENTICATION)
    | dict.fromkeys((408, 504), kinds.TIME_OUT)
    | dict.fromkeys((409, 425), kinds.SERVER_ERROR)
    | {402: kinds.QUOTA, 404: kinds.UNKNOWN_MODEL, 429: kinds.RATE_LIMITED}
)
_EMPTY_ACCOUNT = re.compile(
    r"insufficient_quota|exceeded your current quota|insufficient (?:credits?|balance|funds)", re.IGNORECASE
)
# Gemini has the words of an empty account for all its limits. With a delay and not per day, the limit passes.
_RETRY_DELAY = re.compile(r"retryDelay\W+(\d+(?:\.\d+)?)s\b")
_ACCOUNTS_AT_400 = {"API key not valid": kinds.AUTHENTICATION, "credit balance is too low": kinds.QUOTA}
"""The words of Gemini and Anthropic, which refuse accounts with status 400."""
_FILTERED = re.compile(
    r"content[-_ ]?(?:filter|management|policy)|responsibleaipolicy|moderation|safety system|usage policy",
    re.IGNORECASE,
)
# The wording of OpenAI, vLLM, SGLang, TGI, llama.cpp, Anthropic, Mistral and Gemini.
_TOO_LONG = re.compile(
    r"context[-_ ]?(?:length|window|limit|size)|maximum (?:context|model length)|too many tokens|"
    r"prompt is too long|too long and exceeds|must have less than \d+ tokens|tokens. must be <=|"
    r"maximum input length|maximum number of tokens allowed|too large for model with",
    re.IGNORECASE,
)
_INVALID = re.compile(r"json|choices|invalid response|unterminated", re.IGNORECASE)
_WRAPPING = re.compile(r"^(?:(?:litellm\.)?\w+Error: )*(?:\w+Exception - )?")


def classify(error: BaseException) -> Fault:
    """Return the fault behind an exception of litellm, openai, httpx, aiohttp or asyncio."""
    if isinstance(error, Fault):
        return error
    links = [error]
    while (link := links[-1].__cause__ or links[-1].__context__) is not None and len(links) < 12:
        links.append(link)
    for link in links:
        if type(link).__name__ == "HTTPStatusError":  # the server's own reply, whatever others make of it
            reply = cast(Any, link).response
            return fault_of_status(reply.status_code, reply.text, reply.headers)
    text, status = _WRAPPING.sub("", str(error)), getattr(error, "status_code", 500)
    # litellm itself refuses it; it makes up 408, 500, and 422 for replies that it cannot read
    if status in range(400, 500) and status not in (408, 422):
        return fault_of_status(status, text, {})
    names = " ".join(type(link).__name__ for link in links)
    causes = (cause for cause in _CAUSES if re.search(cause[0], names))
    pattern, kind, billed = next(causes, ("", kinds.BAD_REQUEST, False))
    if kind in (kinds.SERVER_ERROR, kinds.BAD_REQUEST) and (status == 422 or _INVALID.search(text)):
        kind, billed = kinds.INVALID_ANSWER, True
    # The link that names the cause says most: the OpenAI client only says "Connection error."
    fitting = (link for link in links if re.search(pattern.replace(" ", ""), type(link).__name__))
    own = (
        f"the reply cannot be read: {link!r}"
        if kind == kinds.INVALID_ANSWER and isinstance(link, LookupError | TypeError | AttributeError)
        else str(link).partition("Traceback (most recent call last)")[0]
        for link in fitting
    )
    silent = "no complete answer before the timeout" if kind == kinds.TIME_OUT else type(error).__name__
    return Fault(kind, shorten(_WRAPPING.sub("", next(filter(None, own), silent))), billed=billed)


def fault_of_status(status: int, text: str, headers: Mapping[str, str]) -> Fault:
    """Return the fault for an HTTP status and its body."""
    delay, kind = _RETRY_DELAY.search(text), _kind_of_status(status, text)
    retry_after = float(delay[1]) if delay else parse_retry_after(headers)
    message = shorten(_server_message(text))
    return Fault(kind, message, billed=kind == kinds.TIME_OUT, retry_after_s=retry_after, status=status)


def shorten(text: str) -> str:
    """Return the first part of a message on one line, without keys."""
    line = " ".join(redact(text).split())
    return line if len(line) <= LONGEST_MESSAGE else line[: LONGEST_MESSAGE - 3] + "..."


def _kind_of_status(status: int, text: str) -> str:
    if status == 429 and _EMPTY_ACCOUNT.search(text):
        passes = _RETRY_DELAY.search(text) and "PerDay" not in text
        return kinds.RATE_LIMITED if passes else kinds.QUOTA
    for words, kind in _ACCOUNTS_AT_400.items():
        if status == 400 and words in text:
            return kind
    if status in (401, 403) and _FILTERED.search(text):
        return kinds.CONTENT_FILTER
    if status in _STATUSES or status >= 500:
        return _STATUSES.get(status, kinds.SERVER_ERROR)
    if _TOO_LONG.search(text):
        return kinds.CONTEXT_LENGTH
    return kinds.CONTENT_FILTER if _FILTERED.search(text) else kinds.BAD_REQUEST


def _server_message(text: str) -> str:
    """Return the message of a JSON error body, other texts unchanged."""
    try:
        body = json.loads(text)
        error = body.get("error") or body
        return str(error if isinstance(error, str) else error["message"] or text)
    except (ValueError, KeyError, TypeError, AttributeError):
        return text


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait: a number or an HTTP date (RFC 9110, 10.2.3)."""
    asked = next((value for name, value in headers.items() if name.lower() == "retry-after"), "").strip()
    if re.fullmatch(r"\d{1,12}(\.\d*)?", asked):
        return float(asked)
    with suppress(ValueError):
        return max(0.0, parsedate_to_datetime(asked).timestamp() - time.time())
    return None
