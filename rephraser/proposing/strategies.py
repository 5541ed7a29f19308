"""Strategies: the versioned, hashed instructions that make candidates out of a question, and their prompts.

The proposer gets earlier candidates and why they failed, but never an answer.
"""

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from service.asks.request import Message, message_with_images
from service.errors import InputError
from service.hashing import content_hash
from service.questions.images import Image

SHIPPED = ("perspectives", "paraphrase", "rename", "format", "programs")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_HEADER_LINE = re.compile(r"^[ \t]*(version|summary)[ \t]*:[ \t]*(.*?)[ \t]*$", re.M)
_HEADER = re.compile(r"(?:(?:[ \t]*(?:version|summary)[ \t]*:.*)?\n)+---\n")


@dataclass(frozen=True)
class Strategy:
    """An instruction. `hash` covers the text, so that a changed prompt is another strategy."""

    name: str
    version: str
    summary: str
    text: str

    @property
    def hash(self) -> str:
        """SHA-256 over the text, 16 hex digits."""
        return content_hash("strategy", {"text": self.text})[:16]


def load_strategy(reference: str) -> Strategy:
    """Return a shipped strategy by name, or one from a text file by path.

    A file is the instruction itself. It may begin with a header (`version: 2`, `summary: ...`) that ends with
    a line `---`.
    """
    if reference in SHIPPED:
        shipped = resources.files("rephraser.proposing").joinpath("prompts", f"{reference}.md")
        return _parse(reference, shipped.read_text(encoding="utf-8"), place=reference)
    path = Path(reference)
    if not path.is_file():
        raise InputError(f"{reference!r} is neither a built-in strategy ({', '.join(SHIPPED)}) nor a file.")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not valid UTF-8. Save the file as UTF-8.") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error
    control = _CONTROL.search(text)
    if control:
        line = text.count("\n", 0, control.start()) + 1
        raise InputError(f"{path}:{line}: contains the control character {control.group()!r}. Remove it.")
    return _parse(path.stem, text, place=str(path))


def _parse(name: str, text: str, *, place: str) -> Strategy:
    head = _HEADER.match(text)
    header = dict(_HEADER_LINE.findall(head[0])) if head else {}
    body = (text[head.end() :] if head else text).strip()
    if not body:
        raise InputError(f"{place}: the instruction is empty.")
    return Strategy(name, header.get("version", "1"), header.get("summary", "custom instruction"), body)


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


_REASON_LENGTH = 240  # characters
_HINTS = 3

# Not which answers: the next rewrite would give them away, or be bent to them.
_BY_ANSWERS = {
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


def failure_reason(
    status: str | None, findings: Sequence[Mapping[str, str]], *, reviewed: bool
) -> str | None:
    """Return in one line why a candidate of this status failed; None for one that did not."""
    if status not in _BY_ANSWERS:
        return None
    details: dict[bool, list[str]] = {True: [], False: []}
    for finding in findings:
        detail = _WITHOUT_DETAIL.get(finding["name"], finding["detail"])
        details[finding["severity"] == "fatal"].append(detail)
    reason = _BY_REVIEW if reviewed else "; ".join(details[True]) or _BY_ANSWERS[status]
    if hints := details[False]:
        reason += f". Check: {'; '.join(hints[:_HINTS])}"
    return textwrap.shorten(reason, _REASON_LENGTH, placeholder=" ...")
