"""Select the runs of a report's row: `RUN`, `LABEL=RUN`, `LABEL=RUN+RUN`, or a common prefix."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

from sqlalchemy.orm import Session

from evaluator.evals.counts import Grades, Sources
from evaluator.evals.overview import RunOverview, choose_version, runs_overview
from evaluator.evals.results import Judged, RunResult, load_result
from evaluator.evals.runs import EVAL, EvalSpec
from evaluator.grading.types import Answers
from evaluator.passk import pool
from service.errors import InputError
from service.runs.store import Run, differing_settings, matching_runs

_FREE = ("sampling.seed", "sampling.samples_per_request", "answers")
"""Settings in which pooled runs may differ."""


@dataclass(frozen=True, kw_only=True)
class Entry(RunResult):
    """A method on one benchmark: one run, or several of the same problems and settings, pooled."""

    benchmark: str  # with the part that was taken, see `RunOverview.benchmark`
    results: tuple[RunResult, ...]

    @property
    def runs(self) -> tuple[str, ...]:
        return tuple(result.run.name for result in self.results)


_SUMMED = ("samples", "missing", "truncated", "refused", "tokens", "usd", "human", "overruled")


def _pooled(benchmark: str, results: tuple[RunResult, ...]) -> Entry:
    """Return the results of runs as one; what one of them does not know is not known of all."""
    values: dict[str, Any] = {**vars(results[0])}
    for name in _SUMMED:
        parts = [getattr(result, name) for result in results]
        values[name] = None if None in parts else sum(parts)
    if len(results) > 1:
        values["counts"] = pool([result.counts for result in results])
        values["sources"] = sum((result.sources for result in results), Sources())
    judged = [(result.judged, result.samples) for result in results if result.judged is not None]
    if judged:
        values["judged"] = Judged(
            judged[0][0].model,
            sum(each.grades for each, _ in judged),
            sum(each.correct for each, _ in judged),
            sum(each.points * samples for each, samples in judged) / values["samples"],
        )
    return Entry(**values, benchmark=benchmark, results=results)


@dataclass(frozen=True)
class Method:
    """A row of a report: a label and what it reached on each benchmark, in the order given."""

    label: str
    entries: Mapping[str, Entry]


def load_methods(
    session: Session,
    references: Sequence[str],
    *,
    pool_anyway: bool = False,
    answers: Answers | None = None,
    grades: Grades = "human",
    own: str | None = None,
    judge: str | None = None,
) -> list[Method]:
    """Return the methods that references name, in order; references with one label are one method.

    A name is a run's name or id, or `NAME` for all runs called `NAME.<benchmark>`. `+` pools the samples of
    runs of one benchmark. The default label is the run's name without the benchmark at its end.

    Args:
        pool_anyway: Pool runs whose settings differ in more than the seed.
        answers, own, judge: Whose grades count, see `choose_version`.
        grades: Whether people's grades override the grader's.
    """
    if not references:
        raise InputError("give at least one run. `tagrpo runs list` lists them.")
    parts = {each.run.id: each.benchmark for each in runs_overview(session)}
    groups: dict[str, dict[str, list[Run]]] = {}
    for reference in references:
        given, names = _parse(reference)
        mine: dict[tuple[str, str], list[Run]] = {}
        for name, run in [(each, run) for each in names for run in matching_runs(session, each, EVAL)]:
            label = given or (reference if len(names) > 1 else "")
            label = label or (name if run.name.startswith(f"{name}.") else run_label(run))
            mine.setdefault((label, parts[run.id]), []).append(run)
        for (label, benchmark), several in mine.items():
            by_benchmark = groups.setdefault(label, {})
            if benchmark in by_benchmark or len(several) > len(names):
                selected = ", ".join(run.name for run in (*by_benchmark.get(benchmark, ()), *several))
                raise InputError(
                    f"{label} selects several runs of {benchmark}: {selected}. Give each its own label "
                    "(LABEL=RUN), or pool them (LABEL=RUN+RUN)."
                )
            _check_poolable(several, pool_anyway=pool_anyway)
            by_benchmark[benchmark] = several
    chosen = [run for entries in groups.values() for several in entries.values() for run in several]
    version = choose_version(session, chosen, answers, own=own, judge=judge)
    methods = []
    for label, entries in groups.items():
        measured = {}
        for name, several in entries.items():
            results = tuple(load_result(session, run, version, grades=grades) for run in several)
            measured[name] = _pooled(name, results)
        methods.append(Method(label, measured))
    return methods


def settings_that_differ_in_effect(
    specs: Mapping[str, EvalSpec], *, among: Sequence[str] = ("",)
) -> list[str]:
    """Return the settings in which specs (by a name to show) differ, each with its values.

    `among` are beginnings of the paths of settings to look at (`sampling.`, `prompt.`); all by default.
    """
    differing = differing_settings({f"in {name}": spec.to_json() for name, spec in specs.items()})
    chosen = (path for path in differing if path not in _FREE and path.startswith(tuple(among)))
    return [differing[path] for path in chosen]


def run_label(run: Run) -> str:
    """Return an eval run's name without the benchmark at its end: the method that it measured."""
    return run.name.removesuffix("." + run.spec["problems"].replace("@", "-"))


