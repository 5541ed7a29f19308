r"""Find formulas and code in mathematical text; formulas that KaTeX cannot draw safely become code.

This is a scanner instead of one regular expression: dollars also mean money, formulas contain text that
contains formulas, and the text may be hostile. Its work is bounded by the text's length.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal

Kind = Literal["text", "inline", "display", "code"]

MAX_FORMULA = 4000
"""Maximum characters of a formula; longer ones are shown as code."""

MAX_DEPTH = 40
"""Maximum nesting of braces in a formula."""

MAX_LENGTH = 30
"""Maximum length in a formula (`\\rule`, `\\kern`, ...), in any unit; larger ones are shown as code."""

_DISPLAY_ONLY = re.compile(r"(align|alignat|gather|equation|CD)\*?")
_ENVIRONMENTS = re.compile(
    _DISPLAY_ONLY.pattern + r"|([pbBvV]?|small)matrix\*?|(d?|sub)array\*?|[dr]?cases\*?|drcases\*?"
    r"|(aligned|alignedat|gathered|split)\*?"
)
_REFUSED = re.compile(
    r"\\(href|url|includegraphics|html|multicolumn|multirow|cline|input|[gex]?def|let|futurelet"
    r"|(new|renew|provide)command|char)|@\{|⟨U\+"
)
_LENGTHS = re.compile(r"\\rule|kern|skip|space|\\raisebox|\\above|\\genfrac|\\\\\[|\\cr\[")
_LENGTH = re.compile(r"(?<![\d.])([\d.]+)\s*(?:em|ex|mu|pt|bp|px|dd|sp|nd|nc|mm|pc|cc|cm|in)", re.ASCII)
_START = re.compile(r"\\\(|\\\[|\\begin\{|\\boxed\{|\\fbox\{|\\[\\$]|\$\$|\$|\[asy\]|^```", re.MULTILINE)
"""Where a formula or code may start; an escaped dollar or backslash is skipped."""

_CLOSING: dict[str, tuple[str, Kind]] = {
    r"\(": (r"\)", "inline"),
    r"\[": (r"\]", "display"),
    "$$": ("$$", "display"),
    "[asy]": ("[/asy]", "code"),
}


@dataclass(frozen=True)
class Piece:
    """A segment of text: its kind, its content (without delimiters), and its source."""

    kind: Kind
    content: str
    source: str


def pieces(text: str) -> list[Piece]:
    """Split text into plain text, formulas and code; the joined sources equal the text."""
    return list(_Scan(text).pieces())


def _checked(piece: Piece) -> Piece:
    """Turn a formula that cannot be drawn, or not safely, into code."""
    if piece.kind == "code":
        return piece
    if not drawable(piece.content):
        return Piece("code", piece.source, piece.source)
    if any(map(_DISPLAY_ONLY.fullmatch, _environments(piece.content))):
        return Piece("display", piece.content, piece.source)
    return piece


def drawable(formula: str) -> bool:
    """Say whether KaTeX can draw a formula safely: no links, no macros, no huge lengths."""
    depths = accumulate((char == "{") - (char == "}") for char in formula)
    if not formula.strip() or len(formula) > MAX_FORMULA or max(map(abs, depths)) > MAX_DEPTH:
        return False
    if any(not char.isprintable() and char not in "\n\t" for char in formula) or _REFUSED.search(formula):
        return False
    if not all(map(_ENVIRONMENTS.fullmatch, _environments(formula))):
        return False
    sizes = _LENGTH.findall(formula) if _LENGTHS.search(formula) else []
    return all(size.count(".") < 2 and float(f"0{size}") <= MAX_LENGTH for size in sizes)


def _environments(formula: str) -> list[str]:
    return re.findall(r"\\begin\{([^}]*)", formula)


class _Scan:
    """A text, and the remaining budget for looking ahead in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.left = 20 * len(text) + 1000

    def pieces(self) -> Iterator[Piece]:
        plain = at = 0
        while start := _START.search(self.text, at):
            formula = self._formula(start.group(), start.start(), start.end())
            at = start.end() if start.group() in ("$$", r"\\", r"\$") else start.start() + 1
            if formula is not None:
                kind, content, at = formula
                if plain < start.start():
                    yield Piece("text", *[self.text[plain : start.start()]] * 2)
                yield _checked(Piece(kind, content, self.text[start.start() : at]))
                plain = at
        if plain < len(self.text):
            yield Piece("text", *[self.text[plain:]] * 2)

    def _formula(self, opening: str, start: int, inside: int) -> tuple[Kind, str, int] | None:
        """Return kind, content and end of what starts here; None for plain text."""
        if opening == "$":
            end = self._dollar_end(inside)
            content = self.text[inside:end]
            if end is None or not _is_formula(content, self.text[end + 1 : end + 2]):
                return None
            return "inline", content, end + 1
        if opening in _CLOSING:
            closing, kind = _CLOSING[opening]
            end = self._find(closing, inside, len(self.text) if kind == "code" else MAX_FORMULA * 4)
            if end is None:
                return None
            after = end + len(closing)
            content = self.text[start:after] if kind == "code" else self.text[inside:end]
            return (kind, content, after) if content.strip() else None
        if opening == "```":
            first = self._find("\n", inside)
            end = None if first is None else self._find("\n```", first)
            return None if first is None or end is None else ("code", self.text[first + 1 : end], end + 4)
        if opening == r"\begin{":
            end = self._environment_end(inside)
            return None if end is None else ("display", self.text[start:end], end)
        if opening in (r"\boxed{", r"\fbox{"):
            end = self._brace_end(inside - 1)
            return None if end is None else ("inline", self.text[start:end], end)
        return None

    def _dollar_end(self, at: int) -> int | None:
        """Return the position of the closing dollar: outside braces, before the paragraph ends."""
        depth = 0
        end = min(len(self.text), at + MAX_FORMULA)
        while at < end and self.left >= 0:
            self.left -= 1
            char = self.text[at]
            if char == "\\":
                at += 2
                continue
            if char == "$" and depth <= 0:
                return at
            if char == "\n" and self.text[at + 1 : at + 2] in ("\n", ""):
                return None
            depth += (char == "{") - (char == "}")
            at += 1
        return None

    def _environment_end(self, inside: int) -> int | None:
        close = self.text.find("}", inside, inside + 33)
        if close < 0:
            return None
        name = self.text[inside:close]
        begin, finish = f"\\begin{{{name}}}", f"\\end{{{name}}}"
        depth, at = 1, close + 1
        while depth:
            end = self._find(finish, at)
            if end is None:
                return None
            inner = self.text.find(begin, at, end)
            depth, at = (depth + 1, inner + len(begin)) if inner >= 0 else (depth - 1, end + len(finish))
        return at

    def _brace_end(self, at: int) -> int | None:
        depth = 0
        for place in range(at, min(len(self.text), at + MAX_FORMULA)):
            self.left -= 1
            if self.left < 0:
                return None
            char = self.text[place]
            depth += (char == "{") - (char == "}")
            if depth == 0:
                return place + 1
        return None

    def _find(self, what: str, at: int, limit: int = MAX_FORMULA * 4) -> int | None:
        if self.left < 0:
            return None
        place = self.text.find(what, at, at + limit)
        self.left -= (place - at if place >= 0 else min(limit, len(self.text) - at)) // 16 + 1
        return None if place < 0 else place


def _is_formula(content: str, after: str) -> bool:
    """Distinguish a formula between dollars from text between two amounts of money."""
    if not content.strip():
        return False
    if any(char in content for char in "\\^_={}"):
        return True
    if after.isdigit() or content[-1:].isspace() != content[:1].isspace():
        return False
    plain = [word.strip(".,;:!?()") for word in content.split()]
    prose = [word.isalpha() and len(word) > 1 for word in plain]  # two such words in a row
    return not any(first and second for first, second in pairwise(prose))
