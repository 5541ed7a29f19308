"""Display of untrusted text: `safe_md` for Markdown with formulas, `show_text` for literal text.

Model output, imported questions and names are data: nothing in them may become an image, a link, HTML, an
icon or a heading. Pages pass them to Streamlit only through this file.
"""

import re
from functools import lru_cache
from typing import Literal

import streamlit as st

from ui.characters import visible
from ui.pages.text.formulas import Piece, pieces

CUT_AT = 3000
"""Characters shown before "Show all"."""

MARKDOWN_MAX = 20_000
"""Maximum characters with formulas; longer texts are shown as plain text (100 kB take seconds)."""

LOOKED_AHEAD = 4_000
"""Characters after a cut in which the end of a formula is searched."""

TEXT_MAX = 2_000_000
"""Maximum characters shown as plain text, even with "Show all"."""

_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_BREAK = "\u2060"  # word joiner: no width, no line break
_NAME = re.compile(r"[a-zA-Z0-9_+-][a-zA-Z0-9_+/-]{0,58}:")
"""A name that ends in a colon, as for emoji and icons."""

_ARROWS = ("<-", "->", "--", ">=", "<=", "~=")
_NBSP = "\u00a0"
MAX_INDENT = 40


def escaped(text: str) -> str:
    """Return one line of Markdown that shows exactly this text: for labels, names and table cells.

    In addition to escaping, a zero-width joiner breaks patterns that Streamlit would still replace: `:name:`
    (emoji, icons), `->`, and addresses that become links.
    """
    return _escape(" ".join(visible(text).split()))


def with_commands(text: str) -> str:
    """Return our own text as one line of Markdown, in which text in backticks is code."""
    parts = " ".join(visible(text).split()).split("`")
    if len(parts) % 2 == 0:
        return _escape("`".join(parts))
    return "".join(
        _code(part, block=False) if place % 2 and part.strip() else _escape(part)
        for place, part in enumerate(parts)
    )


@lru_cache(maxsize=1024)
def safe_md(text: str) -> str:
    """Return text as Markdown with drawn formulas; everything else appears literally.

    Formulas (`$`, `$$`, `\\(`, `\\[`, bare environments, `\\boxed`) are rewritten for KaTeX, with more
    dollars around them than inside. `[asy]` figures, fenced code and formulas that KaTeX cannot draw become
    code. Line breaks are kept.
    """
    parts = pieces(visible(text))
    inline = [piece.kind == "inline" or (piece.kind == "code" and not _is_block(piece)) for piece in parts]
    return "".join(
        _markdown(
            piece, after=place > 0 and inline[place - 1], before=inline[place + 1 : place + 2] == [True]
        )
        for place, piece in enumerate(parts)
    ).strip("\n")


def show_math_text(text: str, key: str, *, cut_at: int = CUT_AT) -> None:
    """Show any text with its formulas; one longer than `cut_at` is cut until "Show all" is pressed."""
    part = text if len(text) <= cut_at or ask_for_all(text, key) else cut_text(text, cut_at)
    if len(part) > MARKDOWN_MAX:
        _plain(part)
    elif part.strip():
        st.markdown(safe_md(part))  # safe
    else:
        st.caption("(empty)" if not text else "(white space only)")


def show_text(text: str, key: str) -> None:
    """Show text literally, without formulas, for reading and copying; a long one is cut at first."""
    _plain(text if len(text) <= CUT_AT or ask_for_all(text, key) else text[:CUT_AT] + "…")


def _plain(text: str) -> None:
    if len(text) > TEXT_MAX:
        text = text[:TEXT_MAX]
        st.caption(f"The first {TEXT_MAX:,} characters.")
    if text:
        height: int | Literal["content"] = 480 if len(text) > CUT_AT else "content"
        st.code(visible(text), language=None, wrap_lines=True, height=height)
    else:
        st.caption("(empty)")


def ask_for_all(text: str, key: str) -> bool:
    return st.toggle(f"Show all {len(text):,} characters", key=f"all:{key}", value=False)


def cut_text(text: str, at: int) -> str:
    """Return the start of a text, cut at the last end of a word or formula before `at`."""
    kept: list[str] = []
    room = at
    for piece in pieces(text[: at + LOOKED_AHEAD]):
        if len(piece.source) > room:
            if piece.kind == "text" or not kept:
                kept.append(piece.source[:room].rsplit(" ", 1)[0])
            break
        kept.append(piece.source)
        room -= len(piece.source)
    return "".join(kept) + " …"


def _markdown(piece: Piece, *, after: bool, before: bool) -> str:
    if piece.kind == "text":
        return escaped_lines(piece.source, after_inline=after, before_inline=before)
    if piece.kind == "code":
        return _code(piece.content, block=_is_block(piece))
    formula = " ".join(piece.content.split())
    dollars = "$" * max(2, _longest_run(formula, "$") + 1)
    if piece.kind == "inline":
        return f"{dollars} {formula} {dollars}"
    return f"\n\n{dollars}\n{formula}\n{dollars}\n\n"


def _is_block(piece: Piece) -> bool:
    """Say whether code is on lines of its own: figures, fenced code, and anything of several lines."""
    return piece.source.startswith(("```", "[asy]")) or "\n" in piece.content or len(piece.content) > 200


def _code(content: str, *, block: bool) -> str:
    content = content.replace(":material/", f":{_BREAK}material/")
    ticks = _longest_run(content, "`") + 1
    if not block:
        fence = "`" * ticks
        return f"{fence} {content} {fence}"
    fence = "`" * max(3, ticks)
    return f"\n\n{fence}\n{content}\n{fence}\n\n"


def _longest_run(text: str, char: str) -> int:
    return max(map(len, re.findall(rf"{re.escape(char)}+", text)), default=0)


def escaped_lines(text: str, *, after_inline: bool = False, before_inline: bool = False) -> str:
    """Escape text of several lines: line breaks and indents stay, empty lines separate paragraphs.

    With a formula or marked text before or after it, an empty first or last line ends that line only.
    """
    lines = text.split("\n")
    parts: list[str] = []
    for place, line in enumerate(lines):
        body = line.lstrip(" \t")
        lead = line[: len(line) - len(body)]
        if not body:
            parts.append(" " if lead and len(lines) == 1 else "")
        elif place:
            parts.append(_NBSP * min(len(lead.expandtabs(4)), MAX_INDENT) + _escape(body))
        else:
            parts.append(" " * bool(lead) + _escape(body))
    filled = [bool(line.strip()) for line in parts]
    filled[0] |= after_inline
    filled[-1] |= before_inline
    joined = [parts[0]]
    for place in range(1, len(parts)):
        joined += ["\\\n" if filled[place - 1] and filled[place] else "\n", parts[place]]
    return "".join(joined)


def _escape(text: str) -> str:
    text = text.replace("\\$", "$").replace("\\%", "%")
    parts: list[str] = []
    for place, char in enumerate(text):
        if char in _PUNCTUATION:
            parts.append("\\" + char)
            if _parted(text, place, char):
                parts.append(_BREAK)
        else:
            parts.append(char)
            if char in "wW" and text[place - 2 : place + 2].lower() == "www.":
                parts.append(_BREAK)
    return "".join(parts)


def _parted(text: str, place: int, char: str) -> bool:
    following = text[place + 1 : place + 2]
    if char == ":":
        return text.startswith("//", place + 1) or _NAME.match(text, place + 1) is not None
    return char == "@" or char + following in _ARROWS
