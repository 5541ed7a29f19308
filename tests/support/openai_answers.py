"""What the test server answers when all goes well: completions of chats and of raw text."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Answer = Callable[[list[dict[str, Any]], int, int | None], Sequence[str]]

CHARS_PER_TOKEN = 4
THOUGHT = "Let me see.\n"


def count_tokens(text: str) -> int:
    """Return the server's count of tokens: four characters each, rounded up."""
    return -(-len(text) // CHARS_PER_TOKEN)


def default_answer(messages: list[dict[str, Any]], n: int, seed: int | None) -> list[str]:
    """Return `n` short texts that depend on the last message, the seed and the place, and on nothing else."""
    asked = str(messages[-1].get("content"))
    return [hashlib.sha256(f"{asked}|{seed}|{place}".encode()).hexdigest()[:16] for place in range(n)]


def asked_messages(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the messages of a request; raw text counts as one message of the role "raw"."""
    if "prompt" in body:
        return [{"role": "raw", "content": body["prompt"]}]
    return list(body["messages"])


def request_key(body: Mapping[str, Any]) -> str:
    """Return the hash of what is asked: messages or raw text, n, seed and the chat template's arguments."""
    asked = [asked_messages(body), body.get("n") or 1, body.get("seed")]
    if body.get("chat_template_kwargs"):
        asked.append(body["chat_template_kwargs"])
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:24]


def completion(
    body: Mapping[str, Any], answer: Answer, *, thinks: bool, reasoning_parser: bool
) -> dict[str, Any]:
    """Return the JSON of an answer to a request; see `OpenAIServer` for the arguments."""
    n = body.get("n") or 1
    limit = body.get("max_tokens") or body.get("max_completion_tokens") or 10**9
    messages, raw = asked_messages(body), "prompt" in body
    texts = list(answer(messages, n, body.get("seed")))
    thinks = thinks and not raw and (body.get("chat_template_kwargs") or {}).get("enable_thinking", True)
    thought = THOUGHT if thinks else ""
    choices = []
    for place, text in enumerate(texts):
        reason = "stop" if count_tokens(thought + text) <= limit else "length"
        content = _raw(text, limit) if raw else _message(text, limit, thought, reasoning_parser)
        choices.append({"index": place, "finish_reason": reason, **content})
    prompt = sum(count_tokens(str(message.get("content"))) for message in messages)
    drawn = sum(min(count_tokens(thought + text), limit) for text in texts)
    return {
        "id": f"chatcmpl-{request_key(body)}",
        "object": "text_completion" if raw else "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": choices,
        "usage": {"prompt_tokens": prompt, "completion_tokens": drawn, "total_tokens": prompt + drawn},
    }


def _raw(text: str, limit: int) -> dict[str, Any]:
    return {"text": text[: limit * CHARS_PER_TOKEN], "logprobs": None, "stop_reason": None}


def _message(text: str, limit: int, thought: str, reasoning_parser: bool) -> dict[str, Any]:
    room = limit * CHARS_PER_TOKEN
    thought = thought[:room]
    text = text[: room - len(thought)]
    message = {"role": "assistant", "content": text}
    if thought and reasoning_parser:
        message["reasoning_content"] = thought
    elif thought:
        message["content"] = f"<think>\n{thought}</think>\n\n{text}"
    return {"message": message}
