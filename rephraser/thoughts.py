"""Cuts away what a model thought before its reply, also where nothing opened the thought."""

import re

_OPENED = re.compile(r"<think(?:ing)?>|\[think\]", re.I)
_CLOSED = re.compile(r"</think(?:ing)?>|\[/think\]", re.I)


def after_thoughts(text: str) -> str | None:
    """Return what follows the last thought; None where the text ends inside of one."""
    end = max((match.end() for match in _CLOSED.finditer(text)), default=0)
    reply = text[end:]
    return None if _OPENED.search(reply) else reply
