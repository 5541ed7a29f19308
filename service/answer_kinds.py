"""The kinds of answers, which decide how an answer is found in a response and compared with the gold."""

from enum import StrEnum


class AnswerKind(StrEnum):
    """What sort of answer a question or problem asks for."""

    LATEX = "latex"  # numbers, expressions, sets, words: whatever MATH holds
    INTEGER = "integer"  # AMC and AIME
    CHOICE = "choice"  # a letter
    TOLERANCE = "tolerance"  # a number (or several) that may differ from the gold a little
    CODE = "code"  # a Python program; the gold are the tests that it has to pass
