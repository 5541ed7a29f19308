"""The prompt of the proposer, which gets earlier candidates and why they failed, but never an answer."""

import textwrap
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row

from rephraser.proposing.strategies import Strategy
from service.asks.request import Message, message_with_images
from service.questions.images import Image

RESPONSE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"rephrasings": {"type": "array", "items": {"type": "string"}, "minItems": 1}},
    "required": ["rephrasings"],
    "additionalProperties": False,
}

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


Earlier = tuple[str, str | None]
"""An earlier candidate, and in one line what was wrong with it; None: nothing, or nothing known."""


def build_messages(
    strategy: Strategy,
    question: str,
    count: int,
    *,
    avoid: Sequence[Earlier] = (),
    structured: bool,
    images: Sequence[Image] = (),
) -> tuple[Message, Message]:
    """Return the system and user message that ask for `count` candidates of one question.

    The new ones must differ from those to `avoid`. With `structured` the model answers in JSON
    (`RESPONSE_SCHEMA`); without, in tags, which need no escaping of LaTeX's backslashes.
    """
    many = count > 1
    lines = [_MANY.format(count=count) if many else _ONE]
    if avoid:
        lines.append(_FAILED if any(reason for _, reason in avoid) else _AVOID)
    for text, reason in avoid:
        lines.append(f"<earlier>\n{text}\n</earlier>" + (f"\nWrong: {reason}" if reason else ""))
    strings = f"exactly {count} strings" if many else "exactly one string"
    lines.append(_JSON.format(strings=strings) if structured else _TAGS)
    if images:
        lines.append(_IMAGES.format(images=len(images)))
    lines.append(f"<problem>\n{question}\n</problem>")
    return Message("system", strategy.text), message_with_images("\n\n".join(lines), question, images)


REASON_LENGTH = 240  # characters
HINTS = 3

# Not which answers: the next rewrite would give them away, or be bent to them.
BY_ANSWERS = {
    "rejected": "its answers differ from those of the problem, so something in it changes the problem",
    "undecided": "its answers do not clearly match those of the problem, so it may not mean the same",
}
_BY_REVIEW = "a reader found that it is not the same problem"  # the reader's words may hold the answer
# The details of these would tell the answer once more, or number candidates that the proposer does not see.
_WITHOUT_DETAIL = {
    "answer_leaked": "it states the answer",
    "same_as_sibling": "it repeats another rewrite",
    "too_like_sibling": "its words are nearly those of another rewrite",
}


def failure_reason(candidate: Row[Any]) -> str | None:
    """Return in one line why a candidate (of `read_candidates`) failed; None for one that did not."""
    if candidate.status not in BY_ANSWERS:
        return None
    fatal: list[str] = []
    hints: list[str] = []
    for finding in (candidate.evidence or {}).get("findings", ()):
        detail = _WITHOUT_DETAIL.get(finding["name"], finding["detail"])
        (fatal if finding["severity"] == "fatal" else hints).append(detail)
    reason = _BY_REVIEW if candidate.reviewed else "; ".join(fatal) or BY_ANSWERS[candidate.status]
    if hints:
        reason += f". Check: {'; '.join(hints[:HINTS])}"
    return textwrap.shorten(reason, REASON_LENGTH, placeholder=" ...")
