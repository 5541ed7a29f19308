"""Names inside formulas: points, angles and variables that nothing but a swap would exchange."""

from __future__ import annotations

from collections import Counter

from rephraser.checks.finding import Finding, fatal, warning
from rephraser.checks.formulas import FormulaFacts


def check_labels(original: FormulaFacts, candidate: FormulaFacts, *, verbatim: bool) -> list[Finding]:
    """Finding formula_changed (fatal) for an exchanged label or variable, formula_missing (warning) for a
    lost one.

    A label is a row of capital letters; it may be read backwards (angle CAD is angle DAC). Single variables
    are only compared where the candidate repeats the original nearly word for word.
    """
    findings: list[Finding] = []
    lost = sorted(
        label for label in original.labels - candidate.labels if f" {' '.join(label)} " not in candidate.flat
    )
    gained = sorted(
        label
        for label in candidate.labels - original.labels
        if f" {' '.join(label)} " not in original.flat and label.lower() not in original.words
    )
    lost = [label for label in lost if label.lower() not in candidate.words]
    if lost and gained:
        findings.append(fatal("formula_changed", f"'{lost[0]}' of the original became '{gained[0]}'"))
    elif lost:
        findings.append(
            warning("formula_missing", f"'{lost[0]}' of the original does not occur in the candidate")
        )
    if verbatim:
        before, after = Counter(original.variables), Counter(candidate.variables)
        fewer, more = sorted(before - after), sorted(after - before)
        if fewer and more:
            findings.append(fatal("formula_changed", f"the variable {fewer[0]} gave way to {more[0]}"))
    return findings
