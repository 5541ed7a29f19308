"""Notes below a report: choices, differences from the paper, and limits of comparison."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session

from evaluator.evals.counts import CORRECT_SHARE
from evaluator.evals.runs import is_imported
from evaluator.grading.versions import answers_of, judge_of, version_taking
from evaluator.passk import NEW_PROBLEMS
from evaluator.passk.estimators import Ints
from evaluator.reports import published
from evaluator.reports.documents.document import hundredths, joined
from evaluator.reports.methods import Entry, Method, differing_settings
from evaluator.reports.published import PaperColumn
from evaluator.reports.report import MAJ_AT_K, Report, ReportLine
from service.questions.contamination import overlaps_with

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
            f"{entry.spec.problems}: the set {checked.set_name} contains {checked.problems} of its "
            f"{entry.spec.size} problems ({checked.variants} more are similar). A model trained on that set "
            "may have seen them. `tagrpo questions contamination` lists them."
        )
        for problems_hash, entry in entries.items()
        for checked in overlaps_with(session, problems_hash)
        if checked.problems
    ]


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


def run_notes(entries: Sequence[Entry]) -> list[str]:
    """Return notes on the runs of a table: unfinished ones, neighbors, older graders."""
    results = {result.run.id: result for entry in entries for result in entry.results}.values()
    notes = []
    for result in results:
        if result.run.finished_at is None:
            drawn = least_and_most(result.counts.n)
            notes.append(
                f"Run {result.run.name} is not finished. The report uses its current samples ({drawn} per "
                "problem)."
            )
    for number in dict.fromkeys(result.neighbors for result in results if result.neighbors):
        names = [result.run.name for result in results if result.neighbors == number]
        hold = f"Runs {', '.join(names)} contain" if len(names) > 1 else f"Run {names[0]} contains"
        each = "s" * (number > 1) + " each" * (len(names) > 1)
        notes.append(
            f"{hold} {number} neighbor{each}. Only the original questions count here; `tagrpo diagnose` "
            "compares both."
        )
    for version in sorted({result.grader_version for result in results}):
        ours = version_taking(answers_of(version))
        if version != ours and judge_of(version) is None:
            notes.append(
                f"Graded by {version}; this installation has {ours}. `tagrpo eval score RUN` grades again."
            )
    return notes


def human_notes(lines: Sequence[tuple[str, Entry]]) -> list[str]:
    """Return a note on people's grades: how many there are by label and benchmark, and whether they count."""
    counts = [
        (
            f"{label}, {entry.benchmark}: {entry.human:,}, {entry.overruled:,} of them different from the "
            "grader's"
        )
        for label, entry in lines
        if entry.human
    ]
    if not counts:
        return []
    number = sum(entry.human for _, entry in lines)
    grades = f"{number:,} human grade{'s' * (number > 1)}"
    what, way = ("used instead of the grader's", "grader ignores them")
    if lines[0][1].grades == "grader":
        what, way = "not counted", "human counts them"
    return [f"{grades} {what} ({'; '.join(counts)}); --grades {way}."]


def judge_notes(lines: Sequence[tuple[str, Entry]]) -> list[str]:
    """Return a note on the grades of a judge model: how many there are, and what of pass@1 rests on them."""
    judged = [(label, entry, entry.judged) for label, entry in lines if entry.judged is not None]
    if not judged:
        return []
    counts = [
        (
            f"{label}, {entry.benchmark}: {grades.grades:,} grades, {grades.correct:,} of them correct, "
            f"{hundredths(grades.points)} points of pass@1"
        )
        for label, entry, grades in judged
    ]
    models = dict.fromkeys(grades.model for _, _, grades in judged)
    note = (
        f"Grades of the judge {', '.join(models)} are included ({'; '.join(counts)}) because --judge was "
        "given. Judges make errors: `tagrpo eval compare RUN --tool-grades --judge MODEL` measures the "
        "error rate on labelled responses."
    )
    return [note]


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
        if differing := differing_settings(specs, among=("prompt.", "sampling.")):
            yield f"{benchmark}: the rows were sampled with different settings: {'; '.join(differing)}."
    if AMC23 in report.benchmarks and AMC12 in {column.key for column in report.layout}:
        yield (
            "amc23 differs from the paper's AMC column, which has 83 problems (amc12) and includes all 40 "
            "of amc23. It has its own column and is not part of any average."
        )


def _paper(report: Report) -> Iterator[str]:
    if report.paper is None:
        return
    paper = published.paper_of(report.paper)
    settings = paper.settings
    drawn = [f"{n} sample{'s' * (n != 1)} per problem"] if (n := settings.get("n")) else []
    drawn += [words.format(settings[name]) for name, words in _SETTINGS.items() if name in settings]
    yield (
        f"Rows marked (paper) come from {paper.name}, {paper.source}, which gives no intervals. "
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
    for flag in published.flags(report.paper, report.ks):
        yield f"{paper.name}: {flag}"


def _unlike_the_paper(
    line: ReportLine, settings: Mapping[str, Any], layout: Sequence[PaperColumn]
) -> list[str]:
    """Say in what a line differs from its paper, as far as that tells its settings."""
    spec = line.entry.spec
    sampling, differences, drawn = spec.sampling, [], least_and_most(line.counts.n)
    if "n" in settings and f"{settings['n']:,}" != drawn:
        differences.append(f"{drawn} samples per problem")
    if is_imported(line.entry.run):
        differences.append("prompt and settings of another tool")
    else:
        ours = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "form": spec.prompt.form,
        }
        differences += [
            _SETTINGS[name].format(value)
            for name, value in ours.items()
            if settings.get(name, value) != value
        ]
    sizes = {column.key: column.problems for column in layout}
    size = sizes.get(line.entry.benchmark)
    if size is not None and line.counts.problems != size:
        differences.append(f"{line.counts.problems} problems, not {size}")
    return differences
