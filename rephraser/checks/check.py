"""All structural checks of a candidate, in one pure function."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rephraser.checks.answer_format import check_answer_format
from rephraser.checks.bindings import check_bindings, check_names
from rephraser.checks.figures import check_figures
from rephraser.checks.finding import CheckOptions, Finding, fatal
from rephraser.checks.formulas import FormulaFacts, check_formulas, facts_of, formula_facts
from rephraser.checks.keywords import check_keywords, keyword_facts
from rephraser.checks.labels import check_labels
from rephraser.checks.language import check_language
from rephraser.checks.latex import is_variable, tokenize
from rephraser.checks.leaks import check_answer, check_solution
from rephraser.checks.numbers import check_numbers, number_facts
from rephraser.checks.options import check_options
from rephraser.checks.renaming import Renaming, find_renaming, rename
from rephraser.checks.requests import check_requests
from rephraser.checks.sameness import VERBATIM, VERBATIM_PROSE, check_sameness, likeness
from rephraser.checks.shape import LONGEST_TEXT, check_length, check_shape
from rephraser.checks.text import Question, take_apart
from rephraser.checks.units import check_units, unit_names

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
    findings = check_shape(question, candidate, options)
    if any(f.name == "empty" for f in findings):
        return tuple(findings)
    if max(len(question), len(candidate)) > LONGEST_TEXT:
        if question == candidate:
            findings.append(fatal("same_as_original", "the candidate repeats the original"))
        return tuple(findings)
    findings += check_sameness(question, candidate, siblings, options.min_distance)
    original, proposed = take_apart(question), take_apart(candidate)
    verbatim = _repeats(original, proposed)
    renaming = find_renaming(original.formulas, proposed.formulas)
    facts = formula_facts(original)
    proposed_facts = _renamed_back(proposed, renaming)
    numbers, proposed_numbers = number_facts(original), number_facts(proposed)
    findings += check_length(original, proposed)
    findings += check_language(original, proposed, options.language)
    findings += check_figures(original, proposed)
    findings += check_options(_without_figures(original), _without_figures(proposed))
    findings += check_numbers(numbers, proposed_numbers, verbatim=verbatim)
    findings += _check_renaming(renaming, answer, allowed=options.allow_renamed_variables)
    findings += check_formulas(facts, proposed_facts, proposed_numbers, numbers)
    findings += check_labels(facts, proposed_facts, verbatim=verbatim)
    findings += check_units(unit_names(original), unit_names(proposed))
    findings += check_answer_format(original, proposed)
    findings += check_keywords(keyword_facts(original), keyword_facts(proposed), verbatim=verbatim)
    findings += check_bindings(original, proposed, verbatim=verbatim)
    findings += check_requests(original, proposed)
    findings += check_solution(question, candidate)
    if answer is not None:
        findings += check_answer(answer, facts, proposed_facts, numbers, proposed_numbers)
    findings += check_names(original, proposed)
    return tuple(dict.fromkeys(findings))


def _repeats(original: Question, proposed: Question) -> bool:
    """Whether the candidate repeats the original nearly word for word.

    The prose must repeat too: a long formula or a table alone would make two short texts look alike.
    """
    if likeness(_without_figures(original), _without_figures(proposed)) < VERBATIM:
        return False
    texts = (_TABLE.sub(" ", question.reading) for question in (original, proposed))
    return likeness(*texts) >= VERBATIM_PROSE


def _without_figures(question: Question) -> str:
    text = question.raw
    for figure in question.figures:
        text = text.replace(figure, " ")
    return text


def _renamed_back(proposed: Question, renaming: Renaming) -> FormulaFacts:
    if not renaming.mapping:
        return formula_facts(proposed)
    back = {new: old for old, new in renaming.mapping.items()}
    return facts_of(proposed, rename(proposed.formulas, back))


def _check_renaming(renaming: Renaming, answer: str | None, *, allowed: bool) -> list[Finding]:
    if not renaming.consistent:
        return [
            fatal("renaming_inconsistent", "no one-to-one renaming of the variables explains the formulas")
        ]
    if not renaming.mapping:
        return []
    pairs = ", ".join(f"{old} to {new}" for old, new in sorted(renaming.mapping.items()))
    if not allowed:
        return [fatal("variables_renamed", f"variables are renamed: {pairs}")]
    if answer is not None:
        inside = {t for t in tokenize(answer) if is_variable(t)} & set(renaming.mapping)
        if inside:
            return [
                fatal(
                    "answer_variable_renamed",
                    f"the answer is written in {', '.join(sorted(inside))}, now renamed",
                )
            ]
    return []
