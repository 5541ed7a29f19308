"""Answer options, (A) to (E): their letters, their contents and their order stay."""

from __future__ import annotations

import re

from rephraser.checks.finding import Finding, noticed
from rephraser.checks.latex import tokenize

_LABEL = re.compile(
    r"\\(?:textbf|mathbf|text|mathrm|mathsf)\s*\{\s*(?:\(\s*([A-H])\s*\)?|([A-H])\s*[).:])\s*\}\s*\)?|\(([A-H])\)|"
    r"(?:^|(?<=\s))([A-H])[.):](?=\s)",
    re.MULTILINE,
)
_SEPARATORS = re.compile(r"\\q?quad|\\[()\[\]]|\$|~|\\ |\\[,;]|\s|\*\*|[,;.]+(?=\s|$)|\bor\b|\band\b")


def options(text: str) -> dict[str, str]:
    """The options of a text by letter; empty unless at least (A) and (B) occur in alphabetical order."""
    marks = [(m.start(), m.end(), next(filter(None, m.groups()))) for m in _LABEL.finditer(text)]
    best: list[tuple[int, int, str]] = []
    run: list[tuple[int, int, str]] = []
    for mark in marks:
        if mark[2] == chr(ord("A") + len(run)):
            run.append(mark)
        else:
            run = [mark] if mark[2] == "A" else []
        if len(run) > len(best):
            best = list(run)
    if len(best) < 2 or (len(best) < 3 and text[best[0][0]] not in "\\("):
        # Two of 'A.' may end sentences about a point A; three in a row are options.
        return {}
    ends = [start for start, _, _ in best[1:]]
    last = text.find("\n\n", best[-1][1])
    ends.append(last if last >= 0 else min(len(text), best[-1][1] + 200))
    return {letter: _content(text[end:stop]) for (_, end, letter), stop in zip(best, ends, strict=True)}


def _content(text: str) -> str:
    return " ".join(tokenize(_SEPARATORS.sub(" ", text))).strip(" .;,$?").lower()


def check_options(original: str, candidate: str) -> list[Finding]:
    """Findings options_missing, options_added and options_changed."""
    before, after = options(original), options(candidate)
    if not before:
        return [noticed("options_added", f"answer options {', '.join(after)} were added")] if after else []
    if not after:
        return [noticed("options_missing", f"the answer options {', '.join(before)} are missing")]
    if list(before) != list(after):
        return [noticed("options_changed", f"options {', '.join(before)} became {', '.join(after)}")]
    last = list(before)[-1]
    changed = [
        k for k in before if before[k] != after[k] and not (k == last and _starts_alike(before[k], after[k]))
    ]
    return [noticed("options_changed", f"option {k} is not the original's") for k in changed[:1]]


def _starts_alike(first: str, second: str) -> bool:
    """The last option has no end mark: text after it may follow."""
    short, long = sorted((first, second), key=len)
    return bool(short) and long.startswith(short)
