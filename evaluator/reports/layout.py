"""A report as a document, a paper's table with intervals and notes, and as rows at full precision."""

from collections.abc import Callable, Sequence
from typing import Any

from evaluator.evals.counts import CORRECT_SHARE, PLACES
from evaluator.grading.versions import answers_of
from evaluator.reports.documents.document import ABSENT, Document, Table, hundredths, joined, span, table_of
from evaluator.reports.notes import least_and_most, report_notes
from evaluator.reports.published import PaperColumn, PublishedModel
from evaluator.reports.report import PASS_AT_K, Metric, MetricScore, Report, ReportLine

RUNS, AVERAGE = "runs", "average"
"""Values of the column `source`, next to the names of papers."""

_OF_CURVE = (
    *("run", "label", "benchmark", "k", "value", "value_high", "low", "high", "interval", "problems"),
    "samples",
)


def report_document(report: Report, extra_notes: Sequence[str] = ()) -> Document:
    """Return a table for each k, tables of what the numbers stand on, and the notes."""
    tables = [_scores(report, k) for k in report.ks]
    return Document((*tables, source_table(report), _basis(report)), (*report_notes(report), *extra_notes))


def source_table(report: Report) -> Table:
    """Return the shares of answers by the place where they were found."""
    rows = []
    for line in report.lines:
        shares = line.entry.sources.by_place().values()
        cells = (ABSENT if share is None else hundredths(share, 1) for share in shares)
        rows.append((line.label, line.entry.benchmark, *cells))
    title = "where tagrpo found the answers, in percent of samples"
    return Table(("method", "benchmark", *PLACES, CORRECT_SHARE), tuple(rows), title, words=2)


def score_cell(score: MetricScore | None) -> str:
    """Return value and interval in percent, two values where some are unknown or missing; "-" for none."""
    if score is None:
        return ABSENT
    value, high = hundredths(score.value), hundredths(score.value_high)
    if high != value:
        value += f" to {high}"
    return f"{value}\n{span(score.low, score.high)}"


def _scores(report: Report, k: int) -> Table:
    printed = report.paper.rows(k) if report.paper else {}
    columns = _columns(report, {key for figures in printed.values() for key in figures})
    rows = [
        (label, *(score_cell(report.score_at(label, column.key, k)) for column in columns))
        for label in report.labels
    ]
    breaks = [len(rows)] if printed else []
    for method, figures in printed.items():
        cells = [figures[column.key].text if column.key in figures else ABSENT for column in columns]
        rows.append((f"{method} (paper)", *cells))
    title = f"{report.metric.title(k)}, percent, with 95% intervals: {report.interval}"
    if report.paper and printed:
        source = report.paper.paper["source"]
        title += f"; paper: {report.paper.name} in {source}, {joined(report.paper.labels(k))}"
    heads = ("method", *(column.title for column in columns))
    return Table(heads, tuple(rows), title, breaks=tuple(breaks))


def _columns(report: Report, printed: set[str]) -> list[PaperColumn]:
    """Return the columns that have figures, of a paper or of runs, in the paper's order, then others."""
    filled = printed | {column for _, column in report.averages} | set(report.benchmarks)
    columns = [column for column in report.layout if column.key in filled]
    placed = {column.key for column in columns}
    return columns + [PaperColumn(name, name) for name in report.benchmarks if name not in placed]


def _basis(report: Report) -> Table:
    columns: list[tuple[str, Callable[[ReportLine], str | int | None]]] = [
        ("method", lambda line: line.label),
        ("benchmark", lambda line: line.entry.benchmark),
        ("run", lambda line: " + ".join(line.entry.runs)),
        ("problems", _problems),
        ("samples per problem", lambda line: least_and_most(line.counts.n)),
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


def _percent_or_unknown(share: float | None, digits: int = 1) -> str:
    return "unknown" if share is None else hundredths(share, digits)


def _or_unknown(value: float | None, form: str) -> str:
    return "unknown" if value is None else format(value, form)


def records(report: Report) -> list[dict[str, Any]]:
    """Return all values of a report, one row each, all with the same keys; None if a key has no meaning.

    Rows of runs come first, then averages, then the published figures. Scores are shares from 0 to 1;
    `box` to `none_found` are shares of the samples by where the answer was found; `samples` is the smallest
    number of samples of a problem, with the `missing` ones that got no answer. `human_grades` are the samples
    that a person graded, `overruled` those that the grader graded otherwise, and `grades` says whose count.
    `judged` samples have the grade of a judge model, `judged_correct` of them are correct by it, and
    `judge_points` of pass@1 rest on these; None where none counts.
    `printed` is a figure as the paper prints it and `odd` whether sums, ranks or figures around it belie it.
    """
    rows = [_of_run(report.metric, line, score) for line in report.lines for score in line.scores]
    rows += [
        {
            "source": AVERAGE,
            "label": label,
            "benchmark": _average_of(next(each.of for each in report.layout if each.key == column)),
            "metric": report.metric.name,
            **vars(score),
        }
        for (label, column), scores in report.averages.items()
        for score in scores
    ]
    if report.paper is not None:
        rows += _of_paper(report.paper, report.ks)
    empty = dict.fromkeys(name for row in rows for name in row)
    return [{**empty, **row} for row in rows]


def curve_rows(report: Report) -> list[dict[str, Any]]:
    """Return the points of all curves, one row each, as `ui.charts.eval_curves` draws them.

    The points of one label and benchmark are all over the same problems.
    """
    return [{key: row[key] for key in _OF_CURVE} for row in records(report) if row["source"] == RUNS]


def _of_run(metric: Metric, line: ReportLine, score: MetricScore) -> dict[str, Any]:
    entry, judged = line.entry, line.entry.judged
    return {
        "source": RUNS,
        "run": "+".join(entry.runs),
        "label": line.label,
        "model": entry.spec.model,
        "benchmark": entry.benchmark,
        "metric": metric.name,
        **vars(score),
        "samples": int(line.counts.n.min()),
        "samples_most": int(line.counts.n.max()),
        "left_out": line.left_out,
        "truncated": entry.share(entry.truncated),
        "unknown": entry.share(entry.unknown),
        "missing": entry.missing,
        "refused": entry.share(entry.refused),
        "mean_tokens": entry.mean_tokens,
        "usd": entry.usd,
        **{place.replace(" ", "_"): share for place, share in entry.sources.by_place().items()},
        "answers": answers_of(entry.grader_version),
        "grader": entry.grader_version,
        "grades": entry.grades,
        "human_grades": entry.human,
        "overruled": entry.overruled,
        "judged": judged and judged.grades,
        "judged_correct": judged and judged.correct,
        "judge_points": judged and judged.points,
        "problems_hash": entry.spec.problems_hash,
    }


def _of_paper(model: PublishedModel, ks: Sequence[int]) -> list[dict[str, Any]]:
    benchmarks = {column.key: _average_of(column.of) if column.of else column.key for column in model.layout}
    return [
        {
            "source": f"{model.paper['source']}, {figure.label}",
            "label": method,
            "model": model.name,
            "benchmark": benchmarks[key],
            "metric": PASS_AT_K,
            "k": k,
            "value": round(float(figure.printed) / 100, 4),
            "printed": figure.printed,
            "odd": figure.odd,
        }
        for k in ks
        for method, figures in model.rows(k).items()
        for key, figure in figures.items()
    ]


def _average_of(benchmarks: Sequence[str]) -> str:
    return f"average of {', '.join(benchmarks)}"
