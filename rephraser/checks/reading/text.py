"""A question taken apart: figure code, formulas, and the prose between them.

The dollar sign is the difficulty. In `$x+1$` it delimits a formula, in `costs $5 and $7` it is money; both
kinds occur in one text. A pair of dollars is taken as money when it starts like a price and what stands
between reads like prose.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from rephraser.checks.reading.latex import Token, tokenize

_FIGURE = re.compile(
    r"\[asy\].*?(?:\[/asy\]|\Z)|\\begin\{(tikzpicture|asy)\}.*?(?:\\end\{\1\}|\Z)", re.DOTALL | re.IGNORECASE
)
_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_PLAIN = str.maketrans(
    {
        "−": "-", "–": "-", "—": " - ", "‐": "-", "‑": "-", "‘": "'", "’": "'", "“": '"', "”": '"',
        "\u00a0": " ", "\u202f": " ", "\u2009": " ", "×": "\\times ", "·": "\\cdot ", "÷": "\\div ",
        "≤": "\\leq ", "≥": "\\geq ", "≠": "\\neq ", "π": "\\pi ", "√": "\\sqrt ", "°": "^\\circ ",
        "∠": "\\angle ", "θ": "\\theta ", "α": "\\alpha ", "β": "\\beta ", "∞": "\\infty ", "±": "\\pm ",
        "½": " 1/2 ", "⅓": " 1/3 ", "⅔": " 2/3 ", "¼": " 1/4 ", "¾": " 3/4 ", "⅛": " 1/8 ", "…": "...",
        **{c: f"^{i}" for i, c in enumerate(_SUPERSCRIPTS)},
    }
)  # fmt: skip
_DELIMITER = re.compile(
    r"\\\$|\$\$|\$|\\\(|\\\[|\\begin\{(?:align|equation|gather|eqnarray|multline|alignat)\*?\}", re.IGNORECASE
)
_PRICE = re.compile(r"\d[\d,]*(?:\.\d+)?(?:[\s.,;:!?/]|-[A-Za-z]{3}|-?$)")
_WORD_IN_MATH = re.compile(r"(?:^|(?<=[\s,.;?!]))[A-Z]?[a-z']{2,}(?=[\s,.;?!]|$)")
_TEXT_COMMAND = re.compile(r"\\(?:text|mbox|textbf|textit|textrm|mathrm|operatorname|hbox)\s*\{[^{}]*\}")
_TEXT_CONTENT = re.compile(r"\\(?:text|mbox|textrm|textit|hbox)\s*\{([^{}]*)\}")
_LONGEST_FORMULA = 4000

CURRENCY = "¤"
FORMULA_MARK = "§"


@dataclass(frozen=True)
class Segment:
    """A stretch of a question: a formula without its delimiters, or prose."""

    is_formula: bool
    text: str


@dataclass(frozen=True)
class Question:
    """A question (or candidate) taken apart once and used by all checks.

    `figures` are the blocks of figure code in order, `segments` the rest in order.
    """

    raw: str
    figures: tuple[str, ...]
    segments: tuple[Segment, ...]

    @cached_property
    def prose(self) -> str:
        """The prose with every formula replaced by a mark; words inside formulas (`\\text{...}`) are kept."""
        parts: list[str] = []
        for segment in self.segments:
            if segment.is_formula:
                words = " ".join(_TEXT_CONTENT.findall(segment.text))
                parts.append(f" {FORMULA_MARK} {words} " if words else f" {FORMULA_MARK} ")
            else:
                parts.append(segment.text)
        return _strip_markup("".join(parts))

    @cached_property
    def reading(self) -> str:
        """The prose with short formulas such as `$x$` and `$40\\%$` written out, for word patterns."""
        parts = [_read(segment.text) if segment.is_formula else segment.text for segment in self.segments]
        return " ".join(_strip_markup("".join(parts)).lower().split())

    @cached_property
    def formulas(self) -> tuple[tuple[Token, ...], ...]:
        """The normalised tokens of every formula between delimiters."""
        return tuple(tokenize(segment.text) for segment in self.segments if segment.is_formula)


@lru_cache(maxsize=64)
def take_apart(text: str) -> Question:
    """Split a question into figure code, formulas and prose. Any text is accepted."""
    plain = text.translate(_PLAIN)
    figures = tuple(match.group(0) for match in _FIGURE.finditer(text))
    return Question(text, figures, tuple(_segments(_FIGURE.sub(" ", plain))))


def _segments(text: str) -> list[Segment]:
    segments: list[Segment] = []
    prose: list[str] = []

    def flush() -> None:
        joined = "".join(prose)
        if joined:
            segments.append(Segment(False, joined))
        prose.clear()

    position = 0
    while (match := _DELIMITER.search(text, position)) is not None:
        prose.append(text[position : match.start()])
        position = match.end()
        opening = match.group(0)
        if opening == "\\$":
            prose.append(CURRENCY)
            continue
        closing = _closing(opening)
        end = _find_closing(text, closing, position)
        content = text[position:end] if end >= 0 else ""
        if end < 0 or (closing == "$" and _is_money(content, text[end + 1 : end + 2])):
            prose.append(CURRENCY if opening.startswith("$") else " ")
            continue
        flush()
        segments.append(Segment(True, content))
        position = end + len(closing)
    prose.append(text[position:])
    flush()
    return segments


def _closing(opening: str) -> str:
    if opening.startswith("\\begin"):
        return "\\end" + opening[len("\\begin") :]
    return {"$": "$", "$$": "$$", "\\(": "\\)", "\\[": "\\]"}[opening]


def _find_closing(text: str, closing: str, start: int) -> int:
    limit = start + _LONGEST_FORMULA
    position = start
    while True:
        position = text.find(closing, position, limit)
        if position <= 0 or text[position - 1] != "\\" or closing[0] == "\\":
            return position
        if position >= 2 and text[position - 2] == "\\":
            return position
        position += 1


def _is_money(content: str, following: str) -> bool:
    if not content.strip():
        return True
    without_text = _TEXT_COMMAND.sub("", content)
    words = _WORD_IN_MATH.findall(without_text)
    price = _PRICE.match(content) is not None and not set(content) & set("=^_\\+<>")
    if price and (words or (following.isdigit() and not content[-1].isalnum())):
        return True
    # '$xy + xz + yz$' has three "words" too, but an operator.
    return len(words) >= 3 and not set(without_text) & set("\\=^_+<>")


def _read(formula: str) -> str:
    text = formula.replace("\\$", CURRENCY).replace("\\%", "%").replace("{,}", ",").replace("\\!", "")
    text = _TEXT_CONTENT.sub(r" \1 ", text)
    text = re.sub(r"\^\s*\{?\s*\\circ\s*\}?", " degrees ", text)
    compact = text.strip()
    if len(compact) <= 12 and re.fullmatch(r"[\w\s.,%¤'/:-]+", compact):
        return f" {compact} ".replace(" -", " -")
    return f" {FORMULA_MARK}{_trailing(compact)} "


def _trailing(formula: str) -> str:
    return formula[-1] if formula and formula[-1] in "?.," else ""


def _strip_markup(text: str) -> str:
    text = re.sub(r"\\(?:textbf|textit|emph|underline|text|mbox)\s*\{([^{}]{0,400})\}", r"\1", text)
    text = re.sub(r"\^\s*\{?\\circ\}?", " degrees ", text)
    text = text.replace("\\%", "%").replace("\\&", "&").replace("**", " ").replace("\\ ", " ")
    return re.sub(r"\\q?quad\b|\\[,;:!]|\\\\|~", " ", text)
