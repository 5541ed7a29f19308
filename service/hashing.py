"""Content hashes: every id is `<tag>_<hex>` of the canonical form of what it names."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

_HALVES = re.compile("[\ud800-\udfff]")
ID_HEX_DIGITS = 24  # 96 bits: no collision below 10^13 rows


def canonical_json(value: Json) -> str:
    """Serialise to the one spelling that is hashed: sorted keys, no spaces, UTF-8, no NaN.

    Raises:
        ValueError: for NaN or infinite numbers, which have no canonical JSON.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def content_id(tag: str, value: Json) -> str:
    """Return `tag_` plus 24 hex digits of the SHA-256 of the tag and the canonical form of `value`.

    The tag is hashed too, so that a question and a candidate with the same text have different ids.
    """
    return f"{tag}_{content_hash(tag, value)[:ID_HEX_DIGITS]}"


def content_hash(tag: str, value: Json) -> str:
    """Return the full SHA-256 (64 hex digits) of the tag and the canonical form of `value`."""
    return hashlib.sha256(f"{tag}\0{canonical_json(value)}".encode()).hexdigest()


def derive_seed(tag: str, seed: int | None, *parts: str | int) -> int | None:
    """Return a seed of 31 bits that follows from another seed and what it is for; None without one."""
    return None if seed is None else int(content_hash(tag, [seed, *parts])[:8], 16) >> 1


def file_sha256(path: Path) -> str:
    """Return the SHA-256 (64 hex digits) of a file's bytes, which are not held at once."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def whole_characters(text: str) -> str:
    """Return `text` with U+FFFD for each half of a surrogate pair, which no file or database can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _HALVES.sub("\ufffd", text)
    return text


def canonical_text(text: str) -> str:
    """Return `text` as it is stored and hashed: NFC, `\\n` line ends, no blanks at line ends or around."""
    text = whole_characters(text)
    unified = unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n"))
    return "\n".join(line.rstrip() for line in unified.split("\n")).strip()
