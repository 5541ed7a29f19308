"""What a structural check reports: named findings, and the options of a check."""

from dataclasses import dataclass
from enum import StrEnum

CHECKS_VERSION = "6"
"""Stored with the evidence of every verdict. Change it if a check may decide differently."""


class Severity(StrEnum):
    """`fatal` rejects the candidate. `evidence` prevents acceptance only if no solver answers."""

    FATAL = "fatal"
    EVIDENCE = "evidence"


@dataclass(frozen=True)
class Finding:
    """A name of `FINDINGS` and one readable sentence."""

    name: str
    detail: str

    @property
    def severity(self) -> Severity:
        """Return `fatal` for what is certain and invisible to answers."""
        return Severity.FATAL if self.name in FATAL else Severity.EVIDENCE


@dataclass(frozen=True)
class CheckOptions:
    """How candidates are checked: the maximum of tokens, and the least distance of wordings."""

    token_limit: int = 512
    min_distance: float = 0.0


FATAL: dict[str, str] = {
    "empty": "the candidate contains no words",
    "same_as_original": "the candidate equals the original, ignoring white space, case and punctuation",
    "same_as_sibling": "the candidate equals a sibling, ignoring white space, case and punctuation",
    "too_like_original": "the wording is too similar to the original's (see min_distance)",
    "too_like_sibling": "the wording is too similar to a sibling's (see min_distance)",
    "question_missing": "the candidate does not ask a question",
    "question_added": "the candidate asks more than one question, but the original asks one",
    "answer_leaked": "the candidate states the answer",
    "solution_included": "the candidate contains a full or partial solution",
    "answer_format_changed": "the candidate asks for a different form of the answer",
    "options_missing": "some answer options of the original are missing",
    "figure_missing": "the original's figure code is missing",
    "image_missing": "the candidate has fewer image placeholders than the original",
    "image_added": "the candidate has more image placeholders than the original",
    "signature_changed": "a requested function is missing, or has a different name or signature",
    "language_changed": "the candidate and the original differ in language or script",
    "too_long": "the candidate exceeds the token limit",
    "truncated": "the candidate is cut off, or leaves a bracket or formula open",
    "control_characters": "the candidate contains control characters that the original does not",
    "prompt_chatter": "the candidate contains chat text, such as a greeting",
}
"""Fatal findings by name: certain, and invisible to answers."""

FINDINGS: dict[str, str] = {
    **FATAL,
    "number_missing": "a number from the original is missing",
    "number_added": "the candidate contains a number that is not in the original",
    "example_missing": "an example or test of a programming question is missing",
}
"""Every finding by name, with an explanation for documentation, commands and pages."""


def shorten(text: str, limit: int = 80) -> str:
    """Return `text` on one line, cut in the middle to at most `limit` characters."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    keep = (limit - 3) // 2
    return f"{line[:keep]}...{line[-keep:]}"
