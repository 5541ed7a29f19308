"""Where commands write: nothing leaves here that hides, reorders or commands a terminal.

Texts of models, files and servers may hold terminal commands (a title set, a clipboard filled) and marks that
turn the reading direction around. What is printed passes through `visible`, JSON gets its own escapes.
"""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ui.characters import visible

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 10_000

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_HIDDEN = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Beside C0, which JSON escapes itself."""


@cache
def _safe_console() -> "type[Console]":
    """Return a console that writes control characters of its own only. Help does without rich: .1 s."""
    from rich.console import Console

    class SafeConsole(Console):
        def print(self, *objects: Any, **settings: Any) -> None:
            super().print(*(visible(each) if isinstance(each, str) else each for each in objects), **settings)

        def render(self, renderable: Any, options: Any = None) -> Any:
            for segment in super().render(renderable, options):
                yield segment if segment.control else segment._replace(text=visible(segment.text))

    return SafeConsole


def stdout() -> "Console":
    """Return a console on today's stdout (tests replace it), wide enough for tables when piped."""
    return _safe_console()(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)


def stderr() -> "Console":
    """Return a console on today's stderr."""
    return _safe_console()(stderr=True, highlight=False)


def write_line(line: str) -> None:
    """Write a line of another program to stderr, without its colours."""
    sys.stderr.write(visible(_COLOURS.sub("", line)) + "\n")
    sys.stderr.flush()


def write_json(value: Any) -> None:
    """Write a value to stdout, all ASCII where stdout is not UTF-8; a dataclass becomes an object."""
    unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(value, ensure_ascii=not unicode, indent=2, default=_plain)
    sys.stdout.write(_HIDDEN.sub(lambda hidden: f"\\u{ord(hidden[0]):04x}", text) + "\n")


def plain(value: Any) -> Any:
    """Return a value as JSON has it: mappings, lists, texts, numbers."""
    return json.loads(json.dumps(value, default=_plain))


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return dict(value) if isinstance(value, Mapping) else str(value)
