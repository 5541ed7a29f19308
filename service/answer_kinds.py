"""Answer kinds, which determine how answers are extracted and compared with the gold."""

from enum import StrEnum


class AnswerKind(StrEnum):
    """The kind of answer that a question or problem asks for."""

    LATEX = "latex"  # numbers, expressions, sets, words: whatever MATH holds
    INTEGER = "integer"  # AMC and AIME
    CHOICE = "choice"  # a letter
    TOLERANCE = "tolerance"  # a number (or several) that may differ from the gold a little
    CODE = "code"  # a Python program; the gold are the tests that it has to pass
