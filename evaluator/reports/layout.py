"""A report as a document: the paper's table with intervals, what it stands on, and notes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evaluator.reports import published
from evaluator.reports.documents.document import ABSENT, Document, Table, hundredths, span, table_of
from evaluator.reports.notes import report_notes
from evaluator.reports.published import Average
from evaluator.reports.report import Line, Report
from evaluator.reports.scores import Score
from evaluator.reports.sources import source_table


@dataclass(frozen=True)
class _Place:
    """A column of the table: a benchmark, or the average at a place of the paper's layout."""

    title: str
    benchmark: str | None
    layout: int | None


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
    with_paper = report.paper is not None and k == published.K
    places = _places(report, with_paper=with_paper)
    rows = [
        (label, *(score_cell(_at(report, label, place, k)) for place in places)) for label in report.labels
    ]
    breaks = []
    if with_paper and report.paper is not None:
        breaks.append(len(rows))
        for row in published.published_rows(report.paper):
            printed = [f"{text}(!)" if place in row.odd else text for place, text in enumerate(row.printed)]
            cells = [ABSENT if place.layout is None else printed[place.layout] for place in places]
            rows.append((f"{row.method} (paper)", *cells))
    title = f"{report.metric.title(k)}, percent, with 95% intervals: {report.interval}"
    if with_paper:
        title += f"; paper: {report.paper} in {published.SOURCE}"
    columns = ("method", *(place.title for place in places))
    return Table(columns, tuple(rows), title, breaks=tuple(breaks))


def _places(report: Report, *, with_paper: bool) -> list[_Place]:
    """Return the columns: those of the paper in its order (all of them beside its figures), then others."""
    averaged = {line.place for line in report.averages}
    places = []
    for number, column in enumerate(published.LAYOUT):
        if isinstance(column, Average):
            if with_paper or number in averaged:
                places.append(_Place(column.title, None, number))
        elif with_paper or column.benchmark in report.benchmarks:
            places.append(_Place(column.title, column.benchmark, number))
    placed = {place.benchmark for place in places}
    return places + [_Place(name, name, None) for name in report.benchmarks if name not in placed]


def _at(report: Report, label: str, place: _Place, k: int) -> Score | None:
    if place.benchmark is None:
        key = label, place.layout, k
        averages = (line.score for line in report.averages if (line.label, line.place, line.score.k) == key)
        return next(averages, None)
    line = report.find(label, place.benchmark)
    return None if line is None else line.at(k)


def _basis(report: Report) -> Table:
    columns: list[tuple[str, Callable[[Line], str | int | None]]] = [
        ("method", lambda line: line.label),
        ("benchmark", lambda line: line.entry.benchmark),
        ("run", lambda line: " + ".join(line.entry.runs)),
        ("problems", _problems),
        ("samples each", _samples),
        ("truncated %", lambda line: hundredths(line.entry.truncated, 1)),
        ("unknown %", lambda line: hundredths(line.entry.unknown)),
    ]
    if any(line.entry.missing for line in report.lines):
        columns.append(("missing", lambda line: f"{line.entry.missing:,}"))
    if any(line.entry.refused for line in report.lines):
        columns.append(("refused %", lambda line: hundredths(line.entry.refused, 1)))
    if any(line.entry.human for line in report.lines):
        columns.append(("human grades", lambda line: f"{line.entry.human:,}"))
    columns += [
        ("tokens", lambda line: _or_unknown(line.entry.mean_tokens, ".0f")),
        ("USD", lambda line: _or_unknown(line.entry.usd, ".2f")),
    ]
    return table_of(report.lines, columns, title="what they stand on", words=3)


def _problems(line: Line) -> str:
    return str(line.counts.problems) + (f" of {line.entry.counts.problems}" if line.left_out else "")


def _samples(line: Line) -> str:
    least, most = int(line.counts.n.min()), int(line.counts.n.max())
    return str(least) if least == most else f"{least} to {most}"


def _or_unknown(value: float | None, form: str) -> str:
    return "unknown" if value is None else format(value, form)
