"""Write requests in the JSON form of OpenAI's protocol."""

from collections.abc import Mapping
from typing import Any

from service.asks.request import Message, Request
from service.questions.images import data_address


def chat_messages(request: Request) -> list[dict[str, Any]]:
    """Return the messages; those with images have a list of parts."""
    return [{"role": message.role, "content": _content(message)} for message in request.messages]


def _content(message: Message) -> str | list[dict[str, Any]]:
    if not message.parts:
        return message.content
    return [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image_url", "image_url": {"url": data_address(part)}}
        for part in message.parts
    ]


def optional_fields(request: Request) -> dict[str, Any]:
    """Return the fields that a server may lack: seed, n and response_format, if the request needs them.

    The prompt asks for structured output too, responses without a seed are drawn again, and without n there
    are fewer.
    """
    fields = {
        "seed": request.seed,
        "n": request.n if request.n != 1 else None,
        "response_format": response_format(request.response_schema),
    }
    return {name: value for name, value in fields.items() if value is not None}


def response_format(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return OpenAI's `response_format` for a JSON Schema."""
    if schema is None:
        return None
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": dict(schema)}}