@dataclass(frozen=True)
class MethodChoice:
    """A method and its runs, one per benchmark."""

    label: str
    runs: tuple[RunOverview, ...]  # whose samples are all graded by one version
    not_ready: tuple[RunOverview, ...] = ()  # the others

    @property
    def benchmarks(self) -> tuple[str, ...]:
        return tuple(overview.benchmark for overview in self.runs)

    def references(self, benchmarks: tuple[str, ...]) -> tuple[str, ...]:
        """Return what `load_methods` takes for it on these benchmarks."""
        return tuple(
            f"{self.label}={overview.run.name}" for overview in self.runs if overview.benchmark in benchmarks
        )


def method_choices(session: Session) -> list[MethodChoice]:
    """Return all methods with samples, in the order of their first runs.

    A second run of a benchmark under one label gets its whole name, with a number if that is taken too.
    """
    ready: dict[str, dict[str, RunOverview]] = {}
    waiting: dict[str, list[RunOverview]] = {}
    for overview in sorted(runs_overview(session), key=lambda each: (each.run.created_at, each.run.name)):
        label, name = run_label(overview.run), overview.run.name
        if not overview.samples or overview.grader is None or not overview.grader.complete:
            waiting.setdefault(label, []).append(overview)
            continue
        names = chain((label, name), (f"{name} ({number})" for number in count(2)))
        free = next(each for each in names if overview.benchmark not in ready.get(each, {}))
        ready.setdefault(free, {})[overview.benchmark] = overview
    return [
        MethodChoice(label, tuple(ready.get(label, {}).values()), tuple(waiting.get(label, ())))
        for label in dict.fromkeys([*ready, *waiting])
    ]


def _parse(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the label of a reference, empty if it has none, and the names of its runs."""
    label, sign, rest = text.rpartition("=") if "=" in text else ("", "", text)
    names = tuple(name.strip() for name in rest.split("+"))
    if (sign and not label.strip()) or not all(names):
        raise InputError(f"{text!r} has an empty label or run. Write RUN, LABEL=RUN or LABEL=RUN+RUN.")
    return label.strip(), names


def _check_poolable(runs: Sequence[Run], *, pool_anyway: bool) -> None:
    if len(runs) == 1:
        return
    names = " and ".join(run.name for run in runs)
    if len({run.id for run in runs}) < len(runs):
        raise InputError(f"{names}: a run appears twice, so its samples would count twice. Remove one.")
    specs = {run.name: EvalSpec.model_validate(run.spec) for run in runs}
    if len({spec.problems_hash for spec in specs.values()}) > 1:
        raise InputError(f"{names} contain different problems, so they cannot be pooled.")
    if pool_anyway:
        return
    differing = settings_that_differ_in_effect(specs)
    if differing:
        raise InputError(
            f"{names} differ in more than the seed: {'; '.join(differing)}. Pass --allow pooling to pool "
            "them nevertheless."
        )
    if len({spec.sampling.seed for spec in specs.values()}) < len(specs):
        raise InputError(
            f"{names} have the same seed, so their samples may be identical. Sample one of them again "
            "with another seed, or pass --allow pooling."
        )
