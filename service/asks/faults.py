"""Classify failed attempts: cause, possible billing, and time of the next try."""

import json
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime

from service.asks import request as kinds
from service.asks.redaction import redact
from service.asks.request import Fault

LONGEST_MESSAGE = 500

_CAUSES = (
    ("ConnectError|ConnectTimeout|PoolTimeout|ConnectionRefused|ClientConnector", kinds.CONNECTION, False),
    ("ReadError|WriteError|RemoteProtocolError|ConnectionReset|ClientPayload", kinds.CONNECTION, True),
    ("ServerDisconnected|ClientOSError", kinds.CONNECTION, True),
    ("Timeout", kinds.TIME_OUT, True),
    ("JSONDecodeError|APIResponseValidationError", kinds.INVALID_ANSWER, True),
    ("APIError|InternalServerError", kinds.SERVER_ERROR, False),
)
"""By the class names of exceptions, so that nothing has to be imported: the kind of fault, and whether the
attempt may be billed.

The first line counts that fits one in the chain of causes: litellm turns most errors into "status 500", and
only the chain tells a server's 500 from a cut connection or an invalid reply.
"""

_NO_KEY = re.compile(r"missing credentials|api_key client option must be set|no api[-_ ]?key", re.IGNORECASE)
_EMPTY_ACCOUNT = re.compile(
    r"insufficient_quota|exceeded your current quota|insufficient (?:credits?|balance|funds)", re.IGNORECASE
)
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
    links = _chain(error)
    names = " ".join(type(link).__name__ for link in links)
    text, status = str(error), _sent_status(links, names)
    body = getattr(error, "body", None)  # what openai's errors print as a dictionary
    message = body.get("message") if isinstance(body, Mapping) else None
    message = str(message or _server_message(_WRAPPING.sub("", text)))
    if _NO_KEY.search(text):
        return Fault(kinds.AUTHENTICATION, shorten(message), status=status)
    if status is not None:
        return fault_of_status(status, text, _headers(links), message)
    causes = (cause for cause in _CAUSES if re.search(cause[0], names))
    pattern, kind, billed = next(causes, ("", kinds.BAD_REQUEST, False))
    if kind in (kinds.SERVER_ERROR, kinds.BAD_REQUEST) and _INVALID.search(text):
        kind, billed = kinds.INVALID_ANSWER, True
    elif kind == kinds.CONNECTION:  # the OpenAI client only says "Connection error."
        own = (str(link) for link in links if re.search(pattern, type(link).__name__) and str(link))
        message = next(own, message or type(error).__name__)
    elif kind == kinds.TIME_OUT and not message.strip():
        message = "no complete answer before the timeout"
    return Fault(kind, shorten(message), billed=billed)


def fault_of_status(status: int, text: str, headers: Mapping[str, str], message: str | None = None) -> Fault:
    """Return the fault for an HTTP status and its body; `message` is the one in the body, if it is known."""
    kind, retry_after = _kind_of_status(status, text), parse_retry_after(headers)
    message = shorten(_server_message(text) if message is None else message)
    return Fault(kind, message, billed=kind == kinds.TIME_OUT, retry_after_s=retry_after, status=status)


def shorten(text: str) -> str:
    """Return the first part of a message on one line, without keys."""
    line = " ".join(redact(text).split())
    return line if len(line) <= LONGEST_MESSAGE else line[: LONGEST_MESSAGE - 3] + "..."


def _kind_of_status(status: int, text: str) -> str:
    if status == 429:
        return kinds.QUOTA if _EMPTY_ACCOUNT.search(text) else kinds.RATE_LIMITED
    if status == 402:
        return kinds.QUOTA
    if status in (401, 403):
        return kinds.CONTENT_FILTER if _FILTERED.search(text) else kinds.AUTHENTICATION
    if status == 404:
        return kinds.UNKNOWN_MODEL
    if status in (408, 504):
        return kinds.TIME_OUT
    if status in (409, 425) or status >= 500:
        return kinds.SERVER_ERROR
    if _TOO_LONG.search(text):
        return kinds.CONTEXT_LENGTH
    if _FILTERED.search(text):
        return kinds.CONTENT_FILTER
    return kinds.BAD_REQUEST


def _sent_status(links: Sequence[BaseException], names: str) -> int | None:
    """Return the status that the server sent, or None if litellm made up its 408 or 500."""
    statuses = (getattr(link, "status_code", None) for link in links)
    status = next((status for status in statuses if isinstance(status, int)), None)
    made_up = "HTTPStatusError" not in names and (status in (200, 408) or (status or 0) >= 500)
    return None if made_up else status


def _server_message(text: str) -> str:
    """Return the message of a JSON error body, other texts unchanged."""
    try:
        body = json.loads(text)
        error = body.get("error") or body
        return str(error if isinstance(error, str) else error["message"] or text)
    except (ValueError, KeyError, TypeError, AttributeError):
        return text


def _headers(links: Sequence[BaseException]) -> Mapping[str, str]:
    for holder in (each for link in links for each in (link, getattr(link, "response", None))):
        headers = getattr(holder, "litellm_response_headers", None) or getattr(holder, "headers", None)
        if isinstance(headers, Mapping) and headers:
            return headers
    return {}


def _chain(error: BaseException) -> list[BaseException]:
    links = [error]
    while (link := links[-1].__cause__ or links[-1].__context__) is not None and len(links) < 12:
        links.append(link)
    return links


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait: a number or an HTTP date (RFC 9110, 10.2.3)."""
    asked = next((value for name, value in headers.items() if name.lower() == "retry-after"), "").strip()
    if re.fullmatch(r"\d{1,12}(\.\d*)?", asked):
        return float(asked)
    with suppress(ValueError):
        return max(0.0, parsedate_to_datetime(asked).timestamp() - time.time())
    return None
