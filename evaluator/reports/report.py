"""A report: methods by benchmarks at given k, averages, curves and notes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy.orm import Session

from evaluator.evals.runs import is_imported
from evaluator.evals.votes import make_votes, read_answers
from evaluator.grading import Grader
from evaluator.passk import NEW_PROBLEMS, Counts
from evaluator.reports import published
from evaluator.reports.methods import Entry, Method
from evaluator.reports.published import PaperColumn
from evaluator.reports.scores import MAJ_AT_K, PASS_AT_K, Metric, Score, average, score, score_majority
from service.errors import InputError

DEFAULT_K = 32
"""That of the TA-GRPO paper's Table 1."""
NO_PAPER = "none"
"""Given as the paper's model: show no published figures."""

Majority = Callable[[Entry, Sequence[str], Sequence[int]], tuple[Score, ...]]
"""Scores of maj@k on problems by id at some k; it needs the answers, which counts do not hold."""


@dataclass(frozen=True)
class ReportLine:
    """A method on one benchmark."""

    label: str
    entry: Entry
    counts: Counts
    # at the ks of the tables and the powers of two below, all over the same problems
    scores: tuple[Score, ...]
    left_out: int  # problems with too few samples

    def at(self, k: int) -> Score:
        """Return the score at a k of the report's tables."""
        return next(score for score in self.scores if score.k == k)


@dataclass(frozen=True)
class AverageLine:
    """A method's mean over the benchmarks of an average column, named by its key in the report's layout."""

    label: str
    column: str
    of: tuple[str, ...]
    score: Score


@dataclass(frozen=True)
class Report:
    """What a report shows."""

    metric: Metric
    interval: str
    ks: tuple[int, ...]  # the ks of its tables, ascending
    chosen: str
    lines: tuple[ReportLine, ...]  # methods in order, each with its benchmarks in order
    averages: tuple[AverageLine, ...]  # at the ks of the tables, where all columns of an average are there
    paper: str | None  # the model whose published figures are shown, if any
    # the model whose published figures are not shown, because they are of another k or metric
    withheld: str | None = None
    no_average: tuple[str, ...] = ()  # why averages are missing that could be expected; empty where none is

    @property
    def layout(self) -> tuple[PaperColumn, ...]:
        """The columns of the paper beside it, or of the first paper."""
        return published.layout_of(self.paper)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line.label for line in self.lines))

    @property
    def benchmarks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line.entry.benchmark for line in self.lines))

    def find(self, label: str, benchmark: str) -> ReportLine | None:
        """Return a method's line on a benchmark, None where it was not run."""
        lines = (line for line in self.lines if (line.label, line.entry.benchmark) == (label, benchmark))
        return next(lines, None)


def build_report(
    methods: Sequence[Method],
    *,
    ks: Sequence[int] | None = None,
    metric: Metric = Metric(),
    interval: str = NEW_PROBLEMS,
    paper: str | None = None,
    allow_missing: bool = False,
    majority: Majority | None = None,
) -> Report:
    """Return the report of methods.

    Args:
        ks: of the tables; by default 32, or the largest power of two for which every problem has samples.
            Of a model that a paper has figures of at smaller k only, the largest of these too.
        interval: `NEW_PROBLEMS` or `SAME_PROBLEMS`.
        paper: a model that a paper has figures of, `NO_PAPER`, or None: the one that all runs' model names,
            if any.
        allow_missing: leave problems with fewer than max(ks) samples out, for all methods alike.
        majority: scores of maj@k; needed for that metric only.
    """
    wanted, chosen = _choose_ks(methods, ks)
    if ks is None and metric.name == PASS_AT_K:
        wanted = _with_printed(wanted, _paper(methods, paper))
    counts = _counts(methods, wanted[-1], allow_missing)
    lines = []
    for method in methods:
        for benchmark in published.in_order(method.entries):
            entry = method.entries[benchmark]
            kept = counts[method.label, benchmark]
            try:
                if metric.name == MAJ_AT_K:
                    if majority is None:
                        raise InputError("maj@k is a vote of the runs' answers. Pass the argument majority.")
                    scores = majority(entry, kept.problem_ids, wanted)
                else:
                    at = curve_ks(int(kept.n.min()), wanted)
                    scores = score(kept, metric, at, interval)
            except InputError as error:
                raise InputError(f"{method.label}, {benchmark}: {error}") from error
            left_out = entry.counts.problems - kept.problems
            lines.append(ReportLine(method.label, entry, kept, scores, left_out))
    model = _paper(methods, paper)
    beside = (
        model is not None
        and metric.name == PASS_AT_K
        and not set(wanted).isdisjoint(published.paper_of(model).ks(model))
    )
    averages, missing = _averages(lines, wanted, published.layout_of(model if beside else None))
    return Report(
        metric,
        interval,
        wanted,
        chosen,
        tuple(lines),
        averages,
        model if beside else None,
        withheld=None if beside else model,
        no_average=missing,
    )


