"""What the numbers count: 4 red and 7 blue marbles are not 7 red and 4 blue ones. And the names of people."""

from __future__ import annotations

import re
from collections import Counter

from rephraser.checks.finding import Finding, fatal, warning
from rephraser.checks.latex import canonical_number
from rephraser.checks.text import Question

_COUNTED = re.compile(r"(?<![\w.,/^§-])(\d[\d,]*(?:\.\d+)?)[ -]([a-z]{3,})\b(?: ([a-z]{3,})\b)?")
_AFTER = re.compile(r"\b([a-z]{2,}) (\d[\d,]*(?:\.\d+)?)(?![\w^/])")
_FILLER = frozenset(
    [
        "and",
        "are",
        "was",
        "were",
        "the",
        "for",
        "from",
        "with",
        "more",
        "less",
        "than",
        "times",
        "percent",
        "per",
        "each",
        "that",
        "who",
        "which",
        "have",
        "has",
        "how",
        "out",
        "will",
        "into",
        "can",
        "does",
        "not",
        "fewer",
        "other",
        "additional",
        "degrees",
        "units",
        "dollars",
        "inclusive",
        "but",
    ]
)
_NAME = re.compile(r"(?<![.?!:\"\n] )(?<![.?!:\"\n])(?<!^)\b([A-Z][a-z]{2,})\b")
_NO_NAME = frozenset(
    [
        "Find",
        "What",
        "How",
        "Determine",
        "Compute",
        "Let",
        "Suppose",
        "Given",
        "Each",
        "Express",
        "Evaluate",
        "Simplify",
        "Solve",
        "The",
        "For",
        "Consider",
        "Which",
        "When",
        "Calculate",
        "There",
        "Write",
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
        "Monday",
        "Tuesday",
        "Wednesday",
        "Thursday",
        "Friday",
        "Saturday",
        "Sunday",
        "Note",
        "Assume",
        "Round",
        "Give",
        "Points",
        "Point",
        "Question",
        "Two",
        "Three",
        "Four",
    ]
)


def check_bindings(original: Question, candidate: Question, *, verbatim: bool = False) -> list[Finding]:
    """Finding numbers_swapped, fatal: two or more numbers changed places among the same counted things.

    In a candidate that repeats the original nearly word for word the words before the numbers count too.
    """
    before, after = _bound(original.reading), _bound(candidate.reading)
    if verbatim:
        before |= _bound_before(original.reading)
        after |= _bound_before(candidate.reading)
    changed = {w: (before[w], after[w]) for w in before if w in after and before[w] != after[w]}
    old = Counter(pair[0] for pair in changed.values())
    new = Counter(pair[1] for pair in changed.values())
    if len(changed) >= 2 and old == new:
        word = min(changed)
        return [
            fatal("numbers_swapped", f"'{word}' is counted as {changed[word][1]}, not as {changed[word][0]}")
        ]
    return []


def _bound(text: str) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for digits, first, _ in _COUNTED.findall(text):
        if first not in _FILLER:
            found.setdefault(_stem(first), set()).add(canonical_number(digits))
    return {word: next(iter(numbers)) for word, numbers in found.items() if len(numbers) == 1}


def _bound_before(text: str) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for word, digits in _AFTER.findall(text):
        if word not in _FILLER:
            found.setdefault(f"{word} ...", set()).add(canonical_number(digits))
    return {word: next(iter(numbers)) for word, numbers in found.items() if len(numbers) == 1}


def _stem(word: str) -> str:
    return word[:-1] if word.endswith("s") and len(word) > 3 else word


def check_names(original: Question, candidate: Question) -> list[Finding]:
    """Finding name_missing, a warning: a capitalised name of the original is not in the candidate."""
    names = {n for n in _NAME.findall(original.prose) if n not in _NO_NAME}
    text = candidate.raw.lower()
    return [
        warning("name_missing", f"the name '{name}' does not occur in the candidate")
        for name in sorted(names)[:20]
        if name.lower() not in text
    ]
