"""From a sample request to the request that is sent, and from its answer to samples."""

import json
from collections.abc import Sequence
from typing import Any

from service.models.remote import ChatRequest, ChatResponse, Choice, Message
from service.models.settings import DrawingSpec
from service.models.work import Drawn, SampleRequest
from service.runs.filling import REFUSED_BODY

_TEXT_FIELDS = frozenset({"content", "text", "reasoning_content", "reasoning", "thinking", "refusal"})


def chat_request(spec: DrawingSpec, request: SampleRequest) -> ChatRequest:
    """Return what is sent for a cell: all its responses at once, with the seed of the first."""
    text = spec.prompt.fill(request.question)
    raw = spec.prompt.form == "raw"
    system = (Message("system", spec.prompt.system),) if spec.prompt.system is not None else ()
    kwargs = dict(spec.prompt.chat_template_kwargs)
    return ChatRequest(
        key=request.cell.id,
        messages=() if raw else (*system, Message("user", text)),
        prompt=text if raw else None,
        n=request.count,
        temperature=spec.sampling.temperature,
        top_p=spec.sampling.top_p,
        max_tokens=spec.sampling.max_tokens,
        seed=request.seeds[0],
        extra={"chat_template_kwargs": kwargs} if kwargs else {},
    )


def read_responses(request: SampleRequest, answer: ChatResponse) -> list[Drawn]:
    """Return the samples in an answer, as many as were asked for at most.

    A request that a filter refused as a whole is `count` samples without text: every one of them would have
    met it. Tokens are those of one response only where it came alone.
    """
    if answer.raw == REFUSED_BODY:
        return [Drawn("", answer.choices[0].finish_reason)] * request.count
    alone = len(answer.choices) == 1
    return [
        Drawn(
            text=full_text(choice),
            stop_reason=choice.finish_reason,
            prompt_tokens=answer.prompt_tokens or None,
            completion_tokens=(answer.completion_tokens or None) if alone else None,
        )
        for choice in answer.choices[: request.count]
    ]


def full_text(choice: Choice) -> str:
    """Return the text with the thought before it that a server's reasoning parser took out.

    It reads as from a server without the parser, so nothing is lost and lengths are comparable. A thought
    without an answer behind it stays open: it was cut off.
    """
    if choice.reasoning is None:
        return choice.text
    head = f"<think>\n{choice.reasoning.strip()}\n"
    return f"{head}</think>\n\n{choice.text}" if choice.text else head


def without_texts(raw: str, choices: Sequence[Choice]) -> str:
    """Return an answer's JSON without what `full_text` keeps: texts are stored once, as samples."""
    body = json.loads(raw)
    for found, choice in zip(body.get("choices") or [], choices, strict=False):
        _blank(found, {text for text in (choice.text, choice.reasoning) if text})
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def _blank(value: Any, texts: set[str]) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in _TEXT_FIELDS and isinstance(inner, str) and inner in texts:
                value[name] = None
            else:
                _blank(inner, texts)
    elif isinstance(value, list):
        for inner in value:
            _blank(inner, texts)
