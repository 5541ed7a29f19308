r"""Finds the final answer in a response. Pure and linear in the length of the text.

The last `\\boxed{...}` wins; without one, what the final statement is about (see `statement`, `quantity`).
"""

import re
from typing import NamedTuple

from evaluator.grading.quantity import is_option, stated
from evaluator.grading.statement import final_statement
from evaluator.grading.types import AnswerKind
from service.boxes import boxed_answer, last_boxed

__all__ = ["Found", "boxed_answer", "find_answer", "last_boxed"]

_CLOSING = "The final answer is "
_LONGEST_RESPONSE = 200_000
"""Only so many characters at the end of a response are searched."""
_LETTER = re.compile(
    r"(?:option|choice|answer)s?(?:[ \t]is)?:?[ \t]*[(*]{0,4}([A-J])\b|\(([A-J])\)"
    r"|(?:^|\n)[ \t*]{0,6}([A-J])[.)]?[ \t*]{0,6}(?:\n|$)"
)
_LONGEST_END = 2_000
_UNESCAPED = re.compile(r"[\x08\x0c](?=[a-z])")  # what JSON makes of the beginning of \boxed and \frac


class Found(NamedTuple):
    """An answer and where it was found, one of `types.SOURCES`."""

    text: str
    source: str


def find_answer(response: str, kind: AnswerKind = AnswerKind.LATEX, boxed_only: bool = False) -> Found | None:
    r"""The final answer of a response and where it stands; None when there is none.

    The last box; else, unless `boxed_only`, what the response states last. Thinking between `<think>` and
    `</think>` is no answer; a response that was cut off inside it gives none.

    >>> find_answer("3 + 4 = 7, so he has 7 apples for his 2 sisters.")
    Found(text='7', source='last sentence')
    """
    text = _after_thinking(response)
    if text is None:
        return None
    if "\x08" in text or "\x0c" in text:
        text = _UNESCAPED.sub(lambda found: r"\b" if found.group() == "\x08" else r"\f", text)
    boxed = boxed_answer(text)
    closing = text.rfind(_CLOSING) if boxed is not None else -1
    # Minerva's closing sentence comes after the boxes of the working.
    if boxed is not None and (boxed_only or closing < 0 or "box" in text[closing:]):
        return Found(boxed, "box")
    if boxed_only:
        return None
    statement = final_statement(text)
    if statement is None:
        return None
    answer = stated(statement.text, statement.before)
    if kind is AnswerKind.CHOICE and not statement.marked and not is_option(answer):
        letters = [next(filter(None, match.groups())) for match in _LETTER.finditer(text[-_LONGEST_END:])]
        return Found(letters[-1], "last sentence") if letters else None
    return Found(answer, "marker" if statement.marked else "last sentence")


def _after_thinking(response: str) -> str | None:
    if "think>" not in response:
        return response[-_LONGEST_RESPONSE:]
    _, closed, after = response.rpartition("</think>")
    if closed:
        return after[-_LONGEST_RESPONSE:]
    return None if "<think>" in response else response[-_LONGEST_RESPONSE:]
