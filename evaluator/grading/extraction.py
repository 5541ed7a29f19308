r"""Finds the final answer in a response. Pure and linear in the length of the text.

The last `\boxed{...}` wins; without one, the last of "final answer is ...", "answer: ...", "A: ...",
"#### ...". Where a response has none of these, `find_answer` guesses (see `guessing`) and says so.
"""

import re
from typing import NamedTuple

from evaluator.grading import guessing
from evaluator.grading.boxes import boxed_answer, last_boxed
from evaluator.grading.types import AnswerKind

__all__ = ["Found", "boxed_answer", "extract_answer", "find_answer", "last_boxed"]

_MARKER = re.compile(
    r"(?:^|(?<=\n))[ \t>*#_-]{0,20}####[ \t]?"
    r"|(?:^|(?<=\n))[ \t]{0,20}A:"
    r"|\bfinal[ \t]answer(?:[ \t][^\n.:$]{0,60}?)?(?:[ \t]is\b|[ \t]?:)"
    r"|\b(?:the|my|our)(?:[ \t](?:correct|right|best))?[ \t](?:answer|option|choice)"
    r"(?:[ \t][^\n.:$]{0,60}?)?[ \t]is\b"
    r"|\banswer(?:\*\*)?[ \t]?(?::|(?=\$|\\\(|\\\[))"
    r"|\bfinal[ \t]answer\b(?=[*_#]{0,4}[ \t]{0,4}\n)",
    re.IGNORECASE,
)
_MARKER_WORDS = ("answer", "####", "a:", "option", "choice")
_BEFORE_WORD, _AFTER_WORD = 40, 100  # no marker reaches further
_MOST_WORDS = 30
_CLOSING = "The final answer is "
_SENTENCE_END = re.compile(r"(?<=[^\s.])\.(?=\s|$)")
_MATH = re.compile(r"\$\$?([^$]+)\$\$?|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_LIST_GLUE = re.compile(r"\s*(?:,|;|,?\s*\b(?:and|or)\b)\s*", re.IGNORECASE)
_IS = re.compile(r"(?<![A-Za-z\\])(?:is|are|equals)[ \t]+(?:therefore |thus |just |exactly )?(?![^${]*\})")
_LONGEST_TAIL = 2_000
_LONGEST_RESPONSE = 200_000
"""Only so many characters at the end of a response are searched."""


class Found(NamedTuple):
    """An answer and where it was found, one of `types.SOURCES`."""

    text: str
    source: str


def find_answer(response: str, kind: AnswerKind = AnswerKind.LATEX, boxed_only: bool = False) -> Found | None:
    r"""The final answer of a response and where it stands; None when there is none.

    The last box, else what the response states as its answer, else a guess by `guessing.guess`. Thinking
    between `<think>` and `</think>` is no answer; a response that was cut off inside it gives none. With
    `boxed_only` the last box is the answer, and nothing else is one.

    >>> find_answer("3 + 4 = 7, so he has 7 apples.")
    Found(text='7 apples', source='last sentence')
    """
    text = _after_thinking(response)
    if text is None:
        return None
    if boxed_only:
        boxed = boxed_answer(text)
        return Found(boxed, "box") if boxed is not None else None
    if (marked := _marked(text)) is not None:
        return marked
    guessed = guessing.guess(text, kind)
    return Found(guessed, "last sentence") if guessed is not None else None


def extract_answer(response: str) -> str | None:
    r"""The answer that a response boxes or states, or None when it does neither; nothing is guessed.

    >>> extract_answer(r"so we get \boxed{\frac{1}{2}}")
    '\\frac{1}{2}'
    >>> extract_answer("3 + 4 = 7\nA: 7")
    '7'
    """
    text = _after_thinking(response)
    marked = _marked(text) if text is not None else None
    return marked.text if marked is not None else None


def _after_thinking(response: str) -> str | None:
    if "think>" not in response:
        return response[-_LONGEST_RESPONSE:]
    _, closed, after = response.rpartition("</think>")
    if closed:
        return after[-_LONGEST_RESPONSE:]
    return None if "<think>" in response else response[-_LONGEST_RESPONSE:]


def _marked(text: str) -> Found | None:
    boxed = boxed_answer(text)
    closing = text.rfind(_CLOSING) if boxed is not None else -1
    if closing >= 0 and "box" not in text[closing:]:
        # Minerva's closing sentence comes after the boxes of the working.
        boxed = None
    if boxed is not None:
        return Found(boxed, "box")
    end = last_marker(text)
    if end is None:
        return None
    answer = _clean(_first_line(text[end : end + _LONGEST_TAIL]))
    return Found(answer, "marker") if any(map(str.isalnum, answer)) else None


def last_marker(text: str) -> int | None:
    """Where the last marker of an answer ends, None without one.

    Only the surroundings of a word that every marker holds are searched, from the last one on.
    """
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = text  # a character with a longer small letter; its case is left
    place = len(text)
    for _ in range(_MOST_WORDS):
        place = max([lowered.rfind(word, 0, place) for word in _MARKER_WORDS])
        if place < 0:
            return None
        found = _last_match(text, max(0, place - _BEFORE_WORD), place + _AFTER_WORD)
        if found is not None:
            return found
    return _last_match(text, 0, place)


def _last_match(text: str, start: int, stop: int) -> int | None:
    last = None
    for match in _MARKER.finditer(text, start, stop):
        last = match
    return last.end() if last is not None else None


def _first_line(tail: str) -> str:
    tail = tail.lstrip(" \t\r\n*_:#>-" if tail.lstrip(" \t*_:#>").startswith("\n") else " \t*_:")
    if tail.startswith(("$$", "\\[")):
        closing = tail.find("$$" if tail.startswith("$$") else "\\]", 2)
        if closing > 0:
            return tail[2:closing]
    return tail.split("\n", 1)[0]


def _after_is(line: str) -> str:
    """`34` of "the largest $n$ is 34", where the value of a sentence follows its last "is"."""
    *_, last = [None, *_IS.finditer(line)]
    return line[last.end() :] if last is not None and line[last.end() :].strip() else line


def _clean(line: str) -> str:
    line = line.strip()
    if end := _SENTENCE_END.search(line):
        line = line[: end.start()]
    line = _after_is(line.strip().strip("*_`").strip())
    chunks = [next(group for group in found.groups() if group is not None) for found in _MATH.finditer(line)]
    if chunks:
        between = _MATH.split(line)[:: _MATH.groups + 1]
        # "$2$ and $3$" is one answer with two parts; "$x = 3$ after dividing by $2$" is the first part.
        if len(chunks) > 1 and all(_LIST_GLUE.fullmatch(part) for part in between[1:-1]):
            return ", ".join(chunk.strip() for chunk in chunks)
        if not between[0].strip():
            rest = between[1].strip() if len(chunks) == 1 else ""
            return (
                f"{chunks[0].strip()} {rest}".strip()
                if re.fullmatch(r"[\w%]{1,20}", rest)
                else chunks[0].strip()
            )
        if re.fullmatch(r"[A-Za-z][\w ,'()]*", between[0].strip()) and len(chunks) == 1:
            return chunks[0].strip()
    return line.strip().rstrip(".,;").strip()
