"""Find formulas and code in mathematical text; formulas that KaTeX cannot draw safely become code.

This is a scanner instead of a regular expression: dollars also mean money, formulas contain text that
contains formulas, and the text may be hostile. Its work is bounded by the text's length.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Kind = Literal["text", "inline", "display", "code"]

MAX_FORMULA = 4000
"""Maximum characters of a formula; longer ones are shown as code."""

MAX_DEPTH = 40
"""Maximum nesting of braces in a formula."""

MAX_EM = 30.0
"""Maximum length in a formula (`\\rule`, `\\kern`, ...), in em; larger ones are shown as code."""

_PLAIN_ENVIRONMENTS = (
    *("matrix", "pmatrix", "bmatrix", "Bmatrix", "vmatrix", "Vmatrix", "smallmatrix", "array", "darray"),
    *("subarray", "cases", "dcases", "rcases", "drcases", "aligned", "alignedat", "gathered", "split"),
)
_DISPLAY_ENVIRONMENTS = ("align", "alignat", "gather", "equation", "CD")
_ENVIRONMENTS = frozenset(
    f"{name}{star}" for name in (*_PLAIN_ENVIRONMENTS, *_DISPLAY_ENVIRONMENTS) for star in ("", "*")
)
_DISPLAY_ONLY = frozenset(f"{name}{star}" for name in _DISPLAY_ENVIRONMENTS for star in ("", "*"))
_REFUSED = (
    "\\href",
    "\\url",
    "\\includegraphics",
    "\\html",
    "\\multicolumn",
    "\\multirow",
    "\\cline",
    "\\input",
    "\\def",
    "\\gdef",
    "\\edef",
    "\\xdef",
    "\\let",
    "\\futurelet",
    "\\newcommand",
    "\\renewcommand",
    "\\providecommand",
    "\\char",
    "@{",
)
_LENGTHS = ("\\rule", "kern", "skip", "space", "\\raisebox", "\\above", "\\genfrac", "\\\\[", "\\cr[")
_EM_OF = {"em": 1.0, "ex": 0.45, "mu": 1 / 18, "pt": 0.1, "bp": 0.1, "px": 0.1, "dd": 0.107, "sp": 1e-5} | {
    "nd": 0.107,
    "nc": 1.28,
    "mm": 0.285,
    "pc": 1.2,
    "cc": 1.28,
    "cm": 2.85,
    "in": 7.2,
}


@dataclass(frozen=True)
class Piece:
    """A segment of text: its kind, its content (without delimiters), and its source."""

    kind: Kind
    content: str
    source: str


def pieces(text: str) -> list[Piece]:
    """Split text into plain text, formulas and code; the joined sources equal the text."""
    scanned: list[Piece] = []
    plain = 0
    scan = _Scan(text)
    while scan.at < len(text):
        start = scan.at
        piece = scan.piece()
        if piece is None:
            scan.at = max(scan.at, start + 1)
            continue
        if plain < start:
            scanned.append(_plain(text[plain:start]))
        scanned.append(_checked(piece))
        plain = scan.at
    if plain < len(text):
        scanned.append(_plain(text[plain:]))
    return scanned


def _plain(source: str) -> Piece:
    return Piece("text", source, source)


def _checked(piece: Piece) -> Piece:
    """Turn a formula that cannot be drawn, or not safely, into code."""
    if piece.kind == "code":
        return piece
    if not drawable(piece.content):
        return Piece("code", piece.source, piece.source)
    if any(name in _DISPLAY_ONLY for name in _environments(piece.content)):
        return Piece("display", piece.content, piece.source)
    return piece


def drawable(formula: str) -> bool:
    """Say whether KaTeX can draw a formula safely: no links, no macros, no huge lengths."""
    if not formula.strip() or len(formula) > MAX_FORMULA or _depth(formula) > MAX_DEPTH:
        return False
    if any(not char.isprintable() and char not in "\n\t" for char in formula) or "⟨U+" in formula:
        return False
    if any(refused in formula for refused in _REFUSED):
        return False
    if any(name not in _ENVIRONMENTS for name in _environments(formula)):
        return False
    return not any(name in formula for name in _LENGTHS) or _longest(formula) <= MAX_EM


def _environments(formula: str) -> Iterator[str]:
    at = formula.find("\\begin{")
    while at >= 0:
        end = formula.find("}", at)
        if end < 0:
            yield ""
            return
        yield formula[at + 7 : end]
        at = formula.find("\\begin{", end)


def _depth(formula: str) -> int:
    depth = deepest = 0
    for char in formula:
        depth += (char == "{") - (char == "}")
        deepest = max(deepest, abs(depth))
    return deepest


def _longest(formula: str) -> float:
    """Return the largest length that a formula names, in em."""
    longest, at = 0.0, 0
    while at < len(formula):
        if formula[at] not in "0123456789.":
            at += 1
            continue
        start = at
        while at < len(formula) and formula[at] in "0123456789.":
            at += 1
        unit = formula[at : at + 8].lstrip()[:2]
        if unit in _EM_OF:
            longest = max(longest, _number(formula[start:at]) * _EM_OF[unit])
    return longest


def _number(digits: str) -> float:
    try:
        return float(digits)
    except ValueError:  # 1.2.3
        return float("inf")


class _Scan:
    """A position in a text, and the remaining budget for looking ahead."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._left = 20 * len(text) + 1000

    def piece(self) -> Piece | None:
        """Return the segment that starts here and move past it; None for plain text."""
        char = self.text[self.at]
        if char == "\\":
            return self._command()
        if char == "$":
            return self._dollar()
        if char == "[" and self.text.startswith("[asy]", self.at):
            return self._until("[/asy]", 5, "code", limit=len(self.text), whole=True)
        if char == "`" and self.text.startswith("```", self.at) and self._line_starts():
            return self._fence()
        return None

    def _command(self) -> Piece | None:
        if self.text.startswith("\\(", self.at):
            return self._until("\\)", 2, "inline")
        if self.text.startswith("\\[", self.at):
            return self._until("\\]", 2, "display")
        if self.text.startswith("\\begin{", self.at):
            return self._environment()
        if self.text.startswith(("\\boxed{", "\\fbox{"), self.at):
            end = self._brace_end(self.text.index("{", self.at))
            return None if end is None else self._take(end, "inline", self.text[self.at : end])
        self.at += 2 if self.text[self.at + 1 : self.at + 2] in ("\\", "$") else 1
        return None

    def _dollar(self) -> Piece | None:
        if self.text.startswith("$$", self.at):
            piece = self._until("$$", 2, "display")
            if piece is None:
                self.at += 2
            return piece
        end = self._dollar_end()
        if end is None:
            return None
        content = self.text[self.at + 1 : end]
        if not _is_formula(content, self.text[end + 1 : end + 2]):
            return None
        return self._take(end + 1, "inline", content)

    def _dollar_end(self) -> int | None:
        """Return the position of the closing dollar: outside braces, before the paragraph ends."""
        depth, at = 0, self.at + 1
        end = min(len(self.text), at + MAX_FORMULA)
        while at < end:
            self._left -= 1
            if self._left < 0:
                return None
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

    def _environment(self) -> Piece | None:
        close = self.text.find("}", self.at, self.at + 40)
        if close < 0:
            return None
        name = self.text[self.at + 7 : close]
        begin, finish = f"\\begin{{{name}}}", f"\\end{{{name}}}"
        depth, at = 1, close + 1
        while depth:
            end = self._find(finish, at)
            if end is None:
                return None
            inner = self.text.find(begin, at, end)
            if inner >= 0:
                depth, at = depth + 1, inner + len(begin)
            else:
                depth, at = depth - 1, end + len(finish)
        content = self.text[self.at : at]
        return self._take(at, "display", content)

    def _brace_end(self, at: int) -> int | None:
        depth = 0
        for place in range(at, min(len(self.text), at + MAX_FORMULA)):
            self._left -= 1
            if self._left < 0:
                return None
            char = self.text[place]
            depth += (char == "{") - (char == "}")
            if depth == 0:
                return place + 1
        return None

    def _fence(self) -> Piece | None:
        line_end = self._find("\n", self.at)
        if line_end is None:
            return None
        end = self._find("\n```", line_end)
        if end is None:
            return None
        content = self.text[line_end + 1 : end]
        return self._take(end + 4, "code", content)

    def _line_starts(self) -> bool:
        return self.at == 0 or self.text[self.at - 1] == "\n"

    def _until(
        self, close: str, skip: int, kind: Kind, *, limit: int = MAX_FORMULA * 4, whole: bool = False
    ) -> Piece | None:
        end = self._find(close, self.at + skip, limit)
        if end is None:
            return None
        after = end + len(close)
        content = self.text[self.at : after] if whole else self.text[self.at + skip : end]
        return self._take(after, kind, content) if content.strip() else None

    def _find(self, what: str, at: int, limit: int = MAX_FORMULA * 4) -> int | None:
        if self._left < 0:
            return None
        place = self.text.find(what, at, at + limit)
        self._left -= (place - at if place >= 0 else min(limit, len(self.text) - at)) // 16 + 1
        return None if place < 0 else place

    def _take(self, end: int, kind: Kind, content: str) -> Piece:
        source = self.text[self.at : end]
        self.at = end
        return Piece(kind, content, source)


def _is_formula(content: str, after: str) -> bool:
    """Distinguish a formula between dollars from text between two amounts of money."""
    if not content.strip():
        return False
    signs = any(char in content for char in "\\^_={}")
    if signs:
        return True
    if after.isdigit() or content[-1:].isspace() != content[:1].isspace():
        return False
    return not _has_prose(content)


def _has_prose(content: str) -> bool:
    """Say whether two consecutive words have two letters or more."""
    words = [word.strip(".,;:!?()").isalpha() and len(word.strip(".,;:!?()")) > 1 for word in content.split()]
    return any(first and second for first, second in pairwise(words))
