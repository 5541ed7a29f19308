"""Shares of answers by the place where they were found, for reports and pages."""

from collections.abc import Iterator
from typing import Any

from evaluator.evals.sources import LAST_SENTENCE, PLACES
from evaluator.grading.versions import answers_of
from evaluator.reports.documents.document import ABSENT, Table, hundredths
from evaluator.reports.report import Report, ReportLine

TITLE = "where tagrpo found the answers, in percent of samples"
CORRECT_SHARE = f"correct from {LAST_SENTENCE}"
MUCH = 0.1
"""From this share of the correct answers on, those from a last sentence are worth a note."""


def source_rows(report: Report) -> list[dict[str, Any]]:
    """Return a row for each line of a report: its label, its benchmark, and a share of the samples by place.

    `CORRECT_SHARE` is the share of the correct samples whose answer was found in the last sentence, None
    where none is correct.
    """
    return [
        {"label": line.label, "benchmark": line.entry.benchmark, **line_sources(line)}
        for line in report.lines
    ]


def line_sources(line: ReportLine) -> dict[str, float | None]:
    """Return the shares of one line, as `source_rows` has them."""
    shares, correct = line.entry.sources.shares, line.entry.sources.correct_shares
    return {
        **{place: None if shares is None else shares[place] for place in PLACES},
        CORRECT_SHARE: None if correct is None else correct[LAST_SENTENCE],
    }


def source_table(report: Report) -> Table:
    """Return the shares as a table."""
    rows = [
        (row["label"], row["benchmark"], *(_cell(row[name]) for name in (*PLACES, CORRECT_SHARE)))
        for row in source_rows(report)
    ]
    return Table(("method", "benchmark", *PLACES, CORRECT_SHARE), tuple(rows), TITLE, words=2)


def source_notes(report: Report) -> Iterator[str]:
    """Yield what has to be said: that boxes alone count, or that much rests on last sentences."""
    if any(answers_of(line.entry.grader_version) == "boxed" for line in report.lines):
        yield "Only boxed answers count. Other answers are graded wrong."
    much = [
        f"{row['label']} on {row['benchmark']} ({hundredths(row[CORRECT_SHARE], 0)}%)"
        for row in source_rows(report)
        if (row[CORRECT_SHARE] or 0.0) >= MUCH
    ]
    if much:
        yield (
            "Many correct answers come from the last sentence of the response, without a box or marker. "
            f"Extraction is less reliable there: {', '.join(much)}. `tagrpo eval score RUN --answers boxed` "
            "counts only boxed answers."
        )


def _cell(share: float | None) -> str:
    return ABSENT if share is None else hundredths(share, 1)
