"""Word-by-word differences of a rephrasing: kept, dropped, added and moved words, numbers, formulas."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import groupby
from typing import Literal

import streamlit as st

from ui.characters import visible
from ui.pages.text.formulas import Kind, pieces
from ui.pages.text.markup import MARKDOWN_MAX, escaped_lines, safe_md, show_text

Change = Literal["kept", "dropped", "added", "moved"]

MIN_MOVED = 3
"""Minimum consecutive words that count as moved."""

LEGEND = ":green-background[added] :red-background[~~dropped~~] :blue-background[moved] **number**"
"""Legend of the marks, in Markdown."""

_LINE_END = "\\\n"
_MARKS = {"added": "green", "dropped": "red", "moved": "blue"}


@dataclass(frozen=True)
class Word:
    """A word with the white space that follows it, or a formula, or code."""

    text: str
    kind: Kind = "text"

    @property
    def same_as(self) -> tuple[Kind, str]:
        """Key by which two words are equal: in plain text, case and white space do not matter."""
        if self.kind == "text":
            return "text", self.text.strip().casefold()
        return "inline", "".join(self.text.split()).strip("$")

    @property
    def is_number(self) -> bool:
        return self.kind == "text" and any(char.isdigit() for char in self.text)


@dataclass(frozen=True)
class Stretch:
    change: Change
    words: tuple[Word, ...]


@dataclass(frozen=True)
class Difference:
    """Both texts with marked words: the original's are kept, dropped or moved, the other's added."""

    original: tuple[Stretch, ...]
    neighbor: tuple[Stretch, ...]


@lru_cache(maxsize=256)
def compare(original: str, neighbor: str) -> Difference:
    """Compare two texts by words; each formula or code span counts as one word.

    At least three consecutive words that were dropped in one place and added in another count as moved. A
    change of case is not a difference. Texts of more than 20,000 characters are compared as a whole, because
    a comparison by words would take seconds.
    """
    if max(len(original), len(neighbor)) > MARKDOWN_MAX:
        same = original == neighbor
        return Difference(
            (Stretch("kept" if same else "dropped", (Word(visible(original)),)),),
            (Stretch("kept" if same else "added", (Word(visible(neighbor)),)),),
        )
    a, b = _words(original), _words(neighbor)
    keys_a, keys_b = [word.same_as for word in a], [word.same_as for word in b]
    change_a: list[Change] = ["dropped"] * len(a)
    change_b: list[Change] = ["added"] * len(b)
    matcher = SequenceMatcher(None, keys_a, keys_b, autojunk=False)
    for at, to, length in matcher.get_matching_blocks():
        change_a[at : at + length] = ["kept"] * length
        change_b[to : to + length] = ["kept"] * length
    _find_moved(keys_a, keys_b, change_a, change_b)
    return Difference(_stretches(a, change_a), _stretches(b, change_b))


def _words(text: str) -> list[Word]:
    """Split a text into words with the white space that follows them; formulas and code stay whole."""
    words: list[Word] = []
    for piece in pieces(visible(text)):
        if piece.kind == "text":
            words += [Word(part) for part in re.findall(r"\S*\s*", piece.source) if part]
        else:
            words.append(Word(piece.source, piece.kind))
    return words


def _find_moved(
    keys_a: list[tuple[Kind, str]],
    keys_b: list[tuple[Kind, str]],
    change_a: list[Change],
    change_b: list[Change],
) -> None:
    """Mark runs of words that moved to another place, the longest first at each place."""
    places: dict[tuple[tuple[Kind, str], ...], list[int]] = {}
    for at in range(len(keys_b) - MIN_MOVED + 1):
        places.setdefault(tuple(keys_b[at : at + MIN_MOVED]), []).append(at)
    at = 0
    while at <= len(keys_a) - MIN_MOVED:
        best, best_to = 0, 0
        for to in places.get(tuple(keys_a[at : at + MIN_MOVED]), ())[:20]:
            length = 0
            while (
                at + length < len(keys_a)
                and to + length < len(keys_b)
                and keys_a[at + length] == keys_b[to + length]
                and change_a[at + length] == "dropped"
                and change_b[to + length] == "added"
            ):
                length += 1
            if length > best:
                best, best_to = length, to
        if best >= MIN_MOVED:
            change_a[at : at + best] = ["moved"] * best
            change_b[best_to : best_to + best] = ["moved"] * best
        at += max(best, 1)


def _stretches(words: list[Word], changes: list[Change]) -> tuple[Stretch, ...]:
    grouped = groupby(zip(changes, words, strict=True), key=lambda pair: pair[0])
    return tuple(Stretch(change, tuple(word for _, word in pairs)) for change, pairs in grouped)


def show_side_by_side(
    original: str, neighbor: str, key: str, *, gap: Literal["medium", "large"] = "large"
) -> None:
    """Show two texts side by side with their differences marked; `key` is unique on the page."""
    difference = compare(original, neighbor)
    left, right = st.columns(2, gap=gap)
    with left:
        show_difference(difference.original, f"{key}-original")
    with right:
        show_difference(difference.neighbor, f"{key}-neighbor")


def show_difference(stretches: tuple[Stretch, ...], key: str) -> None:
    """Show one side with its marks and formulas; very long texts are shown without marks."""
    source = "".join(word.text for stretch in stretches for word in stretch.words)
    if len(source) > MARKDOWN_MAX:
        st.caption("Too long to compare word by word.")
        show_text(source, key)
    else:
        st.markdown(mark_differences(stretches))  # safe


@lru_cache(maxsize=512)
def mark_differences(stretches: tuple[Stretch, ...]) -> str:
    """Return one side as Markdown, with marks around escaped words and next to formulas and code."""
    parts = [part for stretch in stretches for part in _stretch(stretch) if part]
    beside = zip(["\n\n", *parts], parts, [*parts[1:], "\n\n"], strict=False)
    # No line break at the start or end of a paragraph: it would show as a backslash or an empty line.
    kept = [
        part
        for before, part, after in beside
        if part != _LINE_END or not (before.endswith("\n\n") or after.startswith("\n\n"))
    ]
    return "".join(kept).strip("\n")


def _stretch(stretch: Stretch) -> Iterator[str]:
    """Mark plain words line by line, since no mark can span two paragraphs."""
    line: list[Word] = []
    for word in stretch.words:
        if word.kind != "text":
            yield _line(line, stretch.change)
            yield _formula(word, stretch.change)
            line = []
            continue
        line.append(word)
        if "\n" in word.text:
            yield _line(line, stretch.change)
            yield "\n\n" if word.text.count("\n") > 1 else _LINE_END
            line = []
    yield _line(line, stretch.change)


def _formula(word: Word, change: Change) -> str:
    drawn = safe_md(word.text)
    if "\n" in drawn:
        label = "" if change == "kept" else f":{_MARKS[change]}-badge[{change}]\n\n"
        return f"\n\n{label}{drawn}\n\n"
    if change == "kept":
        return drawn
    inside = drawn if _balanced(drawn) else _without_brackets(drawn)
    # A bracket without its partner would end the mark early and let the text run into what follows.
    return f":{_MARKS[change]}-background[{inside}]" if _balanced(inside) else drawn


def _balanced(text: str) -> bool:
    """Say whether all square brackets are balanced, as a mark around them requires."""
    depth, at = 0, 0
    while at < len(text):
        if text[at] == "\\":
            at += 2
            continue
        depth += (text[at] == "[") - (text[at] == "]")
        if depth < 0:
            return False
        at += 1
    return depth == 0


def _without_brackets(formula: str) -> str:
    """Name the brackets of a half-open interval; those of an option (`\\sqrt[3]{x}`) cannot be named."""
    if "\\sqrt[" in formula or "\\\\[" in formula:
        return formula
    return formula.replace("[", "\\lbrack ").replace("]", "\\rbrack ")


def _line(line: list[Word], change: Change) -> str:
    body = "".join(_word(word) for word in line)
    inner = body.strip(" ")
    before, after = " " * body.startswith(" "), " " * body.endswith(" ")
    if change == "kept" or not inner:
        return body
    if change == "dropped":
        inner = f"~~{inner}~~"
    return f"{before}:{_MARKS[change]}-background[{inner}]{after}"


def _word(word: Word) -> str:
    text = word.text.split("\n")[0]
    body = text.rstrip()
    space = " " * (len(body) < len(text))
    parts = escaped_lines(body)
    return (f"**{parts}**" if word.is_number and body else parts) + space
