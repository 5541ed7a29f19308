"""A report as a document: tables with intervals and notes; and as rows at full precision."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from evaluator.evals.counts import CORRECT_SHARE, PLACES
from evaluator.evals.runs import is_imported
from evaluator.evals.tables import ContaminationCheckRow, OverlapRow
from evaluator.grading.versions import answers_of, judge_of, version_taking
from evaluator.passk import NEW_PROBLEMS
from evaluator.passk.estimators import Ints
from evaluator.reports.document import ABSENT, Document, Table, hundredths, joined, span, table_of
from evaluator.reports.methods import Entry, Method, settings_that_differ_in_effect
from evaluator.reports.published import PaperColumn, PublishedModel
from evaluator.reports.report import MAJ_AT_K, PASS_AT_K, Metric, MetricScore, Report, ReportLine

RUNS, AVERAGE = "runs", "average"
"""Values of the column `source`, next to the names of papers."""

_OF_CURVE = (
    *("run", "label", "benchmark", "k", "value", "value_high", "low", "high", "interval", "problems"),
    "samples",
)
MUCH = 0.1
"""From this share of the correct answers on, those from a last sentence are worth a note."""
AMC23, AMC12 = "amc23", "amc12"

_SETTINGS = {
    "temperature": "temperature {}",
    "top_p": "top-p {}",
    "max_tokens": "at most {:,} tokens",
    "form": "a {} prompt",
}
_INTERVALS = {
    True: "Intervals are for new problems: they cover the expected score on other, similar problems.",
    False: "Intervals are for the same problems: they cover the expected score on exactly these problems.",
}


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
    title = "Where tagrpo found the answers, in percent of samples"
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
    printed = report.paper.figures.get(k, {}) if report.paper else {}
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
        places = dict.fromkeys(figure.label for figures in printed.values() for figure in figures.values())
        title += f"; paper: {report.paper.name} in {source}, {joined([*places])}"
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
    return table_of(report.lines, columns, title="Sample details", words=3)


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
        for method, figures in model.figures.get(k, {}).items()
        for key, figure in figures.items()
    ]


def _average_of(benchmarks: Sequence[str]) -> str:
    return f"average of {', '.join(benchmarks)}"


def report_notes(report: Report) -> list[str]:
    """Return the notes of a report in order of weight."""
    lines = [(line.label, line.entry) for line in report.lines]
    return [
        *_choices(report),
        *_left_out(report),
        *run_notes([entry for _, entry in lines]),
        *human_notes(lines),
        *judge_notes(lines),
        *source_notes(report),
        *_comparability(report),
        *_paper(report),
    ]


def least_and_most(numbers: Ints) -> str:
    least, most = int(numbers.min()), int(numbers.max())
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def contamination_notes(session: Session, methods: Sequence[Method]) -> list[str]:
    """Return a note for each question set known to repeat problems of a benchmark of the methods."""
    entries = {entry.spec.problems_hash: entry for method in methods for entry in method.entries.values()}
    return [
        (
            f"{entry.spec.problems}: the set {set_name} contains {repeated} of its {entry.spec.size} "
            f"problems ({variants} more are similar). A model trained on that set may have seen them. "
            "`tagrpo questions contamination` lists them."
        )
        for problems_hash, entry in entries.items()
        for set_name, repeated, variants in overlaps_with(session, problems_hash)
        if repeated
    ]


def overlaps_with(session: Session, problems_hash: str) -> list[tuple[str, int, int]]:
    """Return the sets that were checked against these problems, by name, each by its newest check.

    With each set come the number of problems that it repeats and of those that it only resembles.
    """
    check = ContaminationCheckRow
    newest = select(func.max(check.id)).where(check.problems_hash == problems_hash)
    checks = select(check).where(check.id.in_(newest.group_by(check.set_name, check.set_hash)))
    counts = []
    for stored in session.scalars(checks.order_by(check.set_name, check.id)):
        overlaps = select(OverlapRow.problem_id, OverlapRow.measure).where(OverlapRow.check_id == stored.id)
        problems = session.execute(overlaps).all()
        repeated = {row.problem_id for row in problems if row.measure != "variant"}
        counts.append((stored.set_name, len(repeated), len({row.problem_id for row in problems} - repeated)))
    return counts


def _choices(report: Report) -> Iterator[str]:
    yield from report.remarks
    yield _INTERVALS[report.interval == NEW_PROBLEMS]
    if report.metric.name == MAJ_AT_K:
        yield (
            "maj@k is the mean over all subsets of k samples; ties are broken at random, and samples "
            "without an answer do not vote."
        )
    if report.averages:
        yield (
            "The averages weight all benchmarks equally; their intervals treat the columns as independent "
            "estimates (Zou and Donner 2008)."
        )
    scores = [line.at(k) for line in report.lines for k in report.ks]
    if any(hundredths(score.value_high) != hundredths(score.value) for score in scores):
        yield (
            "If grades are unknown or requested samples are missing, the report shows two values: with all "
            "of them counted wrong, and with all counted right. The interval covers both."
        )


def _left_out(report: Report) -> Iterator[str]:
    specs = {line.entry.benchmark: line.entry.spec for line in report.lines}
    for benchmark, spec in specs.items():
        if benchmark != spec.problems:
            yield (
                f"{benchmark}: only the first of the {spec.size} problems of {spec.problems} were used. Run "
                "the same command with a larger --limit, or none, to add the others."
            )
    for line in report.lines:
        if line.left_out:
            yield (
                f"{line.label}, {line.entry.benchmark}: {line.left_out} of {line.entry.counts.problems} "
                "problems are excluded at every k, because a row has too few samples for them."
            )


def run_notes(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield notes on the runs of a table: unfinished ones, neighbors, older graders."""
    results = {result.run.id: result for entry in entries for result in entry.results}.values()
    for result in results:
        if result.run.finished_at is None:
            drawn = least_and_most(result.counts.n)
            yield (
                f"Run {result.run.name} is not finished. The report uses its current samples ({drawn} per "
                "problem)."
            )
    for number in dict.fromkeys(result.neighbors for result in results if result.neighbors):
        names = [result.run.name for result in results if result.neighbors == number]
        hold = f"Runs {', '.join(names)} contain" if len(names) > 1 else f"Run {names[0]} contains"
        each = "s" * (number > 1) + " each" * (len(names) > 1)
        yield (
            f"{hold} {number} neighbor{each}. Only the original questions count here; `tagrpo diagnose` "
            "compares both."
        )
    for version in sorted({result.grader_version for result in results}):
        ours = version_taking(answers_of(version))
        if version != ours and judge_of(version) is None:
            yield f"Graded by {version}; this installation has {ours}. `tagrpo eval score RUN` grades again."


