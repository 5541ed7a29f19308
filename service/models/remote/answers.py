"""Reads litellm's answer: choices, usage, and the raw JSON to keep."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from service.models.remote.types import Choice


class InvalidAnswerError(Exception):
    """An answer that holds no choice. Carries the usage it stated, if any: it may have been billed."""

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
        InvalidAnswerError: it holds no choice.
    """
    raw = response.model_dump_json()
    return read_body(json.loads(raw), raw)


def read_body(body: Mapping[str, Any], raw: str | None = None) -> Answer:
    """Return the content of a completion, of chat or of raw text, as parsed JSON.

    Raises:
        InvalidAnswerError: it holds no choice, or is no completion.
    """
    usage = _usage(body.get("usage"))
    found = body.get("choices")
    if not isinstance(found, list) or not found:
        raise InvalidAnswerError("the answer holds no choice", usage)
    try:
        choices = tuple(_choice(choice) for choice in found)
    except (AttributeError, KeyError, TypeError) as error:
        raise InvalidAnswerError(f"the answer is no completion: {error!r}", usage) from error
    text = raw if raw is not None else json.dumps(body, ensure_ascii=False)
    return Answer(choices, usage, str(body.get("model") or ""), text)


def _choice(choice: Mapping[str, Any]) -> Choice:
    reason = choice.get("finish_reason") or "unknown"
    if "message" not in choice:
        return Choice(str(choice["text"] or ""), str(reason))
    message = choice["message"]
    content = message.get("content")
    extra = message.get("provider_specific_fields") or {}
    refusal = message.get("refusal") or extra.get("refusal")
    if not content and refusal:
        return Choice(str(refusal), "refusal")
    thought = message.get("reasoning_content") or message.get("reasoning") or extra.get("reasoning_content")
    return Choice(
        content if isinstance(content, str) else "",
        str(reason),
        thought if isinstance(thought, str) and thought else None,
    )


def _usage(usage: Any) -> tuple[int, int] | None:
    """Return (prompt, completion) tokens. litellm writes zeros where the server sent no usage."""
    if not isinstance(usage, Mapping):
        return None
    prompt, completion = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    return (int(prompt), int(completion)) if prompt + completion > 0 else None
