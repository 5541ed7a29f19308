"""Shares of answers by the place where they were found, for reports and pages."""

from collections.abc import Iterator

from evaluator.evals.sources import LAST_SENTENCE, PLACES
from evaluator.grading.versions import answers_of
from evaluator.reports.documents.document import ABSENT, Table, hundredths
from evaluator.reports.report import Report, ReportLine

TITLE = "where tagrpo found the answers, in percent of samples"
CORRECT_SHARE = f"correct from {LAST_SENTENCE}"
MUCH = 0.1
"""From this share of the correct answers on, those from a last sentence are worth a note."""


def line_sources(line: ReportLine) -> dict[str, float | None]:
    """Return the share of a line's samples by the place of the answer.

    `CORRECT_SHARE` is the share of the correct samples whose answer was found in the last sentence, None
    where none is correct.
    """
    shares, correct = line.entry.sources.shares, line.entry.sources.correct_shares
    return {
        **{place: None if shares is None else shares[place] for place in PLACES},
        CORRECT_SHARE: None if correct is None else correct[LAST_SENTENCE],
    }


def source_table(report: Report) -> Table:
    """Return the shares as a table."""
    rows = tuple(
        (line.label, line.entry.benchmark, *map(_cell, line_sources(line).values())) for line in report.lines
    )
    return Table(("method", "benchmark", *PLACES, CORRECT_SHARE), rows, TITLE, words=2)


def source_notes(report: Report) -> Iterator[str]:
    """Yield what has to be said: that boxes alone count, or that much rests on last sentences."""
    if any(answers_of(line.entry.grader_version) == "boxed" for line in report.lines):
        yield "Only boxed answers count. Other answers are graded wrong."
    much = [
        f"{line.label} on {line.entry.benchmark} ({hundredths(share, 0)}%)"
        for line in report.lines
        if (share := line_sources(line)[CORRECT_SHARE] or 0.0) >= MUCH
    ]
    if much:
        yield (
            "Many correct answers come from the last sentence of the response, without a box or marker. "
            f"Extraction is less reliable there: {', '.join(much)}. `tagrpo eval score RUN --answers boxed` "
            "counts only boxed answers."
        )


def _cell(share: float | None) -> str:
    return ABSENT if share is None else hundredths(share, 1)
