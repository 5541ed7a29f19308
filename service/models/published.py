"""Sampling settings that models' authors publish, by name, and how settings are read from a command line."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from service.errors import InputError
from service.models.settings import Sampling

_THINKING = {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": 0.0, "max_tokens": 32_768}

PUBLISHED: Mapping[str, Mapping[str, Any]] = {
    "qwen3-thinking": _THINKING,
    "qwen3-non-thinking": {"temperature": 0.7, "top_p": 0.8, "top_k": 20, "min_p": 0.0},
    "qwq": {"temperature": 0.6, "top_p": 0.95, "top_k": 40, "min_p": 0.0, "max_tokens": 32_768},
    "deepseek-r1": {"temperature": 0.6, "top_p": 0.95, "max_tokens": 32_768},
    "gpt-oss": {"temperature": 1.0, "top_p": 1.0},
}
"""By name, as the cards of the models on the Hugging Face Hub say under "Best Practices" or "Usage":

- qwen3-*: Qwen/Qwen3-8B and its sisters; 32,768 tokens is their length for most queries, 38,912 for
  competitions. Thinking itself is switched by the chat template (`enable_thinking`).
- qwq: Qwen/QwQ-32B, which says "between 20 and 40" of top_k.
- deepseek-r1: deepseek-ai/DeepSeek-R1, "Usage Recommendations", and the length of its evaluation.
- gpt-oss: github.com/openai/gpt-oss, "Recommended Sampling Parameters".

What a card leaves open is left to the command.
"""

_KINDS = {each.name: each.type for each in fields(Sampling) if each.name != "stop"}


def read_sampling(text: str | None) -> dict[str, Any]:
    """Return the settings that a text names: a published name, `name=value` pairs, or both after commas.

    Raises:
        InputError: no such name or setting, or a value that is no number.

    >>> read_sampling("gpt-oss,top_k=20")
    {'temperature': 1.0, 'top_p': 1.0, 'top_k': 20}
    """
    settings: dict[str, Any] = {}
    for part in (text or "").split(","):
        name, given, value = (word.strip() for word in part.partition("="))
        name = name.replace("-", "_") if given else name
        if given and name in _KINDS:
            settings[name] = _number(name, value)
        elif name in PUBLISHED and not given:
            settings.update(PUBLISHED[name])
        elif text is not None:
            raise InputError(
                f"--sampling {text}: {part!r} is neither of {', '.join(PUBLISHED)} nor NAME=NUMBER for "
                f"one of {', '.join(_KINDS)}."
            )
    return settings


def override_sampling(
    base: Sampling,
    text: str | None,
    temperature: float | None = None,
    top_p: float | None = None,
    max_tokens: int | None = None,
) -> Sampling:
    """Return `base` with what `text` says (see `read_sampling`), and over that the single settings given.

    Raises:
        InputError: a text that cannot be read, or a value out of its range.
    """
    given = {"temperature": temperature, "top_p": top_p, "max_tokens": max_tokens}
    single = {name: value for name, value in given.items() if value is not None}
    return replace(base, **{**read_sampling(text), **single})


def read_seed(text: str) -> int | None:
    """Return the seed that a text stands for: a whole number, or None for `none`.

    Raises:
        InputError: it is neither.
    """
    if text.lower() == "none":
        return None
    try:
        return int(text)
    except ValueError:
        raise InputError(f"--seed {text}: give a whole number, or none to send no seed.") from None


def _number(name: str, value: str) -> float | int:
    try:
        return int(value) if _KINDS[name] is int or _KINDS[name] == "int" else float(value)
    except ValueError:
        raise InputError(f"--sampling: {name}={value} is no number.") from None
