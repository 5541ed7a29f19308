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
    from service.questions.images import PLACEHOLDER  # imports the database

    places = sum(message["content"].count(PLACEHOLDER) for message in messages)
    if places != len(images):
        raise ValueError(f"a prompt has {places} {PLACEHOLDER}, but its question has {len(images)} images")
    left = iter(images)
    filled = []
    for message in messages:
        parts: list[dict[str, Any]] = []
        for number, text in enumerate(message["content"].split(PLACEHOLDER)):
            parts += [{"type": "image", "image": next(left)}] if number else []
            parts += [{"type": "text", "text": text}] if text else []
        filled.append({**message, "content": parts})
    return filled


def prompt_text(tokenizer: Any, ids: Sequence[int], image_ids: frozenset[int]) -> str:
    """Return a prompt's text, with `<image>` where it has tokens of one."""
    from service.questions.images import PLACEHOLDER

    parts = [
        PLACEHOLDER if is_image else tokenizer.decode(list(part), skip_special_tokens=True)
        for is_image, part in groupby(map(int, ids), lambda id: id in image_ids)
    ]
    return "".join(parts)
