"""Word-by-word differences of a rephrasing: kept, dropped, added and moved words, numbers, formulas."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import accumulate, groupby
from typing import Literal, NamedTuple

import streamlit as st

from ui.characters import visible
from ui.pages.text.formulas import Kind, pieces
from ui.pages.text.markup import MARKDOWN_MAX, escaped_lines, safe_md, show_math_text, show_text

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


class Difference(NamedTuple):
    """Both texts with marked words: the original's are kept, dropped or moved, the other's added."""

    original: tuple[Stretch, ...]
    neighbor: tuple[Stretch, ...]


@lru_cache(maxsize=256)
def compare(original: str, neighbor: str) -> Difference:
    """Compare two texts by words; each formula or code span counts as one word.

    Three or more words in a row that were dropped in one place and added in another count as moved. A change
    of case is not a difference. Texts of more than 20,000 characters are compared as a whole, because a
    comparison by words would take seconds.
    """
    if max(len(original), len(neighbor)) > MARKDOWN_MAX:
        same = original == neighbor
        return Difference(
            (Stretch("kept" if same else "dropped", (Word(visible(original)),)),),
            (Stretch("kept" if same else "added", (Word(visible(neighbor)),)),),
        )
    a, b = _words(original), _words(neighbor)
    change_a: list[Change] = ["dropped"] * len(a)
    change_b: list[Change] = ["added"] * len(b)
    _mark_common(a, b, change_a, change_b, "kept", 1)
    _mark_common(a, b, change_a, change_b, "moved", MIN_MOVED)
    return Difference(_stretches(a, change_a), _stretches(b, change_b))


def _mark_common(
    a: list[Word], b: list[Word], change_a: list[Change], change_b: list[Change], mark: Change, least: int
) -> None:
    """Mark the runs of at least so many words that are in both texts and not marked yet."""
    keys_a: list[object] = [w.same_as if change_a[at] == "dropped" else ("a", at) for at, w in enumerate(a)]
    keys_b: list[object] = [w.same_as if change_b[at] == "added" else ("b", at) for at, w in enumerate(b)]
    for at, to, length in SequenceMatcher(None, keys_a, keys_b, autojunk=False).get_matching_blocks():
        if length >= least:
            change_a[at : at + length] = [mark] * length
            change_b[to : to + length] = [mark] * length


def _words(text: str) -> list[Word]:
    """Split a text into words with the white space that follows them; formulas and code stay whole."""
    words: list[Word] = []
    for piece in pieces(visible(text)):
        if piece.kind == "text":
            words += [Word(part) for part in re.findall(r"\S*\s*", piece.source) if part]
        else:
            words.append(Word(piece.source, piece.kind))
    return words


def _stretches(words: list[Word], changes: list[Change]) -> tuple[Stretch, ...]:
    grouped = groupby(zip(changes, words, strict=True), key=lambda pair: pair[0])
    return tuple(Stretch(change, tuple(word for _, word in pairs)) for change, pairs in grouped)


def show_side_by_side(original: str, neighbor: str, key: str, *, marks: bool = True) -> None:
    """Show two texts side by side, by default with their differences marked; `key` is unique on the page."""
    sides = zip(st.columns(2, gap="large"), (original, neighbor), compare(original, neighbor), strict=True)
    for place, (column, text, stretches) in enumerate(sides):
        with column:
            if marks:
                show_difference(stretches, f"{key}-{place}")
            else:
                show_math_text(text, f"{key}-{place}", cut_at=MARKDOWN_MAX)


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
    plain = re.sub(r"\\.", "", text, flags=re.DOTALL)
    depths = list(accumulate((char == "[") - (char == "]") for char in plain))
    return not depths or (min(depths) >= 0 and depths[-1] == 0)


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
