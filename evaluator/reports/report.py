"""A report: methods by benchmarks at given k, averages, curves and notes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
from sqlalchemy.orm import Session

from evaluator.evals.results import majority_values, make_votes, read_answers
from evaluator.evals.runs import is_imported
from evaluator.grading import Grader
from evaluator.passk import (
    NEW_PROBLEMS,
    SAME_PROBLEMS,
    Counts,
    g_pass_at_k,
    new_problems_interval,
    pass_at_k,
    pass_hat_k,
)
from evaluator.passk.counts import check_ks, with_enough
from evaluator.passk.estimators import Floats
from evaluator.passk.intervals import interval_around, same_problems_errors
from evaluator.reports import published
from evaluator.reports.document import joined
from evaluator.reports.methods import Entry, Method
from evaluator.reports.published import PaperColumn, PublishedModel
from service.errors import InputError

PASS_AT_K, PASS_HAT_K, G_PASS_AT_K, MAJ_AT_K = "pass@k", "pass^k", "g-pass@k", "maj@k"
METRICS = (PASS_AT_K, PASS_HAT_K, G_PASS_AT_K, MAJ_AT_K)
INTERVALS = {"new-problems": NEW_PROBLEMS, "same-problems": SAME_PROBLEMS}
"""Intervals by the names they have on the command line."""
DEFAULT_K = 32
"""That of the TA-GRPO paper's Table 1."""
NO_PAPER = "none"
"""Given as the paper's model: show no published figures."""


@dataclass(frozen=True)
class Metric:
    """What is reported. `tau` belongs to g-pass@k: the share of the k draws that must be correct."""

    name: str = PASS_AT_K
    tau: float = 0.5

    def __post_init__(self) -> None:
        if self.name not in METRICS:
            raise InputError(f"there is no metric {self.name!r}. Choose one of {', '.join(METRICS)}.")
        if not 0 <= self.tau <= 1:
            raise InputError(f"tau is {self.tau}, but must be between 0 and 1.")

    @classmethod
    def parse(cls, text: str) -> "Metric":
        """Return a metric by its name, which may end in tau, as in g-pass@k:0.5."""
        name, colon, tau = text.partition(":")
        try:
            return cls(name, float(tau)) if colon and name == G_PASS_AT_K else cls(text)
        except ValueError:
            raise InputError(f"--metric {text}: give the share as a number, as in g-pass@k:0.5.") from None

    def title(self, k: int) -> str:
        """Return the metric's name at k: pass@32."""
        named = self.name[:-1] + str(k)
        return f"{named} (tau {self.tau:g})" if self.name == G_PASS_AT_K else named


@dataclass(frozen=True)
class MetricScore:
    """A metric at k, as a share."""

    k: int
    value: float  # unknown grades and missing samples counted wrong
    value_high: float  # the same counted correct
    low: float  # 95% interval of the question that `interval` names; it spans both values
    high: float
    interval: str
    problems: int  # that it rests on


@dataclass(frozen=True)
class ReportLine:
    """A method on one benchmark."""

    label: str
    entry: Entry
    counts: Counts
    # at the ks of the tables and the powers of two below, all over the same problems
    scores: tuple[MetricScore, ...]
    left_out: int  # problems with too few samples

    def at(self, k: int) -> MetricScore:
        """Return the score at a k of the report's tables."""
        return next(score for score in self.scores if score.k == k)


@dataclass(frozen=True)
class Report:
    """What a report shows."""

    metric: Metric
    interval: str
    ks: tuple[int, ...]  # the ks of its tables, ascending
    lines: tuple[ReportLine, ...]  # methods in order, each with its benchmarks in order
    # by label and column, at the ks of the tables; only of methods that have all benchmarks of the column
    averages: Mapping[tuple[str, str], tuple[MetricScore, ...]]
    paper: PublishedModel | None  # whose figures are shown, if any
    layout: tuple[PaperColumn, ...]  # the columns of the paper that is shown, or of the first paper
    remarks: tuple[str, ...]  # on its k and on published figures that it does not show

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line.label for line in self.lines))

    @property
    def benchmarks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line.entry.benchmark for line in self.lines))

    def score_at(self, label: str, column: str, k: int) -> MetricScore | None:
        """Return a method's score on a benchmark or in an average column; None if there is none."""
        scores = {(line.label, line.entry.benchmark): line.scores for line in self.lines} | {**self.averages}
        return next((score for score in scores.get((label, column), ()) if score.k == k), None)


