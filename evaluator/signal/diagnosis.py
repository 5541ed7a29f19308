"""Diagnose the training signal from a source of responses, for commands, pages and the demo."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from evaluator.signal.cost import ChoiceRow, CostReport, TokenCosts, compare_choices, cost_report, mean_tokens
from evaluator.signal.cost import usd_per_token as token_price
from evaluator.signal.difficulty import FDR, DifficultyAudit, NeighborRow, audit_difficulty
from evaluator.signal.diversity import REMARK, Diversity, diversity, fit_tf_idf
from evaluator.signal.forecast import (
    Forecast,
    ForecastRow,
    forecast,
    paper_shapes,
)
from evaluator.signal.groups import (
    CheckpointGroups,
    ResponseSource,
    count_groups,
    pool_visits,
    usual_neighbors,
    usual_responses,
)
from evaluator.signal.rates import Shift
from evaluator.signal.zero_gradient import ZeroGradient, zero_gradient
from service.errors import InputError

Part = Literal["zero_gradient", "forecast", "choices", "difficulty", "diversity", "cost"]
PARTS: tuple[Part, ...] = get_args(Part)
OPTIONAL: tuple[Part, ...] = ("difficulty", "diversity")
"""What not all responses allow: they may have no neighbors, or no texts."""

USUAL_G = 8
QUESTIONS = 500


@dataclass(frozen=True)
class DiagnosisSettings:
    """What is asked of the responses."""

    # responses to each prompt in a group; by default 8, or as many as most prompts have if those are fewer
    g: int | None = None
    n: int | None = None  # neighbors of a question; by default as many as most have
    fdr: float = FDR  # largest share of false alarms among flagged neighbors
    shift_sd: float | None = None  # for a pilot without neighbors: standard deviation of their logit shift
    questions: int = QUESTIONS  # whose texts are compared, at most, drawn by the seed
    usd_per_gpu_hour: float | None = None
    tokens_per_second: float | None = None
    seed: int = 0  # of everything that is drawn


@dataclass(frozen=True)
class Prediction:
    """The forecast from a checkpoint, with a row for each of the paper's groups."""

    checkpoint: str
    forecast: Forecast
    rows: tuple[ForecastRow, ...]


