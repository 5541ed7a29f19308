"""Remove keys from texts that reach a log, the database or a person."""

import os
import re
from collections.abc import Iterable

BLOT = "[key removed]"

_SECRET_NAME = re.compile(r"(_KEY|APIKEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)
_named: set[str] = set()
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
    text = redact_values(text, secret_values())
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\1{BLOT}", text)
    return text


def secret_values() -> tuple[str, ...]:
    """Return the values of environment variables that hold keys."""
    return tuple(
        value
        for name, value in os.environ.items()
        if len(value) >= _SHORTEST and (name in _named or _SECRET_NAME.search(name))
    )


def name_secret(name: str) -> None:
    """Treat an environment variable as a key from now on, whatever its name is."""
    _named.add(name)


def redact_values(text: str, secrets: Iterable[str]) -> str:
    """Return `text` without these values; the rest does not change."""
    for secret in secrets:
        text = text.replace(secret, BLOT)
    return text
