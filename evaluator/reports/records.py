"""A report's values as rows, at full precision: for CSV and JSON, and for the curves."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

from evaluator.grading.versions import answers_of
from evaluator.reports import published
from evaluator.reports.report import Report, ReportLine
from evaluator.reports.scores import PASS_AT_K, Metric, Score
from evaluator.reports.sources import line_sources

_FORMULA_STARTS = frozenset("=+-@\t\r\n|＝＋－＠")
RUNS, AVERAGE = "runs", "average"
"""What stands in the column `source`, beside the paper's name."""

_OF_SCORE = ("k", "value", "value_high", "low", "high", "interval", "problems")
_OF_CURVE = ("run", "label", "benchmark", *_OF_SCORE, "samples")


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
            "label": averaged.label,
            "benchmark": _average_of(averaged.of),
            "metric": report.metric.name,
            **_of_score(averaged.score),
        }
        for averaged in report.averages
    ]
    if report.paper is not None:
        rows += _of_paper(report.paper, report.ks)
    empty = dict.fromkeys(name for row in rows for name in row)
    return [{**empty, **row} for row in rows]


def curve_rows(report: Report) -> list[dict[str, Any]]:
    """Return the points of all curves, one row each, as `ui.charts.eval_curves` draws them.

    The points of one label and benchmark all stand on the same problems.
    """
    return [{key: row[key] for key in _OF_CURVE} for row in records(report) if row["source"] == RUNS]


def render_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows of one set of keys as CSV that no spreadsheet takes for formulas.

    Numbers stand at full precision, None as an empty field; see `guarded`.
    """
    if not rows:
        return ""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([guarded(name) for name in rows[0]])
    writer.writerows([guarded(value) for value in row.values()] for row in rows)
    return text.getvalue()


def guarded(value: Any) -> Any:
    """Return a cell that a spreadsheet shows and never computes.

    A text that begins like a formula gets a leading apostrophe; numbers, also those written as text, stay.
    """
    if not isinstance(value, str) or value.lstrip(" ")[:1] not in _FORMULA_STARTS or not value:
        return value
    try:
        float(value)
    except ValueError:
        return "'" + value
    return value


def finite(value: Any) -> Any:
    """Return the value with infinite numbers, which JSON has not, as the texts "Infinity" and "-Infinity"."""
    if isinstance(value, Mapping):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _of_run(metric: Metric, line: ReportLine, score: Score) -> dict[str, Any]:
    entry, judged = line.entry, line.entry.judged
    return {
        "source": RUNS,
        "run": "+".join(entry.runs),
        "label": line.label,
        "model": entry.spec.model,
        "benchmark": entry.benchmark,
        "metric": metric.name,
        **_of_score(score),
        "samples": int(line.counts.n.min()),
        "samples_most": int(line.counts.n.max()),
        "left_out": line.left_out,
        "truncated": entry.share(entry.truncated),
        "unknown": entry.share(entry.unknown),
        "missing": entry.missing,
        "refused": entry.share(entry.refused),
        "mean_tokens": entry.mean_tokens,
        "usd": entry.usd,
        **{place.replace(" ", "_"): share for place, share in line_sources(line).items()},
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


def _of_score(score: Score) -> dict[str, Any]:
    return {key: getattr(score, key) for key in _OF_SCORE}


def _of_paper(model: str, ks: Sequence[int]) -> list[dict[str, Any]]:
    source = published.paper_of(model).source
    benchmarks = {
        column.key: _average_of(column.of) if column.of else column.key
        for column in published.layout_of(model)
    }
    return [
        {
            "source": f"{source}, {figure.label}",
            "label": method,
            "model": model,
            "benchmark": benchmarks[key],
            "metric": PASS_AT_K,
            "k": k,
            "value": round(float(figure.printed) / 100, 4),
            "printed": figure.printed,
            "odd": figure.odd,
        }
        for k in ks
        for method, figures in published.published_rows(model, k).items()
        for key, figure in figures.items()
    ]


def _average_of(benchmarks: tuple[str, ...]) -> str:
    return f"average of {', '.join(benchmarks)}"
