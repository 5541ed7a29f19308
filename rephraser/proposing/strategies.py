"""Strategies: the versioned, hashed instructions that make a candidate out of a question."""

import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from service.errors import InputError
from service.hashing import content_hash

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
