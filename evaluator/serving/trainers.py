"""Parse requests from trainers into cases: OpenRLHF's queries, NeMo Gym's responses."""

import re
from collections.abc import Mapping
from typing import Any

_SPECIAL = re.compile(
    r"(?:<\|[^<>|\s]{1,40}\|>|<｜[^<>｜\s]{1,40}｜>|</s>|<eos>|<pad>|<end_of_turn>|<turn\|>)\Z"
)
_LONGEST_SPECIAL = 44
_TAIL = 200
"""Characters of a prompt's end by which it is found in a query, blanks aside."""
_BEFORE = 1_000
"""Characters that a query may have before and inside its prompt, beyond twice the prompt's own."""


def response_of(query: str, prompt: str) -> str | None:
    """Return the response in a query of OpenRLHF, None where the prompt does not stand in it.

    The query is decoded from tokens: a token of its own may come before the prompt, blanks may differ, and
    the beginning of a long prompt may be cut off. Special tokens at the end are no part of the response.
    """
    if query.startswith(prompt):
        start = len(prompt)
    else:
        # Behind the prompt a response may be as long as it likes: it is not looked at.
        beginning = query[: 2 * len(prompt) + _BEFORE]
        places = [place for place, char in enumerate(beginning) if not char.isspace()]
        squeezed = "".join(query[place] for place in places)
        tail = "".join(prompt.split())[-_TAIL:]
        at = squeezed.find(tail)
        if not tail or at < 0:
            return None
        start = places[at + len(tail) - 1] + 1
    return _without_special(query[start:])


def _without_special(text: str) -> str:
    """Return a text without special tokens at its end and the blanks around them, in time linear in it."""
    end = len(text)
    while True:
        last = end
        while last and text[last - 1].isspace():
            last -= 1
        token = _SPECIAL.search(text, max(0, last - _LONGEST_SPECIAL), last)
        if token is None:
            return text if end == len(text) else text[:last]
        end = token.start()


def text_of(response: Mapping[str, Any]) -> str:
    """Return the text of the messages in a response of the Responses API; reasoning and calls are none."""
    return "".join(
        str(part.get("text") or "")
        for item in _dicts(response.get("output"))
        if item.get("type") == "message"
        for part in _dicts(item.get("content"))
        if part.get("type") == "output_text"
    )


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
