"""What a finished demo left in its database, read once: everything the report says comes from here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evaluator.reports.comparing import MethodComparison, compare_methods
from evaluator.reports.methods import load_methods
from evaluator.reports.report import NO_PAPER, Report, build_report
from evaluator.signal.cost import CostReport
from evaluator.signal.difficulty import DifficultyAudit
from evaluator.signal.diversity import Diversity
from evaluator.signal.forecast import ForecastRow
from evaluator.signal.zero_gradient import ZeroGradient
from rephraser.run.start import find_neighbor_run
from rephraser.sets import find_set
from rephraser.sets.types import SetHeader
from sandbox.demo_plan import (
    BASE,
    CANDIDATES,
    HELDOUT,
    KS,
    NEIGHBORS,
    PILOT,
    QUESTIONS,
    DemoPlan,
    comparisons,
)
from sandbox.scoring import Score, read_truth, score_run
from service.database import Database
from trainer_adapter.record.browsing import choose_train_run, read_steps
from ui.cli.diagnose import input as diagnose_input
from ui.cli.diagnose import work as diagnose_work

G = 8


@dataclass(frozen=True)
class Trained:
    """A training as it was recorded: metrics step by step, and all responses that were drawn."""

    steps: tuple[Mapping[str, float], ...]
    rollouts: int

    def mean(self, metric: str, *, first: int | None = None) -> float | None:
        """Return a metric's mean over the steps, or over the first of them; None where it is not there."""
        values = [step[metric] for step in self.steps[:first] if metric in step]
        return sum(values) / len(values) if values else None


@dataclass(frozen=True)
class Findings:
    """What came out.

    Attributes:
        score: verdicts against the truth.
        neighbor_set: the published version.
        forecast: of the pilot: groups by shape.
        audit: of the pilot: difficulty of neighbors.
        trained: by run.
        report: all models on the held-out questions.
        comparisons: pairs of runs, in the plan's order.
        shares, diversities, costs: on the neighbor set, of the base and of the first seed's models.
        labels: what the runs of those are called.
    """

    score: Score
    neighbor_set: SetHeader
    forecast: tuple[ForecastRow, ...]
    audit: DifficultyAudit
    trained: Mapping[str, Trained]
    report: Report
    comparisons: tuple[MethodComparison, ...]
    shares: tuple[ZeroGradient, ...]
    diversities: tuple[Diversity, ...]
    costs: tuple[CostReport, ...]
    labels: tuple[str, ...]


def read_findings(plan: DemoPlan) -> Findings:
    """Return what the demo's steps left.

    Raises:
        TagrpoError: a step has not left what it should.
    """
    names = [training.name for training in plan.trainings()]
    with Database.open(plan.database, create=False) as database, database.read() as session:
        score = score_run(session, find_neighbor_run(session, CANDIDATES), read_truth(plan.truth))
        header = find_set(session, f"{QUESTIONS}@1")
        trained = {}
        for name in names:
            steps = read_steps(session, choose_train_run(session, name).id)
            trained[name] = Trained(
                tuple(step.metrics for step in steps if step.metrics), sum(step.rollouts for step in steps)
            )
        methods = load_methods(session, [f"{name}={name}.{HELDOUT}" for name in (BASE, *names)])
    report = build_report(methods, ks=KS, paper=NO_PAPER)
    by_label = {method.label: method for method in methods}
    compared = tuple(compare_methods(by_label[a], by_label[b], ks=KS) for a, b in comparisons(plan))
    measured = [PILOT, *(training.name for training in plan.trainings() if training.seed == 1)]
    given = _load(plan, measured)
    pilot = _load(plan, [PILOT])
    [(_, _, rows)] = diagnose_work.forecasts(pilot, G, NEIGHBORS, None, 0)
    diversities, _ = diagnose_work.diversities(given, None, G, NEIGHBORS, 500, 0)
    return Findings(
        score,
        header,
        tuple(rows),
        diagnose_work.audits(pilot, 0.05, 0)[0],
        trained,
        report,
        compared,
        tuple(diagnose_work.shares(given, G, NEIGHBORS)),
        tuple(diversities),
        tuple(report for _, report in diagnose_work.costs(given, G, NEIGHBORS, None, None, 0)),
        (BASE, *measured[1:]),
    )


def _load(plan: DemoPlan, names: list[str]) -> Any:
    runs = [f"{name}.{QUESTIONS}-1" for name in names]
    return diagnose_input.load(runs, None, db=plan.database, windows=1, threshold=None, grader=None)
