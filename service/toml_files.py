"""TOML files that users write."""

import tomllib
from pathlib import Path
from typing import Any

from service.errors import InputError


def read_toml(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the text of a file and its content; an error names the file and the line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        return text, tomllib.loads(text)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: not valid TOML ({error}).") from error
