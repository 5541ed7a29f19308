"""Images inside chat messages, as processors of transformers expect them, and in texts of prompts."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

Message = Mapping[str, Any]


def images_of(messages: Sequence[Message]) -> list[Any]:
    """Return the images of chat messages in order."""
    contents = [message["content"] for message in messages if not isinstance(message["content"], str)]
    return [part["image"] for content in contents for part in content if part.get("type") == "image"]


def with_images(messages: Sequence[Message], images: Sequence[Any]) -> list[dict[str, Any]]:
    """Return plain-text messages with images instead of their placeholders."""
    if not images:
        return [dict(message) for message in messages]
    from service.questions.images import (
        PLACEHOLDER,
        count_placeholders,
    )  # needs the database, so it is imported where it is used

    places = sum(count_placeholders(message["content"]) for message in messages)
    if places != len(images):
        raise ValueError(f"a prompt has {places} {PLACEHOLDER}, but its question has {len(images)} images")
    left = iter(images)
    return [
        {**message, "content": _parts(message["content"].split(PLACEHOLDER), left)} for message in messages
    ]


def prompt_text(tokenizer: Any, ids: Sequence[int], image_ids: frozenset[int]) -> str:
    """Return a prompt's text, with `<image>` where it has tokens of one."""
    from service.questions.images import PLACEHOLDER

    parts = [
        PLACEHOLDER if is_image else tokenizer.decode(list(part), skip_special_tokens=True)
        for is_image, part in groupby(map(int, ids), lambda id: id in image_ids)
    ]
    return "".join(parts)


def _parts(texts: Sequence[str], images: Any) -> list[dict[str, Any]]:
    first, *others = texts
    parts = _text(first)
    for following in others:
        parts += [{"type": "image", "image": next(images)}, *_text(following)]
    return parts


def _text(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}] if text else []
