"""What can be reported: the methods of a database by label, with the runs that measured them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count

from sqlalchemy.orm import Session

from evaluator.evals.overview import RunOverview, runs_overview
from evaluator.reports.methods import run_label


@dataclass(frozen=True)
class MethodChoice:
    """A method and its runs, one a benchmark.

    `runs` are those whose samples are all graded by one version; `not_ready` are the names of the others.
    """

    label: str
    runs: tuple[RunOverview, ...]
    not_ready: tuple[str, ...] = ()

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """The benchmarks of its runs, in order."""
        return tuple(str(one.run.spec["problems"]) for one in self.runs)

    def references(self, benchmarks: tuple[str, ...]) -> tuple[str, ...]:
        """Return what `load_methods` takes for it on these benchmarks."""
        return tuple(
            f"{self.label}={one.run.name}" for one in self.runs if one.run.spec["problems"] in benchmarks
        )


def method_choices(session: Session) -> list[MethodChoice]:
    """Return all methods of which samples were drawn, in the order of their first runs.

    A second run of a benchmark under one label does not go with the first: it stands under its whole name, or
    under that with a number where the name is the label.
    """
    ready: dict[str, list[RunOverview]] = {}
    waiting: dict[str, list[str]] = {}
    for one in sorted(runs_overview(session), key=lambda one: (one.run.created_at, one.run.name)):
        label = run_label(one.run)
        if not one.samples or one.grader is None or not one.grader.complete:
            waiting.setdefault(label, []).append(one.run.name)
            continue
        ready.setdefault(_free_label(ready, label, one), []).append(one)
    labels = dict.fromkeys([*ready, *waiting])
    return [
        MethodChoice(label, tuple(ready.get(label, ())), tuple(waiting.get(label, ()))) for label in labels
    ]


def _free_label(ready: Mapping[str, Sequence[RunOverview]], label: str, one: RunOverview) -> str:
    """Return the first name under which this run's benchmark is not measured yet."""
    benchmark, name = one.run.spec["problems"], one.run.name
    names = chain((label, name), (f"{name} ({number})" for number in count(2)))
    return next(
        each
        for each in names
        if benchmark not in {other.run.spec["problems"] for other in ready.get(each, ())}
    )
