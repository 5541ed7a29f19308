"""Show characters that hide, reorder or pile up text as visible codes."""

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

MAX_MARKS = 4
"""Maximum combining marks per character; more would overlap the lines above and below."""

_KEPT = frozenset("\n\t")
_JOINERS = frozenset("\u200c\u200d")  # required by emoji and some scripts


def visible(text: str) -> str:
    """Return the text with invisible characters made visible; ordinary text is unchanged.

    Control characters become their pictures (␀); bidirectional overrides, invisible, private and unassigned
    characters and lone surrogates become `⟨U+202E⟩`. Line ends become \\n.
    """
    return text if text.isascii() and text.isprintable() else "".join(_characters(text))


def one_line(text: str, most: int) -> str:
    """Return the text as `visible` does, on one line of limited length."""
    line = " ".join(visible(text[: most * 4]).split())
    return line if len(line) <= most else line[:most] + "…"


def visible_pieces(text: str, lengths: Sequence[int]) -> list[str]:
    """Return `visible(text)` in pieces that end where the text's pieces of these lengths end.

    The display of a character depends on its neighbors, so pieces cannot be made visible one by one.
    """
    characters = text if text.isascii() and text.isprintable() else list(_characters(text))
    ends = [0, *accumulate(lengths)]
    return ["".join(characters[start:end]) for start, end in pairwise(ends)]


def _characters(text: str) -> Iterator[str]:
    """Yield the display of each character."""
    marks = 0
    for place, char in enumerate(text):
        if char == "\r" and text[place + 1 : place + 2] == "\n":
            yield ""
            continue
        if char.isascii() and (char.isprintable() or char in _KEPT):
            marks = 0
            yield char
            continue
        category = unicodedata.category(char)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        yield _code(char) if marks > MAX_MARKS or _hides(char, category, text, place) else char


def _hides(char: str, category: str, text: str, place: int) -> bool:
    if char in _KEPT:
        return False
    if char in _JOINERS:
        around = text[place - 1 : place] + text[place + 1 : place + 2]
        return len(around) < 2 or any(neighbor.isascii() for neighbor in around)
    return category in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def _code(char: str) -> str:
    number = ord(char)
    if number < 0x20:
        return chr(0x2400 + number)
    return "␡" if number == 0x7F else f"⟨U+{number:04X}⟩"
