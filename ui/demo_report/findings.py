"""Results of a finished demo, read once from its database; the report uses nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass

from evaluator.reports.comparing import MethodComparison, compare_methods
from evaluator.reports.methods import load_methods
from evaluator.reports.report import NO_PAPER, Report, build_report
from evaluator.signal.cost import CostReport
from evaluator.signal.diagnosis import DiagnosisSettings, Part, diagnose
from evaluator.signal.difficulty import DifficultyAudit
from evaluator.signal.diversity import Diversity
from evaluator.signal.forecast import ForecastRow
from evaluator.signal.groups import ResponseSource
from evaluator.signal.sources.eval_runs import eval_source
from evaluator.signal.zero_gradient import ZeroGradient
from rephraser.run.start import find_neighbor_run
from rephraser.sets import find_set
from rephraser.sets.types import SetHeader
from sandbox.demo.plan import (
    BASE,
    CANDIDATES,
    HELDOUT,
    KS,
    NEIGHBORS,
    PILOT,
    QUESTIONS,
    DemoPlan,
    G,
    comparisons,
)
from sandbox.scoring import Score, read_truth, score_run
from service.database import Database
from trainer_adapter.record.runs import choose_train_run, open_record

_OF_PILOT: tuple[Part, ...] = ("forecast", "difficulty")
_OF_MODELS: tuple[Part, ...] = ("zero_gradient", "diversity", "cost")


@dataclass(frozen=True)
class Trained:
    """A recorded training: metrics step by step, and all responses."""

    steps: tuple[Mapping[str, float], ...]
    rollouts: int

    def mean(self, metric: str, part: slice = slice(None)) -> float | None:
        """Return a metric's mean over the steps, or over a part of them; None if it is missing."""
        values = [step[metric] for step in self.steps[part] if metric in step]
        return sum(values) / len(values) if values else None

    @property
    def quarter(self) -> int:
        """Steps in a quarter of the training, at least one."""
        return max(1, len(self.steps) // 4)


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Results of a demo.

    Attributes:
        score: verdicts against the true labels.
        neighbor_set: the published version.
        forecast: of the pilot: groups by shape.
        audit: of the pilot: difficulty of neighbors.
        trained: by run.
        report: all models on the held-out questions.
        comparisons: pairs of runs, in the plan's order.
        shares, diversities, costs: on the neighbor set, of the base and of the first seed's models.
        labels: of the runs of those models.
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
    """Return the results of the demo's steps.

    Raises:
        TagrpoError: a step's results are missing.
    """
    names = [training.name for training in plan.trainings()]
    with Database.open(plan.database, create=False) as database, database.read() as session:
        score = score_run(session, find_neighbor_run(session, CANDIDATES), read_truth(plan.truth))
        header = find_set(session, f"{QUESTIONS}@1")
        trained = {}
        for name in names:
            record = open_record(session, choose_train_run(session, name))
            trained[name] = Trained(
                tuple(record.metrics().values()), int(record.counts().prompts["responses"].sum())
            )
        methods = load_methods(session, [f"{name}={name}.{HELDOUT}" for name in (BASE, *names)])
    report = build_report(methods, ks=KS, paper=NO_PAPER)
    by_label = {method.label: method for method in methods}
    compared = tuple(compare_methods(by_label[a], by_label[b], ks=KS) for a, b in comparisons(plan))
    measured = [PILOT, *(training.name for training in plan.trainings() if training.seed == 1)]
    settings = DiagnosisSettings(g=G, n=NEIGHBORS)
    with Database.open(plan.database, create=False) as database:
        pilot, every = _measured(database, [PILOT]), _measured(database, measured)
        foreseen, audited = (diagnose(pilot, [part], settings) for part in _OF_PILOT)
        shares, diversities, costs = (diagnose(every, [part], settings) for part in _OF_MODELS)
    return Findings(
        score=score,
        neighbor_set=header,
        forecast=foreseen.predictions[0].rows,
        audit=audited.audits[0],
        trained=trained,
        report=report,
        comparisons=compared,
        shares=shares.shares,
        diversities=diversities.diversities,
        costs=costs.costs,
        labels=(BASE, *measured[1:]),
    )


def _measured(database: Database, names: list[str]) -> ResponseSource:
    return eval_source(database, [f"{name}.{QUESTIONS}-1" for name in names])
