"""What a structural check says: named findings, their severity, and the options of a check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

CHECKS_VERSION = "2"
"""Stored with the evidence of every verdict; changed whenever a check may decide differently."""


class Severity(StrEnum):
    """`fatal` rejects the candidate; `warning` is evidence and rejects nothing."""

    FATAL = "fatal"
    WARNING = "warning"


@dataclass(frozen=True)
class Finding:
    """One thing a check noticed: a name of `FINDINGS`, its severity and one readable sentence."""

    name: str
    severity: Severity
    detail: str


@dataclass(frozen=True)
class CheckOptions:
    """How candidates are checked.

    token_limit: the most tokens a candidate may have.
    count_tokens: a tokenizer's count; None estimates (`shape.estimate_tokens`).
    allow_renamed_variables: accept a consistent one-to-one renaming of the variables.
    min_distance: the least distance of its wording (`rephraser.wording`) to the original and its siblings.
    language: the language candidates must be in ("en", "fr", ...); None means that of the original.
    """

    token_limit: int = 512
    count_tokens: Callable[[str], int] | None = None
    allow_renamed_variables: bool = False
    language: str | None = None
    min_distance: float = 0.0


FINDINGS: dict[str, str] = {
    "number_missing": "a number of the original does not occur in the candidate, in digits or words",
    "number_added": "the candidate has a number that the original neither has nor implies",
    "number_sign_changed": "a negative number of the original is positive in the candidate, or the reverse",
    "numbers_swapped": "the same numbers belong to other things than in the original",
    "formula_changed": "a formula of the original occurs with another operator, relation, variable or order",
    "formula_missing": "a formula of the original occurs neither as a formula nor in words",
    "formula_added": "the candidate has a formula that nothing in the original states",
    "formula_in_words": "a formula of the original is written in words in the candidate, or the reverse",
    "variables_renamed": "the variables are renamed consistently although renaming is not allowed",
    "renaming_inconsistent": "the variables are renamed, but not one to one",
    "answer_variable_renamed": "a variable that the answer is written in was renamed",
    "unit_changed": "a unit of the original is replaced by another one of the same kind",
    "unit_missing": "a unit of the original does not occur in the candidate",
    "keyword_changed": "a word that decides the problem is replaced by a contrary one (sum by product)",
    "keyword_missing": "a condition of the original is missing (distinct, positive, inclusive)",
    "keyword_added": "the candidate has a condition that the original does not have",
    "options_missing": "the answer options of the original are not listed in the candidate",
    "options_added": "the candidate offers answer options, the original does not",
    "options_changed": "the answer options differ from those of the original or stand in another order",
    "figure_missing": "the figure code of the original is missing",
    "figure_added": "the candidate has figure code, the original does not",
    "figure_changed": "the figure code is not the original's, character by character but for white space",
    "answer_format_missing": "the original asks for a form of the answer, the candidate does not",
    "answer_format_changed": "the candidate asks for another form of the answer",
    "answer_format_added": "the candidate asks for a form of the answer that the original leaves open",
    "same_as_original": "the candidate is the original, apart from white space, case and punctuation",
    "same_as_sibling": "the candidate is one of its siblings, apart from white space, case and punctuation",
    "too_like_original": "its wording is nearer to the original's than the run's least distance",
    "too_like_sibling": "its wording is nearer to a sibling's than the run's least distance",
    "answer_leaked": "the candidate states the answer",
    "solution_included": "the candidate contains a solution or parts of one",
    "question_missing": "the candidate asks nothing",
    "question_added": "the candidate asks more than one question, the original asks one",
    "too_long": "the candidate has more tokens than allowed",
    "empty": "the candidate has no words",
    "text_missing": "the candidate is so much shorter than the original that conditions must be missing",
    "truncated": "the candidate stops in the middle or leaves a bracket or formula open",
    "control_characters": "the candidate has control characters that the original does not have",
    "prompt_chatter": "the candidate contains words addressed to the reader of the chat, not the problem",
    "language_changed": "the candidate is in another language or script than it should be",
    "name_missing": "a name of the original does not occur in the candidate",
    "premise_dropped": "a model that was asked finds a premise of the original dropped",
    "premise_changed": "a model that was asked finds a premise of the original changed",
}
"""Every finding by name, with a line that explains it (documentation, command line, pages)."""


def fatal(name: str, detail: str) -> Finding:
    return Finding(name, Severity.FATAL, detail)


def warning(name: str, detail: str) -> Finding:
    return Finding(name, Severity.WARNING, detail)


def shorten(text: str, limit: int = 80) -> str:
    """`text` on one line, cut in the middle to at most `limit` characters, for use in a detail."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    keep = (limit - 3) // 2
    return f"{line[:keep]}...{line[-keep:]}"