def human_notes(lines: Sequence[tuple[str, Entry]]) -> Iterator[str]:
    """Yield a note on people's grades: how many there are by label and benchmark, and whether they count."""
    counts = [
        (
            f"{label}, {entry.benchmark}: {entry.human:,}, {entry.overruled:,} of them different from the "
            "grader's"
        )
        for label, entry in lines
        if entry.human
    ]
    if counts:
        number = sum(entry.human for _, entry in lines)
        grades = f"{number:,} human grade{'s' * (number > 1)}"
        what, way = "used instead of the grader's", "grader ignores them"
        if lines[0][1].grades == "grader":
            what, way = "not counted", "human counts them"
        yield f"{grades} {what} ({'; '.join(counts)}); --grades {way}."


def judge_notes(lines: Sequence[tuple[str, Entry]]) -> Iterator[str]:
    """Yield a note on the grades of a judge model: how many there are, and what of pass@1 rests on them."""
    judged = [(label, entry, entry.judged) for label, entry in lines if entry.judged is not None]
    counts = [
        (
            f"{label}, {entry.benchmark}: {grades.grades:,} grades, {grades.correct:,} of them correct, "
            f"{hundredths(grades.points)} points of pass@1"
        )
        for label, entry, grades in judged
    ]
    models = dict.fromkeys(grades.model for _, _, grades in judged)
    if judged:
        yield (
            f"Grades of the judge {', '.join(models)} are included ({'; '.join(counts)}) because --judge was "
            "given. Judges make errors: `tagrpo eval compare RUN --tool-grades --judge MODEL` measures the "
            "error rate on labelled responses."
        )


