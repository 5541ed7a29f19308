"""Characters that hide, reorder or pile up text are shown as visible codes."""

import unicodedata

MAX_MARKS = 4
"""Combining marks on one character; more of them would run over the lines above and below."""

_KEPT = frozenset("\n\t")
_JOINERS = frozenset("\u200c\u200d")  # of emoji and of scripts that need them


def visible(text: str) -> str:
    """Return the text with what cannot be seen made visible; ordinary text is returned as it is.

    Control characters become their pictures (␀), bidirectional overrides, invisible characters, private and
    unassigned ones `⟨U+202E⟩`, lone surrogates too. Line ends become \\n.
    """
    text = text.replace("\r\n", "\n")
    if text.isascii() and text.isprintable():
        return text
    shown: list[str] = []
    marks = 0
    for place, char in enumerate(text):
        if char.isascii() and (char.isprintable() or char in _KEPT):
            marks = 0
            shown.append(char)
            continue
        category = unicodedata.category(char)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if marks > MAX_MARKS or _hides(char, category, text, place):
            shown.append(_code(char))
        else:
            shown.append(char)
    return "".join(shown)


def _hides(char: str, category: str, text: str, place: int) -> bool:
    if char in _KEPT:
        return False
    if char in _JOINERS:
        around = text[place - 1 : place] + text[place + 1 : place + 2]
        return len(around) < 2 or any(one.isascii() for one in around)
    return category in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def _code(char: str) -> str:
    number = ord(char)
    if number < 0x20:
        return chr(0x2400 + number)
    return "␡" if number == 0x7F else f"⟨U+{number:04X}⟩"