def build_report(
    methods: Sequence[Method],
    *,
    ks: Sequence[int] | None = None,
    metric: Metric = Metric(),
    interval: str = NEW_PROBLEMS,
    paper: str | None = None,
    allow_missing: bool = False,
    session: Session | None = None,
) -> Report:
    """Return the report of methods.

    Args:
        ks: Of the tables; by default that of `usual_k`, and the largest k below with figures of the paper.
        interval: `NEW_PROBLEMS` or `SAME_PROBLEMS`.
        paper: A model that a paper has figures of, `NO_PAPER`, or None for the runs' own model.
        allow_missing: Leave problems with fewer than max(ks) samples out, for all methods alike.
        session: To read answers, which only maj@k needs.
    """
    if interval == SAME_PROBLEMS and metric.name not in (PASS_AT_K, PASS_HAT_K):
        raise InputError(f'{metric.name} has no "{SAME_PROBLEMS}" interval. Use --interval new-problems.')
    remarks: list[str] = []
    if ks is None:
        usual, reason = usual_k((m.label, entry) for m in methods for entry in m.entries.values())
        wanted: tuple[int, ...] = (usual,)
        remarks += reason
    else:
        wanted = check_ks(ks)
    model = _paper(methods, paper)
    printed = model.ks if model and metric.name == PASS_AT_K else ()
    if ks is None and not set(printed) & set(wanted):
        wanted = (*[k for k in printed if k < wanted[0]][-1:], *wanted)
    counts = _counts(methods, wanted[-1], allow_missing)
    lines = []
    for method in methods:
        for benchmark in published.in_order(method.entries):
            entry = method.entries[benchmark]
            kept = counts[method.label, benchmark]
            if metric.name == MAJ_AT_K:
                scores = _vote_scores(session, entry, kept.problem_ids, wanted)
            else:
                scores = score(kept, metric, curve_ks(int(kept.n.min()), wanted), interval)
            left_out = entry.counts.problems - kept.problems
            lines.append(ReportLine(method.label, entry, kept, scores, left_out))
    paper_model = model if {*printed} & {*wanted} else None
    if model and not paper_model:
        remarks.append(
            f"{model.name} reports only pass@{joined([str(k) for k in model.ks])}, so its figures do not "
            "appear for another k or metric."
        )
    layout = paper_model.layout if paper_model else published.usual_layout()
    averages = _averages(lines, wanted, layout)
    return Report(metric, interval, wanted, tuple(lines), averages, paper_model, layout, tuple(remarks))


def _vote_scores(
    session: Session | None, entry: Entry, problem_ids: Sequence[str], ks: Sequence[int]
) -> tuple[MetricScore, ...]:
    """Return the scores of maj@k from the stored answers, grouped by the grader."""
    if session is None:
        raise InputError("maj@k is a vote of the runs' answers. Pass the argument session.")
    answers = [
        read_answers(session, result.run.id, result.grader_version, result.grades) for result in entry.results
    ]
    with Grader() as grader:
        votes = make_votes(answers, grader.cluster_many)
    chosen = {id: votes[id] for id in problem_ids}
    return tuple(_over_problems(k, *majority_values(chosen, k)) for k in ks)


