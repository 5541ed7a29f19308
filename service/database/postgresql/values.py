"""Values that PostgreSQL cannot keep: the character 0, and halves of a surrogate pair, in JSON."""

import json
import re
from typing import Any

_UNTOLD = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
_HALVES = re.compile("[\0\ud800-\udfff]")


def to_json(value: Any) -> str:
    """Return JSON that PostgreSQL reads: such characters become U+FFFD; all else stays as it is."""
    text = json.dumps(value)
    return json.dumps(_mended(value)) if _UNTOLD.search(text) else text


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return _HALVES.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_mended(key): _mended(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_mended(each) for each in value]
    return value
