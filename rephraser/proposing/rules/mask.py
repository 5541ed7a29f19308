"""Hide formulas, figure code and money behind single private characters, so that no rule can touch them."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_CHARS = 20_000
INLINE, DISPLAY, BLOCK = "\ue000-\uefff", "\uf000-\uf4ff", "\uf500-\uf8fe"
BREAK = "\uf8ff"  # an empty line between paragraphs
FORMULA = f"[{INLINE}{DISPLAY}]"

_OPAQUE = re.compile(
    r"(?P<asy>\[asy\].*?\[/asy\])"
    r"|(?P<env>\\begin\{(?P<name>[A-Za-z]+\*?)\}.*?\\end\{(?P=name)\})"
    r"|(?P<display>\\\[.*?\\\]|(?<!\\)\$\$.*?(?<!\\)\$\$)"
    r"|(?P<inline>\\\(.*?\\\)|(?<!\\)\$(?:\\.|[^$\\])+\$)"
    r"|(?P<money>\\\$ ?\d+(?:,\d{3})*(?:\.\d+)?)"
    r"|(?P<command>\\[A-Za-z]+\{[^{}]*\})",
    re.S,
)
_STARTS = {
    "asy": 0xF500,
    "env": 0xF500,
    "display": 0xF000,
    "inline": 0xE000,
    "money": 0xE000,
    "command": 0xE000,
}
_LIMITS = {0xE000: 0x1000, 0xF000: 0x500, 0xF500: 0x3FE}
# Punctuation of the sentence that stands inside the dollars; `\right.` and `\,` are not punctuation.
_TAIL = re.compile(r"(?<![\\=\s.])(?<!\\right)(?<!\\left)\s*([.,;?])\s*$")


@dataclass(frozen=True)
class Masked:
    """Text with one private character per hidden piece, and the pieces by that character."""

    text: str
    pieces: dict[str, str]
    own_line: frozenset[str]

    def formula(self, char: str) -> str:
        """The inside of the formula hidden behind `char`, without its delimiters."""
        raw = self.pieces[char]
        return raw[2:-2] if raw.startswith(("\\[", "\\(", "$$")) else raw.strip("$")


def mask(question: str) -> Masked | None:
    """Hide every formula, figure, table and amount of money; None where the text cannot be read safely.

    Sentence punctuation at the end of a formula ("$x = 3.$") is moved behind its character, so that rules
    see it; `unmask` puts it back inside displays and behind inline formulas.
    """
    if len(question) > MAX_CHARS or re.search("[\ue000-\uf8ff\x00]", question):
        return None
    pieces: dict[str, str] = {}
    own_line: set[str] = set()
    counts = dict.fromkeys(_LIMITS, 0)

    def hide(match: re.Match[str]) -> str:
        kind = next(name for name in _STARTS if match[name] is not None)
        start, raw, tail = _STARTS[kind], match[0], ""
        if kind in ("display", "inline"):
            width = 1 if raw.startswith("$") and not raw.startswith("$$") else 2
            inside = raw[width:-width]
            if mark := _TAIL.search(inside):
                tail = mark[1]
                raw = raw[:width] + inside[: mark.start()] + raw[-width:]
        char = chr(start + counts[start] % _LIMITS[start])
        counts[start] += 1
        pieces[char] = raw
        if kind in ("asy", "env", "display"):
            if "\n" in _around(question, match):
                own_line.add(char)
            return f" {char}{tail} "
        return char + tail

    text = _OPAQUE.sub(hide, question)
    if any(counts[start] > limit for start, limit in _LIMITS.items()):
        return None
    if re.search(r"(?<!\\)\$|\\\[|\\\]|\\begin|\\end|\[/?asy\]", text):
        return None
    text = re.sub(r"\n[ \t]*\n\s*", f" {BREAK} ", text)
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(rf"([{DISPLAY}]) ([.,;?!])", r"\1\2", text)
    text = re.sub(rf"([{INLINE}{DISPLAY}][.,;?])[.,](?= |$)", r"\1", text)
    return Masked(text, pieces, frozenset(own_line))


def unmask(text: str, masked: Masked) -> str:
    """Put the hidden pieces back."""

    def lines(match: re.Match[str]) -> str:
        char = match[2]
        if char not in masked.own_line:
            return match[0]
        return ("\n" if match[1] else "") + char + match[3] + ("\n" if match[4] else "")

    def show(match: re.Match[str]) -> str:
        char, tail = match[1], match[2]
        raw = masked.pieces[char]
        if raw.startswith(("\\[", "$$")):
            raw, tail = raw[:-2] + tail + raw[-2:], ""
        return raw + tail

    text = re.sub(r"( ?)([\ue000-\uf8fe])([.,;?]?)( ?)", lines, text)
    text = re.sub(rf"[ \n]*{BREAK}[ \n]*", "\n\n", text)
    text = re.sub(r" *\n *", "\n", text).strip()
    return re.sub(r"([\ue000-\uf8fe])([.,;?]?)", show, text)


def _around(text: str, match: re.Match[str]) -> str:
    return text[max(0, match.start() - 2) : match.start()] + text[match.end() : match.end() + 2]