@dataclass(frozen=True)
class Choices:
    """What numbers of neighbors yield by the forecast from a checkpoint with so many questions."""

    checkpoint: str
    questions: int
    rows: tuple[ChoiceRow, ...]


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The parts that were asked for, each with a result a checkpoint."""

    source: str
    parts: tuple[Part, ...]
    g: int
    n: int
    seed: int
    notes: tuple[str, ...]  # remarks on the source and on what was drawn from it
    shares: tuple[ZeroGradient, ...] = ()
    predictions: tuple[Prediction, ...] = ()
    choices: tuple[Choices, ...] = ()
    audits: tuple[DifficultyAudit, ...] = ()
    diversities: tuple[Diversity, ...] = ()
    costs: tuple[CostReport, ...] = ()
    left_out: Mapping[Part, str] = field(default_factory=dict)  # why a part is missing

    @property
    def flagged(self) -> list[NeighborRow]:
        """The neighbors with an implausible success rate."""
        return [row for audit in self.audits for row in audit.flagged]

    @property
    def remarks(self) -> tuple[str, ...]:
        """What has to be said beside the figures."""
        return tuple(dict.fromkeys(_remarks(self)))


def diagnose(
    source: ResponseSource, parts: Sequence[Part] = PARTS, settings: DiagnosisSettings = DiagnosisSettings()
) -> Diagnosis:
    """Return what the responses of a source say.

    One part alone is computed for every checkpoint. Of several the forecast, what hangs on it (choices and
    cost) and the difficulty are those of the first checkpoint, and of `OPTIONAL` parts those that the
    responses do not allow are left out.
    """
    groups = [group for checkpoint in source.checkpoints for group in checkpoint.groups]
    g = max(2, min(USUAL_G, usual_responses(groups))) if settings.g is None else settings.g
    if settings.n is not None and settings.n < 0:
        raise InputError(f"--n is {settings.n}, but must be at least 0.")
    if settings.shift_sd is not None and settings.n is None:
        raise InputError("--assume-shift-sd needs --n N, the planned number of neighbors.")
    n = usual_neighbors(groups) if settings.n is None else settings.n
    several = len(parts) > 1
    pilots = source.checkpoints[:1] if several else source.checkpoints
    notes: list[str] = list(source.notes)
    left_out: dict[Part, str] = {}

    fitted: list[tuple[CheckpointGroups, Forecast]] = []
    if {"forecast", "choices", "cost"} & set(parts):
        fitted = [(pilot, _fit(pilot, settings)) for pilot in pilots]
    makers: dict[Part, Callable[[], Iterable[Any]]] = {
        "zero_gradient": lambda: (zero_gradient(each, g, n) for each in source.checkpoints),
        "forecast": lambda: (
            Prediction(pilot.label, model, tuple(map(model.row, paper_shapes(g, n))))
            for pilot, model in fitted
        ),
        "choices": lambda: (_choices(pilot, model, g, n) for pilot, model in fitted),
        "cost": lambda: (_cost(pilot, model, g, n, settings) for pilot, model in fitted),
        "difficulty": lambda: (
            audit_difficulty(pilot, fdr=settings.fdr, seed=settings.seed) for pilot in pilots
        ),
        "diversity": lambda: _diversities(source, g, n, settings, notes),
    }
    made: dict[Part, tuple[Any, ...]] = {}
    for part in parts:
        try:
            made[part] = tuple(makers[part]())
        except InputError as error:
            if not several or part not in OPTIONAL:
                raise
            left_out[part] = str(error)
    return Diagnosis(
        source=source.name,
        parts=tuple(parts),
        g=g,
        n=n,
        seed=settings.seed,
        notes=tuple(notes),
        shares=made.get("zero_gradient", ()),
        predictions=made.get("forecast", ()),
        choices=made.get("choices", ()),
        audits=made.get("difficulty", ()),
        diversities=made.get("diversity", ()),
        costs=made.get("cost", ()),
        left_out=left_out,
    )


def _fit(pilot: CheckpointGroups, settings: DiagnosisSettings) -> Forecast:
    counts = count_groups(pilot.groups)
    if settings.shift_sd is None:
        return forecast(counts, seed=settings.seed)
    if (counts.known[:, 1:] > 0).any():
        raise InputError("--assume-shift-sd is only for pilots without neighbors. Remove it.")
    return forecast(counts, shift=Shift(0.0, settings.shift_sd, 0.0, assumed=True), seed=settings.seed)


def _choices(pilot: CheckpointGroups, fitted: Forecast, g: int, n: int) -> Choices:
    groups = pool_visits(pilot.groups)
    rows = compare_choices(groups, fitted.model, g, n if fitted.model.shift else 0)
    return Choices(pilot.label, len(groups), tuple(rows))


def _cost(
    pilot: CheckpointGroups, fitted: Forecast, g: int, n: int, settings: DiagnosisSettings
) -> CostReport:
    price = token_price(settings.usd_per_gpu_hour, settings.tokens_per_second)
    return cost_report(fitted, g, n, TokenCosts(*mean_tokens(pilot), price), checkpoint=pilot.label)


def _diversities(
    source: ResponseSource, g: int, n: int, settings: DiagnosisSettings, notes: list[str]
) -> list[Diversity]:
    rng = np.random.default_rng(settings.seed)
    drawn = {}
    for checkpoint in source.checkpoints:
        ids = list(dict.fromkeys(group.group_id for group in checkpoint.groups))
        places = sorted(rng.permutation(len(ids))[: settings.questions].tolist())
        drawn[checkpoint.label] = [ids[place] for place in places]
        if len(places) < len(ids):
            notes.append(
                f"{checkpoint.label}: diversity uses the responses to {len(places):,} of {len(ids):,} "
                f"questions, sampled with seed {settings.seed}"
            )
    embed = fit_tf_idf(
        text
        for label, ids in drawn.items()
        for _, prompts in source.texts(label, ids)
        for responses in prompts.values()
        for text in responses
    )
    return [
        diversity(label, source.texts(label, ids), embed, g, n, seed=settings.seed)
        for label, ids in drawn.items()
    ]


def _remarks(diagnosis: Diagnosis) -> Iterator[str]:
    yield from diagnosis.notes
    for result in diagnosis.shares:
        yield from (f"{result.checkpoint}: {remark}" for remark in result.notes)
    for prediction in diagnosis.predictions:
        largest, fewest = max(row.g for row in prediction.rows), prediction.forecast.samples[0]
        if largest > fewest:
            yield (
                f"G={largest} exceeds the {fewest} responses of the pilot, so the interval also covers "
                "other distributions of success rates"
            )
    for distances in diagnosis.diversities:
        if distances.left_out:
            yield (
                f"{distances.checkpoint}: {distances.left_out:,} questions with too few responses are "
                "excluded"
            )
        if distances.without_vector:
            yield (
                f"{distances.checkpoint}: {distances.without_vector:,} responses are excluded, because they "
                "contain no words or formulas"
            )
    if diagnosis.diversities:
        yield REMARK
    for costs in diagnosis.costs:
        yield from (f"assumed: {assumption}" for assumption in costs.assumptions)
        if costs.tokens.original is None:
            yield "token counts are unknown, because neither the run nor the rollouts record response lengths"
    for part, reason in diagnosis.left_out.items():
        yield f"{part} is skipped: {reason}"