def score_votes(
    session: Session, entry: Entry, problem_ids: Sequence[str], ks: Sequence[int]
) -> tuple[Score, ...]:
    """Return the scores of maj@k from the stored answers, grouped by the grader."""
    answers = [
        read_answers(session, result.run.id, result.grader_version, result.grades) for result in entry.results
    ]
    with Grader() as grader:
        return score_majority(make_votes(answers, grader.cluster_many), problem_ids, ks)


def curve_ks(most: int, wanted: Sequence[int]) -> tuple[int, ...]:
    """Return the ks of a curve: powers of two up to `most` samples, and those wanted."""
    powers = [2**power for power in range(max(most, 1).bit_length())]
    return tuple(sorted({*powers, *wanted}))


def _choose_ks(methods: Sequence[Method], ks: Sequence[int] | None) -> tuple[tuple[int, ...], str]:
    """Return the ks of the tables, and a word on the choice where there is something to say."""
    if ks is not None:
        wanted = tuple(sorted(set(ks)))
        if not wanted or wanted[0] < 1:
            raise InputError("k must be an integer of at least 1.")
        return wanted, ""
    entries = [(method.label, entry) for method in methods for entry in method.entries.values()]
    if not entries:
        raise InputError("no runs to report. Give at least one run.")
    fewest, label, entry = min(
        ((int(min(filter(None, entry.counts.n), default=1)), label, entry) for label, entry in entries),
        key=lambda row: row[0],
    )
    if fewest >= DEFAULT_K:
        return (DEFAULT_K,), ""
    k = 2 ** (fewest.bit_length() - 1)
    reason = (
        f"k = {k}, not {DEFAULT_K}: {label} has only {fewest} graded sample{'s' * (fewest != 1)} for "
        f"some problem of {entry.benchmark}."
    )
    if is_imported(entry.spec):
        return (k,), reason
    return (k,), f"{reason} To sample more, run `tagrpo eval run` with a larger --n."


def _counts(methods: Sequence[Method], k: int, allow_missing: bool) -> dict[tuple[str, str], Counts]:
    """Return the counts by label and benchmark, of the problems that all methods on it have k samples of."""
    counts = {(m.label, name): entry.counts for m in methods for name, entry in m.entries.items()}
    if not allow_missing:
        return counts
    for benchmark in {benchmark for _, benchmark in counts}:
        keys = [key for key in counts if key[1] == benchmark]
        if len({frozenset(counts[key].problem_ids) for key in keys}) > 1:
            groups = [[key] for key in keys]  # different problems cannot be made alike by leaving some out
        else:
            groups = [keys]
        for group in groups:
            enough = [
                {id for id, n in zip(counts[key].problem_ids, counts[key].n, strict=True) if n >= k}
                for key in group
            ]
            common = set.intersection(*enough)
            if not common:
                labels = ", ".join(label for label, _ in group)
                raise InputError(f"{labels}: no problem of {benchmark} has {k} graded samples.")
            for key in group:
                counts[key] = counts[key].select(np.array([id in common for id in counts[key].problem_ids]))
    return counts


def _averages(
    lines: Sequence[ReportLine], ks: Sequence[int], layout: Sequence[PaperColumn]
) -> tuple[tuple[AverageLine, ...], tuple[str, ...]]:
    by_method: dict[str, dict[str, ReportLine]] = {}
    for line in lines:
        by_method.setdefault(line.label, {})[line.entry.benchmark] = line
    averages, missing = [], []
    titles = {column.key: column.title for column in layout}
    for column in layout:
        if not column.of:
            continue
        names = column.of
        complete = {label: mine for label, mine in by_method.items() if all(name in mine for name in names)}
        mixed = [
            name
            for name in names
            if len({frozenset(mine[name].counts.problem_ids) for mine in complete.values()}) > 1
        ]
        if mixed:
            missing.append(
                f"no average over {', '.join(titles[name] for name in names)}: the rows "
                f"contain different problems of {', '.join(mixed)}."
            )
            continue
        for label, mine in complete.items():
            for k in ks:
                averages.append(
                    AverageLine(label, column.key, names, average([mine[name].at(k) for name in names]))
                )
    return tuple(averages), tuple(missing)


def _with_printed(ks: tuple[int, ...], model: str | None) -> tuple[int, ...]:
    """Return the ks; where none has printed figures of the model, with the largest below that has."""
    printed = () if model is None else published.paper_of(model).ks(model)
    below = [k for k in printed if k < ks[0]]
    return ks if not below or set(printed).intersection(ks) else (below[-1], *ks)


def _paper(methods: Sequence[Method], asked: str | None) -> str | None:
    if asked == NO_PAPER:
        return None
    if asked is not None:
        model: str | None = published.find_model(asked)
    else:
        entries = [entry for method in methods for entry in method.entries.values()]
        named = {published.recognise(entry.spec.model) for entry in entries}
        model = named.pop() if len(named) == 1 else None
        columns = {column.key for column in published.layout_of(model)}
        if all(entry.benchmark not in columns for entry in entries):
            model = None
    return model
