"""Files with one JSON object a line."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from service.errors import InputError


def read_objects(path: Path, like: str = "") -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a file with the numbers of their lines; blank lines are left out."""
    for number, line in read_lines(path):
        if line.strip():
            try:
                yield number, parse_object(line, like)
            except ValueError as error:
                raise InputError(f"{path}:{number}: {error}.") from error


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    r"""Yield each line with its number from 1, without the mark that some editors put before UTF-8.

    Only "\n" ends a line: JSON text may hold other separators as they are.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if number == 1 and line.startswith((b"\xff\xfe", b"\xfe\xff")):
                    raise InputError(f"{path}: the encoding is UTF-16. Convert it: iconv -f UTF-16 -t UTF-8.")
                yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error


def decode_line(line: bytes) -> str:
    """Return the text of a line.

    Raises:
        ValueError: it is not UTF-8; the message says where.
    """
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{line[error.start]:02x} at byte {error.start + 1} of the line"
        raise ValueError(f"not UTF-8: {byte}. Save the file as UTF-8") from error


def parse_object(line: bytes, like: str = "", loads: Callable[[str], Any] = json.loads) -> dict[str, Any]:
    """Return the JSON object in a line; `like` says what it should be.

    Raises:
        ValueError: it is none; the message says why.
    """
    try:
        value = loads(decode_line(line))
    except (json.JSONDecodeError, RecursionError) as error:
        place = f"{error.msg}, column {error.colno}" if isinstance(error, ValueError) else "nested too deeply"
        cut = "" if line.endswith(b"\n") else "; the last line is not terminated, so the file may be cut off"
        raise ValueError(f"not valid JSON ({place}){cut}") from error
    if not isinstance(value, dict):
        raise ValueError(f"not a JSON object{f' {like}' if like else ''}")
    return value
