"""A report as a document: a paper's table with intervals, sample details and notes."""

from collections.abc import Callable, Sequence

from evaluator.reports import published
from evaluator.reports.documents.document import ABSENT, Document, Table, hundredths, joined, span, table_of
from evaluator.reports.notes import report_notes
from evaluator.reports.published import PaperColumn
from evaluator.reports.report import Report, ReportLine
from evaluator.reports.scores import Score
from evaluator.reports.sources import source_table


def report_document(report: Report, extra_notes: Sequence[str] = ()) -> Document:
    """Return a table for each k, tables of what the numbers stand on, and the notes."""
    tables = [_scores(report, k) for k in report.ks]
    return Document((*tables, source_table(report), _basis(report)), (*report_notes(report), *extra_notes))


def score_cell(score: Score | None) -> str:
    """Return value and interval in percent, two values where some are unknown or missing; "-" for none."""
    if score is None:
        return ABSENT
    value, high = hundredths(score.value), hundredths(score.value_high)
    if high != value:
        value += f" to {high}"
    return f"{value}\n{span(score.low, score.high)}"


def _scores(report: Report, k: int) -> Table:
    printed = {} if report.paper is None else published.published_rows(report.paper, k)
    columns = _columns(report, {key for figures in printed.values() for key in figures})
    rows = [
        (label, *(score_cell(_at(report, label, column, k)) for column in columns)) for label in report.labels
    ]
    breaks = [len(rows)] if printed else []
    for method, figures in printed.items():
        cells = [figures[column.key].text if column.key in figures else ABSENT for column in columns]
        rows.append((f"{method} (paper)", *cells))
    title = f"{report.metric.title(k)}, percent, with 95% intervals: {report.interval}"
    if report.paper is not None and printed:
        tables = joined(published.labels(report.paper, k))
        title += f"; paper: {report.paper} in {published.paper_of(report.paper).source}, {tables}"
    heads = ("method", *(column.title for column in columns))
    return Table(heads, tuple(rows), title, breaks=tuple(breaks))


def _columns(report: Report, printed: set[str]) -> list[PaperColumn]:
    """Return the columns that have figures, of a paper or of runs, in the paper's order, then others."""
    filled = printed | {line.column for line in report.averages} | set(report.benchmarks)
    columns = [column for column in report.layout if column.key in filled]
    placed = {column.key for column in columns}
    return columns + [PaperColumn(name, name) for name in report.benchmarks if name not in placed]


def _at(report: Report, label: str, column: PaperColumn, k: int) -> Score | None:
    if column.of:
        key = label, column.key, k
        averages = (line.score for line in report.averages if (line.label, line.column, line.score.k) == key)
        return next(averages, None)
    line = report.find(label, column.key)
    return None if line is None else line.at(k)


def _basis(report: Report) -> Table:
    columns: list[tuple[str, Callable[[ReportLine], str | int | None]]] = [
        ("method", lambda line: line.label),
        ("benchmark", lambda line: line.entry.benchmark),
        ("run", lambda line: " + ".join(line.entry.runs)),
        ("problems", _problems),
        ("samples per problem", _samples),
        ("truncated %", lambda line: _percent_or_unknown(line.entry.share(line.entry.truncated))),
        ("unknown %", lambda line: _percent_or_unknown(line.entry.share(line.entry.unknown), 2)),
    ]
    if any(line.entry.missing for line in report.lines):
        columns.append(("missing", lambda line: f"{line.entry.missing:,}"))
    if any(line.entry.refused for line in report.lines):
        columns.append(("refused %", lambda line: _percent_or_unknown(line.entry.share(line.entry.refused))))
    if any(line.entry.human for line in report.lines):
        columns.append(("human grades", lambda line: f"{line.entry.human:,}"))
    columns += [
        ("tokens", lambda line: _or_unknown(line.entry.mean_tokens, ".0f")),
        ("USD", lambda line: _or_unknown(line.entry.usd, ".2f")),
    ]
    return table_of(report.lines, columns, title="sample details", words=3)


def _problems(line: ReportLine) -> str:
    return str(line.counts.problems) + (f" of {line.entry.counts.problems}" if line.left_out else "")


def _samples(line: ReportLine) -> str:
    least, most = int(line.counts.n.min()), int(line.counts.n.max())
    return str(least) if least == most else f"{least} to {most}"


def _percent_or_unknown(share: float | None, digits: int = 1) -> str:
    return "unknown" if share is None else hundredths(share, digits)


def _or_unknown(value: float | None, form: str) -> str:
    return "unknown" if value is None else format(value, form)