def curve_ks(most: int, wanted: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the ks of a curve: powers of two up to `most` samples, and those wanted."""
    powers = [2**power for power in range(max(most, 1).bit_length())]
    return tuple(sorted({*powers, *wanted}))


def usual_k(entries: Iterable[tuple[str, Entry]]) -> tuple[int, list[str]]:
    """Return 32 or the largest power of two for which every problem has samples, and why if it is smaller.

    `entries` come with the label of their method.
    """
    fewest, label, entry = min(
        ((int(min(filter(None, entry.counts.n), default=1)), label, entry) for label, entry in entries),
        key=lambda row: row[0],
    )
    if fewest >= DEFAULT_K:
        return DEFAULT_K, []
    k = 2 ** (fewest.bit_length() - 1)
    reason = (
        f"k = {k}, not {DEFAULT_K}: {label} has only {fewest} graded sample{'s' * (fewest != 1)} for "
        f"some problem of {entry.benchmark}."
    )
    if not is_imported(entry.run):
        reason += " To sample more, run `tagrpo eval run` with a larger --n."
    return k, [reason]


def _counts(methods: Sequence[Method], k: int, allow_missing: bool) -> dict[tuple[str, str], Counts]:
    """Return the counts by label and benchmark, of the problems that all methods on it have k samples of."""
    counts: dict[tuple[str, str], Counts] = {}
    for benchmark in dict.fromkeys(name for method in methods for name in method.entries):
        labels = [method.label for method in methods if benchmark in method.entries]
        sides = [method.entries[benchmark].counts for method in methods if benchmark in method.entries]
        try:
            kept, _ = with_enough(sides, k, allow_missing=allow_missing)
        except InputError as error:
            raise InputError(f"{', '.join(labels)}, {benchmark}: {error}") from error
        counts |= {(label, benchmark): each for label, each in zip(labels, kept, strict=True)}
    return counts


def _averages(
    lines: Sequence[ReportLine], ks: Sequence[int], layout: Sequence[PaperColumn]
) -> dict[tuple[str, str], tuple[MetricScore, ...]]:
    """Return the averages by label and column, without those over different problems."""
    by_method: dict[str, dict[str, ReportLine]] = {}
    for line in lines:
        by_method.setdefault(line.label, {})[line.entry.benchmark] = line
    averages: dict[tuple[str, str], tuple[MetricScore, ...]] = {}
    for column in layout:
        complete = {label: mine for label, mine in by_method.items() if column.of and {*column.of} <= {*mine}}
        ids = {
            (name, frozenset(mine[name].counts.problem_ids))
            for mine in complete.values()
            for name in column.of
        }
        if len(ids) == len(column.of):
            for label, mine in complete.items():
                averages[label, column.key] = tuple(
                    average([mine[name].at(k) for name in column.of]) for k in ks
                )
    return averages


def _paper(methods: Sequence[Method], asked: str | None) -> PublishedModel | None:
    """Return the model whose published figures belong to the report, if any."""
    if asked == NO_PAPER:
        return None
    if asked is not None:
        if (known := published.recognise(asked)) is None:
            available = ", ".join(published.models())
            raise InputError(f"no paper reports the model {asked!r}. Available: {available}.")
        return known
    entries = [entry for method in methods for entry in method.entries.values()]
    model, *others = (published.recognise(entry.spec.model) for entry in entries)
    if model is None or any(other is not model for other in others):
        return None
    columns = {column.key for column in model.layout}
    return model if any(entry.benchmark in columns for entry in entries) else None


def score(counts: Counts, metric: Metric, ks: Sequence[int], interval: str) -> tuple[MetricScore, ...]:
    """Return the scores at `ks` of a metric that is a function of counts; all are over the same problems.

    Args:
        interval: `NEW_PROBLEMS` or `SAME_PROBLEMS`; the latter for pass@k and pass^k only.
    """
    formulas: dict[str, Callable[..., Any]] = {PASS_AT_K: pass_at_k, PASS_HAT_K: pass_hat_k}
    formula = formulas.get(metric.name, partial(g_pass_at_k, tau=metric.tau))
    n, bounds = counts.n, (counts.correct, counts.most_correct)
    # pass^k of c correct is one minus pass@k of the n - c others, and has its error.
    sides = bounds if metric.name == PASS_AT_K else [n - correct for correct in bounds]
    errors = [same_problems_errors(n, side, ks) for side in sides] if interval == SAME_PROBLEMS else None
    scores = []
    for row, k in enumerate(ks):
        score = _over_problems(k, *(np.asarray(formula(n, correct, k)) for correct in bounds))
        if errors:
            same = interval_around((score.value, score.value_high), [side[row] for side in errors])
            score = replace(score, low=same.low, high=same.high, interval=interval)
        scores.append(score)
    return tuple(scores)


def _over_problems(k: int, low: Floats, high: Floats) -> MetricScore:
    """Return the score of per-problem values, with unknown grades counted wrong and right: "new problems"."""
    below, above = new_problems_interval(low), new_problems_interval(high)
    return MetricScore(
        k, float(low.mean()), float(high.mean()), below.low, above.high, NEW_PROBLEMS, len(low)
    )


def average(scores: Sequence[MetricScore]) -> MetricScore:
    """Return the mean over benchmarks, each counting alike whatever its number of problems.

    Its interval is that of a sum of independent estimates by the method of variance estimates recovery (Zou
    and Donner, Statistics in Medicine 2008).
    """
    first = scores[0]
    number = len(scores)
    value = sum(part.value for part in scores) / number
    value_high = sum(part.value_high for part in scores) / number
    down = sqrt(sum((part.value - part.low) ** 2 for part in scores)) / number
    up = sqrt(sum((part.high - part.value_high) ** 2 for part in scores)) / number
    low, high = max(0.0, value - down), min(1.0, value_high + up)
    problems = sum(part.problems for part in scores)
    return MetricScore(first.k, value, value_high, low, high, first.interval, problems)
