"""Files with one JSON object a line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from service.errors import InputError

_MARK = b"\xef\xbb\xbf"  # which some editors put before UTF-8


def read_objects(path: Path, like: str = "") -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a file with the numbers of their lines; blank lines are left out.

    Only "\\n" ends a line: JSON text may hold other separators as they are.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if number == 1:
                    line = line.removeprefix(_MARK)
                if line.strip():
                    yield number, _read_object(line, f"{path}:{number}", like)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error


def _read_object(line: bytes, place: str, like: str) -> dict[str, Any]:
    try:
        row = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(
            f"{place}: byte {error.start + 1} is not valid UTF-8. Save the file as UTF-8."
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{place}: not JSON ({error}). Each line must be one JSON object; the file may be cut off."
        ) from error
    if not isinstance(row, dict):
        raise InputError(f"{place}: not a JSON object{f' {like}' if like else ''}.")
    return row
