"""What a structural check says: named findings, their severity, and the options of a check."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

CHECKS_VERSION = "4"
"""Stored with the evidence of every verdict; changed whenever a check may decide differently."""


class Severity(StrEnum):
    """`fatal` rejects the candidate; `evidence` rejects nothing and makes the verdict ask for more."""

    FATAL = "fatal"
    EVIDENCE = "evidence"


@dataclass(frozen=True)
class Finding:
    """One thing a check noticed: a name of `FINDINGS` and one readable sentence."""

    name: str
    detail: str

    @property
    def severity(self) -> Severity:
        """Fatal for what is certain and what answers cannot see."""
        return Severity.FATAL if self.name in FATAL else Severity.EVIDENCE


@dataclass(frozen=True)
class CheckOptions:
    """How candidates are checked.

    token_limit: the most tokens a candidate may have.
    count_tokens: a tokenizer's count; None estimates (`shape.estimate_tokens`).
    min_distance: the least distance of its wording (`wording.py`) to the original and its siblings.
    language: the language candidates must be in ("en", "fr", ...); None means that of the original.
    """

    token_limit: int = 512
    count_tokens: Callable[[str], int] | None = None
    language: str | None = None
    min_distance: float = 0.0


FINDINGS: dict[str, str] = {
    "empty": "the candidate has no words",
    "same_as_original": "the candidate is the original, apart from white space, case and punctuation",
    "same_as_sibling": "the candidate is one of its siblings, apart from white space, case and punctuation",
    "too_like_original": "the wording is closer to the original's than the run's minimum distance",
    "too_like_sibling": "the wording is closer to a sibling's than the run's minimum distance",
    "question_missing": "the candidate asks nothing",
    "question_added": "the candidate asks more than one question, the original asks one",
    "answer_leaked": "the candidate states the answer",
    "solution_included": "the candidate contains a solution or parts of one",
    "answer_variable_renamed": "a variable in the answer was renamed",
    "answer_format_changed": "the candidate asks for another form of the answer",
    "options_missing": "the answer options of the original are not listed in the candidate",
    "figure_missing": "the figure code of the original is missing",
    "image_missing": "the candidate has fewer image placeholders than the original",
    "image_added": "the candidate has more image placeholders than the original",
    "signature_changed": "a requested function has another name or signature, or is missing",
    "language_changed": "the candidate is in another language or script than required",
    "too_long": "the candidate has more tokens than allowed",
    "truncated": "the candidate stops in the middle or leaves a bracket or formula open",
    "control_characters": "the candidate has control characters that the original does not have",
    "prompt_chatter": "the candidate contains text addressed to the chat's reader",
    "number_missing": "a number of the original is missing in the candidate, in digits and words",
    "number_added": "the candidate has a number that the original neither contains nor implies",
    "number_sign_changed": "a negative number of the original is positive in the candidate, or the reverse",
    "formula_changed": "a formula of the original appears with another operator, relation, number or order",
    "variables_renamed": "the variables are renamed one to one",
    "keyword_changed": "a decisive word is replaced by a contrary one (sum by product)",
    "options_added": "the candidate offers answer options, the original does not",
    "options_changed": "the answer options differ from the original's or are in another order",
    "image_unmentioned": "the original refers to its image, the candidate does not",
    "figure_added": "the candidate has figure code, the original does not",
    "figure_changed": "the figure code differs from the original's in more than white space",
    "answer_format_missing": "the original asks for a form of the answer, the candidate does not",
    "answer_format_added": "the candidate asks for a form of the answer that the original leaves open",
    "example_missing": "an example or test of a programming question is missing",
    "text_missing": "the candidate is so much shorter than the original that conditions may be missing",
}
"""Every finding by name, with a line that explains it (documentation, command line, pages)."""

FATAL: frozenset[str] = frozenset(list(FINDINGS)[: list(FINDINGS).index("number_missing")])
"""What is certain and what answers cannot see; all other findings are evidence."""

GROUPS: dict[str, str] = {
    "number_missing": "numbers",
    "number_added": "numbers",
    "number_sign_changed": "numbers",
    "formula_changed": "formulas",
    "keyword_changed": "words",
    "text_missing": "length",
    "options_changed": "form",
    "figure_changed": "form",
    "example_missing": "examples",
}
"""The evidence that makes a verdict ask for more, by group; what is not named here is only recorded."""


def groups_of(names: Iterable[str]) -> frozenset[str]:
    """The groups of evidence that findings of these names belong to."""
    return frozenset(GROUPS[name] for name in names if name in GROUPS)


def shorten(text: str, limit: int = 80) -> str:
    """`text` on one line, cut in the middle to at most `limit` characters, for use in a detail."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    keep = (limit - 3) // 2
    return f"{line[:keep]}...{line[-keep:]}"
