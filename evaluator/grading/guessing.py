r"""Guesses the answer of a response that neither boxes nor states one. Pure.

A response that is nothing but an answer is taken whole; of any other the last formula or the last number
counts, with the numbers it is listed with ("1331 and 1728" is two). What was taken is visible to the user,
and no guess ever stands against a boxed or a stated answer.
"""

import re

from evaluator.grading.types import AnswerKind

_MATH = re.compile(r"\$\$([^$]+)\$\$|\$([^$]+)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_LIST_GLUE = re.compile(r"\s*(?:[,;]|[,;]?\s*\b(?:and|or)\b)?\s*", re.IGNORECASE)
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")
_COMMAND = re.compile(r"\\text ?\{[^{}]*\}|\\[A-Za-z]+")
_NUMBER = re.compile(
    r"(?<![\w.\\)])-?[$€£]?\d{1,3}(?:,\d{3})+(?:\.\d+)?|(?<![\w.\\)])-?[$€£]?(?:\d+(?:\.\d+)?|\.\d+)"
    r"(?:/\d+)?(?:[eE][-+]?\d{1,3})?"
)
_NUMBER_TAIL = re.compile(r"\\?%| ?(?:percent\b|degrees?\b|°)|[a-zA-Z]{1,3}(?![a-zA-Z\d])|(?![A-Za-z\d])")
_NUMBERS_GLUE = re.compile(r",? (?:and|or) |, ?")
_LETTER = re.compile(
    r"(?:option|choice|answer)s?(?:[ \t]is)?:?[ \t]*[(*]{0,4}([A-J])\b|\(([A-J])\)"
    r"|(?:^|\n)[ \t*]{0,6}([A-J])[.)]?[ \t*]{0,6}(?:\n|$)"
)
_LONGEST_BARE = 300
_LONGEST_END = 2_000
_LONGEST_LINE = 300
_UNITS_AFTER = frozenset((
    "m", "cm", "mm", "km", "kg", "g", "mg", "s", "h", "l", "ml", "ft", "in", "lb", "oz", "N", "J", "W", "V",
    "A", "K", "Hz", "eV", "Pa",
))  # fmt: skip


def guess(text: str, kind: AnswerKind) -> str | None:
    """The likely answer."""
    text = text.strip()
    if not text:
        return None
    if (bare := _bare(text)) is not None:
        return bare
    end = text[-_LONGEST_END:]
    if kind is AnswerKind.CHOICE:
        letters = [next(filter(None, match.groups())) for match in _LETTER.finditer(end)]
        return letters[-1] if letters else None
    chunks = list(_MATH.finditer(end)) if any(mark in end for mark in ("$", r"\(", r"\[")) else []
    if not chunks:
        end = end[-_LONGEST_LINE:] if _NUMBER.search(end, max(0, len(end) - _LONGEST_LINE + 100)) else end
    numbers = [match for match in _NUMBER.finditer(end) if _is_number(end, match)]
    if chunks and (not numbers or numbers[-1].start() < chunks[-1].end()):
        return _last_formula(end, chunks)
    return _last_numbers(end, numbers) if numbers else None


def _bare(text: str) -> str | None:
    """The response itself when it holds an answer and at most three words beside it."""
    if len(text) > _LONGEST_BARE and " " in text:
        return None
    chunks = list(_MATH.finditer(text))
    words = _WORD.findall(_COMMAND.sub(" ", _MATH.sub(" ", text)))
    if chunks:
        between = _MATH.split(text)[:: _MATH.groups + 1]
        alone = not between[0].strip() and not between[-1].strip(" .\n")
        if alone and all(_LIST_GLUE.fullmatch(part) for part in between[1:-1]):
            return ", ".join(_content(chunk) for chunk in chunks)
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) != 1 or "?" in text:
        return None
    return text if len(words) <= (1 if chunks else 3) else None


def _content(chunk: re.Match[str]) -> str:
    return next(group for group in chunk.groups() if group is not None).strip()


def _last_formula(end: str, chunks: list[re.Match[str]]) -> str:
    listed = [chunks[-1]]
    for chunk in reversed(chunks[:-1]):
        if "=" in chunk.group() or not re.fullmatch(
            r",? (?:and|or) |, ", end[chunk.end() : listed[0].start()]
        ):
            break
        listed.insert(0, chunk)
    return ", ".join(_content(chunk) for chunk in listed)


def _is_number(text: str, match: re.Match[str]) -> bool:
    tail = _NUMBER_TAIL.match(text, match.end())
    if tail is None:
        return False
    return not tail.group() or not tail.group()[0].isalpha() or tail.group() in _UNITS_AFTER


def _last_numbers(end: str, numbers: list[re.Match[str]]) -> str:
    listed = [numbers[-1]]
    for number in reversed(numbers[:-1]):
        if not _NUMBERS_GLUE.fullmatch(end[number.end() : listed[0].start()]):
            break
        listed.insert(0, number)
    last = end[listed[-1].start() :]
    percent = re.match(r"[^ \n]*?(?:\\?%| percent\b)", last)
    parts = [number.group() for number in listed]
    if percent:
        parts[-1] += r"\%"
    return ", ".join(parts)
