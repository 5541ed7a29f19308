"""The request for candidates: strategy, question, number of candidates, and reply format."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rephraser.proposing.strategies import Strategy

RESPONSE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"rephrasings": {"type": "array", "items": {"type": "string"}, "minItems": 1}},
    "required": ["rephrasings"],
    "additionalProperties": False,
}

REQUEST_VERSION = "2"
"""Stored with a run. Raise it if the requests change: a run that began with others is not resumed."""

_AVOID = "Keep clearly away from these earlier rewrites:"
_FAILED = (
    "Keep clearly away from these earlier rewrites. Below some of them stands what was wrong; make none of "
    "these mistakes again:"
)
_ONE = "Write one rewrite of the problem below."
_MANY = (
    "Write {count} rewrites of the problem below that differ from each other in wording, format and order of "
    "information."
)
_JSON = (
    'Answer with a JSON object {{"rephrasings": [...]}} that holds {strings} and nothing else. Inside JSON '
    'every backslash of LaTeX is written twice, as in "\\\\frac".'
)
_IMAGES = (
    "Images belong to the problem: {images}. Whoever reads a rewrite sees them too, so put nothing of them "
    "into words. Write <image> where an image belongs, exactly {images} times in each rewrite, in the order "
    "of the problem."
)
_TAGS = "Put each rewrite between the tags <rephrasing> and </rephrasing> and write nothing outside the tags."


@dataclass(frozen=True)
class Earlier:
    """An earlier candidate, and in one line what was wrong with it; None: nothing, or nothing known."""

    text: str
    reason: str | None = None


def build_messages(
    strategy: Strategy,
    question: str,
    count: int,
    *,
    avoid: Sequence[Earlier] = (),
    structured: bool,
    images: int = 0,
) -> tuple[dict[str, str], ...]:
    """Return the chat messages that ask for `count` candidates of one question.

    `avoid` are earlier candidates, which the new ones must differ from. With `structured` the model answers
    in JSON (`RESPONSE_SCHEMA`); without, in tags, which need no escaping of LaTeX's backslashes. The images
    of the question stand in the problem, which is the last part of the messages.
    """
    many = count > 1
    lines = [_MANY.format(count=count) if many else _ONE]
    if avoid:
        lines.append(_FAILED if any(earlier.reason for earlier in avoid) else _AVOID)
        lines += [
            f"<earlier>\n{earlier.text}\n</earlier>"
            + (f"\nWrong: {earlier.reason}" if earlier.reason else "")
            for earlier in avoid
        ]
    if structured:
        lines.append(_JSON.format(strings=f"exactly {count} strings" if many else "exactly one string"))
    else:
        lines.append(_TAGS)
    if images:
        lines.append(_IMAGES.format(images=images))
    lines.append(f"<problem>\n{question}\n</problem>")
    return (
        {"role": "system", "content": strategy.text},
        {"role": "user", "content": "\n\n".join(lines)},
    )
