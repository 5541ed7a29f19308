"""All structural checks of a candidate, in one pure function."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rephraser.checks.finding import CheckOptions, Finding
from rephraser.checks.form import check_answer_format, check_figures, check_images, check_options
from rephraser.checks.formulas import check_formulas, formula_facts
from rephraser.checks.leaks import check_answer, check_solution
from rephraser.checks.numbers import check_numbers, number_facts
from rephraser.checks.reading.text import Question, take_apart
from rephraser.checks.shape import LONGEST_TEXT, check_language, check_length, check_shape
from rephraser.checks.wording import VERBATIM, VERBATIM_PROSE, check_sameness, shared_pairs
from rephraser.checks.words import check_contraries, check_requests
from service.questions.images import PLACEHOLDER

_TABLE = re.compile(r"\\begin\{(tabular|array)\}.*?\\end\{\1\}", re.DOTALL)
_NO_OPTIONS = CheckOptions()


def check_candidate(
    question: str,
    candidate: str,
    *,
    answer: str | None = None,
    siblings: Sequence[str] = (),
    options: CheckOptions = _NO_OPTIONS,
) -> tuple[Finding, ...]:
    """Compare a candidate with its original question and tell every difference that matters.

    Args:
        question: the original.
        candidate: the proposed rephrasing.
        answer: the gold answer; with it, a candidate that states it is found.
        siblings: other candidates of the same question the candidate must differ from.
        options: limits and permissions, see `CheckOptions`.

    Returns:
        Findings in a fixed order, each once; empty when nothing was noticed. A candidate with a fatal
        finding is to be rejected. Never raises on any text; texts of more than `LONGEST_TEXT` characters are
        `too_long` and compared no further.
    """
    images = check_images(question, candidate)
    question, candidate = (text.replace(PLACEHOLDER, " ") for text in (question, candidate))
    siblings = [text.replace(PLACEHOLDER, " ") for text in siblings]
    findings = check_shape(question, candidate, options)
    if any(f.name == "empty" for f in findings):
        return tuple(findings)
    findings += images
    if max(len(question), len(candidate)) > LONGEST_TEXT:
        if question == candidate:
            findings.append(Finding("same_as_original", "the candidate repeats the original"))
        return tuple(findings)
    findings += check_sameness(question, candidate, siblings, options.min_distance)
    original, proposed = take_apart(question), take_apart(candidate)
    numbers, proposed_numbers = number_facts(original), number_facts(proposed)
    findings += check_length(original, proposed)
    findings += check_language(original, proposed, options.language)
    findings += check_figures(original, proposed)
    findings += check_options(_without_figures(original), _without_figures(proposed))
    findings += check_requests(original, proposed)
    findings += check_solution(question, candidate)
    if answer is not None:
        facts = formula_facts(original), formula_facts(proposed)
        findings += check_answer(answer, *facts, numbers, proposed_numbers)
    findings += check_answer_format(original, proposed)
    findings += check_numbers(numbers, proposed_numbers, verbatim=_repeats(original, proposed))
    findings += check_formulas(original, proposed, answer)
    findings += check_contraries(original, proposed)
    return tuple(dict.fromkeys(findings))


def _repeats(original: Question, proposed: Question) -> bool:
    """Whether the candidate repeats the original nearly word for word.

    The prose must repeat too: a long formula or a table alone would make two short texts look alike.
    """
    if shared_pairs(_without_figures(original), _without_figures(proposed)) < VERBATIM:
        return False
    texts = (_TABLE.sub(" ", question.reading) for question in (original, proposed))
    return shared_pairs(*texts) >= VERBATIM_PROSE


def _without_figures(question: Question) -> str:
    text = question.raw
    for figure in question.figures:
        text = text.replace(figure, " ")
    return text