def source_notes(report: Report) -> Iterator[str]:
    """Yield what has to be said: that boxes alone count, or that much rests on last sentences."""
    if any(answers_of(line.entry.grader_version) == "boxed" for line in report.lines):
        yield "Only boxed answers count. Other answers are graded wrong."
    much = [
        f"{line.label} on {line.entry.benchmark} ({hundredths(share, 0)}%)"
        for line in report.lines
        if (share := line.entry.sources.by_place()[CORRECT_SHARE] or 0.0) >= MUCH
    ]
    if much:
        yield (
            "Many correct answers come from the last sentence of the response, without a box or marker. "
            f"Extraction is less reliable there: {', '.join(much)}. `tagrpo eval score RUN --answers boxed` "
            "counts only boxed answers."
        )


def _comparability(report: Report) -> Iterator[str]:
    by_benchmark = {
        benchmark: [line for line in report.lines if line.entry.benchmark == benchmark]
        for benchmark in report.benchmarks
    }
    for benchmark, lines in by_benchmark.items():
        if len({frozenset(line.entry.counts.problem_ids) for line in lines}) > 1:
            held = ", ".join(f"{line.label} {line.entry.counts.problems}" for line in lines)
            yield (
                f"{benchmark}: the rows have different problems ({held}), so they are not comparable and "
                "have no average. Problems also differ if their options were shuffled with different seeds."
            )
    for benchmark, lines in by_benchmark.items():
        specs = {line.label: line.entry.spec for line in lines}
        if differing := settings_that_differ_in_effect(specs, among=("prompt.", "sampling.")):
            yield f"{benchmark}: the rows were sampled with different settings: {'; '.join(differing)}."
    if AMC23 in report.benchmarks and AMC12 in {column.key for column in report.layout}:
        yield (
            "amc23 differs from the paper's AMC column, which has 83 problems (amc12) and includes all 40 "
            "of amc23. It has its own column and is not part of any average."
        )


def _paper(report: Report) -> Iterator[str]:
    if report.paper is None:
        return
    paper = report.paper.paper
    settings = paper["settings"]
    drawn = [f"{n} sample{'s' * (n != 1)} per problem"] if (n := settings.get("n")) else []
    drawn += [words.format(settings[name]) for name, words in _SETTINGS.items() if name in settings]
    yield (
        f"Rows marked (paper) come from {paper['name']}, {paper['source']}, which gives no intervals. "
        f"Settings according to {settings['whose']}: {joined(drawn)}. {settings['unsaid']}"
    )
    different: dict[str, list[str]] = {}
    for line in report.lines:
        for difference in _unlike_the_paper(line, settings, report.layout):
            different.setdefault(difference, []).append(f"{line.label} on {line.entry.benchmark}")
    everywhere = "all rows" if len(report.labels) > 1 else "everywhere"
    parts = [
        f"{difference} ({everywhere if len(places) == len(report.lines) else ', '.join(places)})"
        for difference, places in different.items()
    ]
    if parts:
        yield f"Different from the paper: {'; '.join(parts)}."
    for flag in report.paper.flags(report.ks):
        yield f"{paper['name']}: {flag}"


def _unlike_the_paper(
    line: ReportLine, settings: Mapping[str, Any], layout: Sequence[PaperColumn]
) -> list[str]:
    """Say in what a line differs from its paper, as far as that tells its settings."""
    spec, differences, drawn = line.entry.spec, [], least_and_most(line.counts.n)
    if "n" in settings and f"{settings['n']:,}" != drawn:
        differences.append(f"{drawn} samples per problem")
    if is_imported(line.entry.run):
        differences.append("prompt and settings of another tool")
    else:
        ours = {**dict(spec.sampling), "form": spec.prompt.form}
        differences += [
            words.format(ours[name])
            for name, words in _SETTINGS.items()
            if settings.get(name, ours[name]) != ours[name]
        ]
    sizes = {column.key: column.problems for column in layout}
    size = sizes.get(line.entry.benchmark)
    if size is not None and line.counts.problems != size:
        differences.append(f"{line.counts.problems} problems, not {size}")
    return differences
