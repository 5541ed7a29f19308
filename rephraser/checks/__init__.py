"""Structural checks: does a candidate keep what its question is made of? Pure functions, no model, no I/O."""

from collections.abc import Sequence

from rephraser.checks.asking import check_answer_form, check_requests
from rephraser.checks.finding import CheckOptions, Finding
from rephraser.checks.language import check_language
from rephraser.checks.leaks import check_answer, check_solution
from rephraser.checks.numbers import check_numbers, numbers_of
from rephraser.checks.shape import (
    LONGEST_TEXT,
    check_chatter,
    check_figures,
    check_images,
    check_options,
    check_shape,
)
from rephraser.checks.wording import check_sameness
from service.questions.images import PLACEHOLDER


def check_candidate(
    question: str,
    candidate: str,
    *,
    answer: str | None = None,
    siblings: Sequence[str] = (),
    options: CheckOptions = CheckOptions(),
) -> tuple[Finding, ...]:
    """Return the differences between a candidate and its question that matter, in a fixed order.

    A candidate with a fatal finding is to be rejected. With the gold `answer`, candidates that state it are
    found; a candidate must differ from its `siblings`. No text raises an error; texts longer than
    `LONGEST_TEXT` are only checked for equality.
    """
    images = check_images(question, candidate)
    question, candidate, *siblings = (
        text.replace(PLACEHOLDER, " ") for text in (question, candidate, *siblings)
    )
    findings = check_shape(question, candidate, options)
    if any(finding.name == "empty" for finding in findings):
        return tuple(findings)
    findings += images
    if max(len(question), len(candidate)) > LONGEST_TEXT:
        if question == candidate:
            findings.append(Finding("same_as_original", "the candidate repeats the original"))
        return tuple(findings)
    findings += check_chatter(question, candidate)
    findings += check_sameness(question, candidate, siblings, options.min_distance)
    findings += check_language(question, candidate)
    findings += check_figures(question, candidate)
    findings += check_options(question, candidate)
    findings += check_requests(question, candidate)
    findings += check_answer_form(question, candidate)
    findings += check_solution(question, candidate)
    if answer is not None:
        findings += check_answer(answer, question, candidate)
    findings += check_numbers(numbers_of(question), numbers_of(candidate))
    return tuple(dict.fromkeys(findings))
