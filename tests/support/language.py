"""Find the worst patterns of unclear English in prose: a list of phrases, and sentences that are too long.

`find_faults` checks a help text, a message or a paragraph; `find_page_faults` checks a Markdown page.
Fenced blocks, inline code and addresses do not count. A table cell is a text of its own.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path

LONGEST_SENTENCE = 30
"""Words. Numbers, inline code and addresses are no words."""

_UNITS = (
    "row|line|file|question|prompt|problem|response|sample|neighbor|step|run|seed|page|panel|world|second"
    "|minute"
)
PHRASES = {
    "stands": r"stands?|stood",
    "behind": r"behind(?! an? (?:reverse )?proxy)",
    "beside": r"besides?",
    "is told": r"(?:is|are|was|were|be|been) told",
    "is said": r"(?:is|are|was|were|be|been) said",
    "nobody": r"nobody",
    "anew": r"anew",
    "comes to": r"comes? to|came to",
    "in place of": r"in place of",
    "but for": r"but for",
    "of which": r"of which",
    "a row a": rf"(?:an?|one|two|three|\d+) (?:{_UNITS})s? an? (?:{_UNITS})",
}
_PHRASES = {
    name: re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])".replace(" ", r"\s+"), re.I)
    for name, pattern in PHRASES.items()
}

_NOT_PROSE = re.compile(r"^ *(`{3,}|~{3,})[^\n]*\n.*?^ *\1 *$|<!--.*?-->", re.M | re.S)
_NO_WORDS = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)|(?<=\])\([^()\s]*\)|https?://\S+", re.S)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*_\]]*\s+")
_BLOCK_START = re.compile(r"\s*(?:#+ |[-*+] |\d+\. |> ?|!!! |\||!\[)")


@dataclass(frozen=True)
class Fault:
    """A sentence to rewrite.

    Attributes:
        line: where the sentence begins, counted from 1.
        name: a key of `PHRASES`, or the number of words.
    """

    line: int
    name: str
    sentence: str


def find_faults(prose: str, first_line: int = 1) -> Iterator[Fault]:
    """Yield the faults of one text: a help text, a message, a paragraph, a cell of a table."""
    masked = _NO_WORDS.sub(lambda match: re.sub(r"[^\n]", "·", match[0]), prose)
    ends = [match.end() for match in _SENTENCE_END.finditer(masked)]
    for start, end in pairwise([0, *ends, len(masked)]):
        line = first_line + prose[:start].count("\n")
        sentence = " ".join(prose[start:end].split())
        for name, pattern in _PHRASES.items():
            if pattern.search(masked, start, end):
                yield Fault(line, name, sentence)
        words = sum(any(letter.isalpha() for letter in word) for word in masked[start:end].split())
        if words > LONGEST_SENTENCE:
            yield Fault(line, f"{words} words", sentence)


def find_page_faults(page: Path) -> Iterator[Fault]:
    """Yield the faults of a Markdown page."""
    content = _NOT_PROSE.sub(lambda match: "\n" * match[0].count("\n"), page.read_text(encoding="utf-8"))
    for number, block in _blocks(content):
        for text in block.split("|") if block.startswith("|") else [block]:
            yield from find_faults(text, number)


def _blocks(content: str) -> Iterator[tuple[int, str]]:
    """Yield paragraphs, list items, headings and rows of tables, each with the number of its first line."""
    block = 0
    numbered = []
    for number, line in enumerate(content.splitlines(), 1):
        block += not line.strip() or _BLOCK_START.match(line) is not None
        numbered.append((block, number, line))
    for _, lines in groupby(numbered, key=lambda entry: entry[0]):
        kept = list(lines)
        yield kept[0][1], "\n".join(line for _, _, line in kept)
