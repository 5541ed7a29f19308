"""Turn a text with images into a request, and a request into OpenAI's JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from service.asks.request import Message, Request
from service.errors import InputError
from service.models.settings import NO_RAW_IMAGES, PromptSpec, Sampling
from service.questions.images import PLACEHOLDER, Image, data_address, split_at_images


def prompt_request(
    model: str,
    prompt: PromptSpec,
    sampling: Sampling,
    text: str,
    images: Sequence[Image] = (),
    **identity: Any,
) -> Request:
    """Return the request that sends `text` to a model.

    Args:
        model: As in `Request.model`.
        prompt: Template, form, system message and chat-template arguments.
        sampling: All decoding settings.
        text: A question or problem; `<image>` marks the places of its images.
        images: In the order of their places.
        identity: Further fields of the request: seed, n, draw, kind, about, scope, response_schema.

    Raises:
        InputError: raw text has images, or not as many places as images.
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

    Raises:
        InputError: the question has more or fewer places than images.
    """
    if not images:
        return Message("user", content)
    start = content.rindex(question)
    first, *others = split_at_images(question)
    if len(others) != len(images):
        raise InputError(
            f"{question[:80]!r} has {len(others)} {PLACEHOLDER} for {len(images)} images. Use one per image."
        )
    parts: list[str | Image] = [content[:start] + first]
    for image, piece in zip(images, others, strict=True):
        parts += [image, piece]
    parts[-1] = f"{parts[-1]}{content[start + len(question) :]}"
    return Message("user", content, tuple(part for part in parts if part != ""))


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
