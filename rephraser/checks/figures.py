"""Figure code ([asy], tikz) is kept as it is, apart from white space."""

from __future__ import annotations

from rephraser.checks.finding import Finding, noticed
from rephraser.checks.text import Question


def check_figures(original: Question, candidate: Question) -> list[Finding]:
    """Findings figure_missing, figure_added and figure_changed; figures may change places."""
    before = sorted("".join(f.split()) for f in original.figures)
    after = sorted("".join(f.split()) for f in candidate.figures)
    if before == after:
        return []
    if len(after) < len(before):
        return [noticed("figure_missing", f"{len(before) - len(after)} of {len(before)} figures are missing")]
    if len(after) > len(before):
        return [noticed("figure_added", f"{len(after) - len(before)} figures were added")]
    return [noticed("figure_changed", "the code of a figure is not the original's")]
