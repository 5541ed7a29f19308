"""Remove keys from texts that reach a log, the database or a person."""

import os
import re

BLOT = "[key removed]"

_SECRET_NAME = re.compile(r"(_KEY|APIKEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)
key_variables: set[str] = set()
"""Environment variables that hold keys, whatever their names are."""
_SHORTEST = 6
"""Shorter values, as in TOKEN=1, would remove ordinary text."""
_PATTERNS = (
    re.compile(r"(?i)\b(bearer\s+)[\w.~+/=-]{4,}"),
    re.compile(r"(?i)\b(basic\s+)[\w+/=-]{16,}"),
    re.compile(r"(?i)(api[-_ ]?key(?: provided)?['\"]?\s*[:=]\s*['\"]?)(?!bearer\b|basic\b)[\w*.~+/=-]{4,}"),
    re.compile(r"()\b(?:sk|pk|rk|gsk|xai|hf|ghp)[-_][\w*-]{8,}"),
    re.compile(r"()\bAIza[\w-]{20,}"),
    re.compile(r"(://)[^/\s:@]+:[^/\s@]+(?=@)"),
)


def redact(text: str) -> str:
    """Return `text` without keys.

    Removes the values of environment variables that are named like keys, what follows Bearer or "API key:",
    words with a key's prefix (`sk-...`, `hf_...`), and passwords in addresses.
    """
    text = remove_secrets(text)
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\1{BLOT}", text)
    return text


def remove_secrets(text: str) -> str:
    """Return `text` without the values of environment variables that hold keys; the rest does not change."""
    for name in os.environ:
        is_key = name in key_variables or _SECRET_NAME.search(name)
        if is_key and len(value := os.environ[name]) >= _SHORTEST:
            text = text.replace(value, BLOT)
    return text
