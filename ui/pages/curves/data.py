"""Reports and comparisons for the page, from the functions of `tagrpo eval report` and `compare`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from evaluator.exchange.agreement import agreement_notes
from evaluator.reports.comparing import MethodComparison, compare_methods
from evaluator.reports.documents.document import Document, Table
from evaluator.reports.layout import report_document
from evaluator.reports.methods import load_methods
from evaluator.reports.notes import contamination_notes, human_notes, run_notes
from evaluator.reports.records import curve_rows, records
from evaluator.reports.report import Majority, build_report
from evaluator.reports.scores import INTERVALS, Metric
from evaluator.reports.sources import source_notes, source_table
from service.errors import TagrpoError
from ui.charts.eval_curves import panel_charts
from ui.pages.state.database import cached

HEIGHT, HEIGHT_ALONE = 230, 330


@dataclass(frozen=True)
class PageReport:
    """A report for the page.

    `specs` are its charts by benchmark, `sources` where answers were found. `notes` name unfinished runs, and
    count human grades and the agreement with another tool's grades. `error` is the reason if there is no
    report.
    """

    k: int = 1
    curves: tuple[dict[str, Any], ...] = ()
    records: tuple[dict[str, Any], ...] = ()
    document: Document | None = None
    specs: tuple[tuple[str, dict[str, Any]], ...] = ()
    sources: Table | None = None
    sources_notes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    error: str | None = None


@cached
def load_document(
    session: Session, references: tuple[str, ...], metric: str, interval: str, k: int
) -> tuple[Document, tuple[dict[str, Any], ...]]:
    """Return the report of methods at one k as a document, and its records.

    Raises:
        TagrpoError: as `build_report`.
    """
    methods = load_methods(session, references)
    report = build_report(methods, ks=(k,), metric=Metric(metric), interval=INTERVALS[interval])
    return report_document(report, contamination_notes(session, methods)), tuple(records(report))


def make_report(
    session: Session,
    references: tuple[str, ...],
    metric: str,
    interval: str,
    palette: tuple[tuple[str, str], ...],
    *,
    ks: Sequence[int] | None = None,
    majority: Majority | None = None,
) -> PageReport:
    """Return the report of methods with its charts; `ks` and `majority` are those of `build_report`."""
    try:
        methods = load_methods(session, references)
        report = build_report(
            methods, ks=ks, metric=Metric(metric), interval=INTERVALS[interval], majority=majority
        )
        curves = curve_rows(report)
        runs = [result.run for line in report.lines for result in line.entry.results]
        charts = panel_charts(
            curves,
            metric=metric,
            palette=dict(palette),
            height=HEIGHT_ALONE if len(report.benchmarks) == 1 else HEIGHT,
        )
        return PageReport(
            report.ks[-1],
            tuple(curves),
            tuple(records(report)),
            report_document(report, contamination_notes(session, methods)),
            tuple((name, chart.to_dict()) for name, chart in charts.items()),
            source_table(report),
            tuple(source_notes(report)),
            (
                *run_notes([line.entry for line in report.lines]),
                *human_notes([(line.label, line.entry) for line in report.lines]),
                *agreement_notes(session, runs),
            ),
        )
    except TagrpoError as error:
        return PageReport(error=str(error))


load_report = cached(make_report)


@cached
def load_comparison(
    session: Session, first: tuple[str, ...], second: tuple[str, ...]
) -> tuple[MethodComparison | None, str]:
    """Compare two methods; on a failure, the comparison is None and the text states the reason."""
    try:
        a, b = load_methods(session, [*first, *second])
        return compare_methods(a, b, allow_missing=False), ""
    except TagrpoError as error:
        return None, str(error)
