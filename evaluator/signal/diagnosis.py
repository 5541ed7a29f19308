"""Diagnose the training signal from a source of responses, for commands, pages and the demo."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import multimode
from typing import Literal, get_args

import numpy as np

from evaluator.signal.cost import ASSUMPTIONS, TokenCosts, compare_choices, cost_report, mean_tokens
from evaluator.signal.cost import usd_per_token as token_price
from evaluator.signal.difficulty import audit_difficulty
from evaluator.signal.diversity import EMBEDDING, REMARK, Embed, diversity, fit_tf_idf
from evaluator.signal.groups import (
    ORIGINAL,
    CheckpointGroups,
    PartTables,
    ResponseSource,
    Row,
    count_groups,
    pool_visits,
)
from evaluator.signal.rates import Shift
from evaluator.signal.shapes import Forecast, forecast, paper_shapes, zero_gradient
from service.errors import InputError

Part = Literal["zero_gradient", "forecast", "choices", "difficulty", "diversity", "cost"]
PARTS: tuple[Part, ...] = get_args(Part)
OPTIONAL: dict[Part, tuple[str, ...]] = {
    "difficulty": ("difficulty_tests", "difficulty_spread", "difficulty_strategies", "difficulty_neighbors"),
    "diversity": ("diversity", "diversity_means", "diversity_densities"),
}
"""What not all responses allow, with its tables: they may have no neighbors, or no texts."""
_EVERY_CHECKPOINT = ("zero_gradient", "diversity")
"""Parts that compare checkpoints, whatever other parts are asked for."""

USUAL_G = 8
QUESTIONS = 500  # whose texts are compared, at most, drawn by the seed


@dataclass(frozen=True)
class DiagnosisSettings:
    """What is asked of the responses."""

    # responses to each prompt in a group; by default 8, or as many as most prompts have if those are fewer
    g: int | None = None
    n: int | None = None  # neighbors of a question; by default as many as most have
    shift_sd: float | None = None  # for a pilot without neighbors: standard deviation of their logit shift
    usd_per_gpu_hour: float | None = None
    tokens_per_second: float | None = None
    seed: int = 0  # of everything that is drawn


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The tables of the parts that were asked for: rows for JSON, CSV, charts, pages and text alike."""

    source: str
    g: int
    n: int
    settings: DiagnosisSettings
    tables: Mapping[str, list[Row]]
    forecasts: Mapping[str, Forecast]  # by checkpoint
    remarks: tuple[str, ...]  # notes on the figures
    left_out: Mapping[Part, str]  # why a part is missing

    @property
    def flagged(self) -> list[Row]:
        """The neighbors with an implausible success rate, the least plausible of a checkpoint first."""
        rows = [row for row in self.tables.get("difficulty_neighbors", ()) if row["flag"] is not None]
        labels = list(dict.fromkeys(row["checkpoint"] for row in rows))
        return sorted(rows, key=lambda row: (labels.index(row["checkpoint"]), row["p_value"]))

    def record(self) -> Row:
        """Return all of a diagnosis as one JSON object."""
        made: Row = {
            "source": self.source,
            "g": self.g,
            "neighbors": self.n,
            "seed": self.settings.seed,
            "notes": list(self.remarks),
            "left_out": dict(self.left_out),
            **self.tables,
        }
        if "difficulty_neighbors" in self.tables:
            made["flagged"] = self.flagged
        if self.tables.get("diversity"):
            made |= {"embedding": EMBEDDING, "remark": REMARK}
        if "cost" in self.tables:
            made["assumptions"] = list(ASSUMPTIONS)
        return made


def diagnose(
    source: ResponseSource, parts: Sequence[Part] = PARTS, settings: DiagnosisSettings = DiagnosisSettings()
) -> Diagnosis:
    """Return what the responses of a source say.

    One part alone is computed for every checkpoint. Of several the forecast, choices, cost and difficulty are
    those of the first checkpoint, and of `OPTIONAL` parts those that the responses do not allow are left out.
    """
    groups = [group for checkpoint in source.checkpoints for group in checkpoint.groups]
    # the most frequent numbers, the larger one of equally frequent ones
    responses = multimode(prompt.known + prompt.unknown for group in groups for prompt in group.prompts)
    g = max(2, min(USUAL_G, max(responses, default=0))) if settings.g is None else settings.g
    if settings.shift_sd is not None and settings.n is None:
        raise InputError("--assume-shift-sd needs --n N, the planned number of neighbors.")
    neighbors = multimode(sum(prompt.variant != ORIGINAL for prompt in group.prompts) for group in groups)
    n = max(neighbors, default=0) if settings.n is None else settings.n
    if n < 0 or (g < 2 and not {"zero_gradient", "diversity", "cost"}.isdisjoint(parts)):
        raise InputError(f"--g {g} and --n {n}: a group needs at least 2 responses (G), and N is at least 0.")
    several, computing = len(parts) > 1, _Parts(source, g, n, settings)
    tables: dict[str, list[Row]] = {}
    left_out: dict[Part, str] = {}
    notes = [*source.notes]
    for part in parts:
        try:
            for checkpoint in source.checkpoints[: 1 if several and part not in _EVERY_CHECKPOINT else None]:
                made, remarks = getattr(computing, part)(checkpoint)
                notes += remarks
                for name, rows in made.items():
                    tables.setdefault(name, []).extend({"checkpoint": checkpoint.label, **r} for r in rows)
        except InputError as error:
            if not several or part not in OPTIONAL:
                raise
            left_out[part] = str(error)
            tables |= {name: [] for name in OPTIONAL[part]}
    notes += [f"{part} is skipped: {why}" for part, why in left_out.items()]
    return Diagnosis(
        source=source.name,
        g=g,
        n=n,
        settings=settings,
        tables=tables,
        forecasts=computing.forecasts,
        remarks=tuple(dict.fromkeys(notes)),
        left_out=left_out,
    )


@dataclass
class _Parts:
    """The parts of a diagnosis, each a method that returns its tables for a checkpoint."""

    source: ResponseSource
    g: int
    n: int
    settings: DiagnosisSettings
    forecasts: dict[str, Forecast] = field(default_factory=dict)

    def zero_gradient(self, checkpoint: CheckpointGroups) -> PartTables:
        return zero_gradient(checkpoint, self.g, self.n)

    def forecast(self, pilot: CheckpointGroups) -> PartTables:
        fitted, shapes, notes = self._fit(pilot), paper_shapes(self.g, self.n), []
        shift, (fewest, most) = fitted.model.shift, fitted.samples
        if (largest := max(shape.g for shape in shapes)) > fewest:
            notes.append(
                f"G={largest} exceeds the {fewest} responses of the pilot, so the interval also covers other "
                "distributions of success rates"
            )
        model = {
            "family": fitted.model.family,
            "questions": fitted.questions,
            "fewest_samples": fewest,
            "most_samples": most,
            "shift_mean": None if shift is None else shift.mean,
            "shift_sd": None if shift is None else shift.sd,
            "shift_assumed": shift is not None and shift.assumed,
            "stray_share": None if shift is None else shift.stray,
            "at_bound": "" if shift is None else shift.at_bound,
        }
        return {"forecast": [fitted.row(shape) for shape in shapes], "forecast_models": [model]}, notes

    def choices(self, pilot: CheckpointGroups) -> PartTables:
        groups, model = pool_visits(pilot.groups), self._fit(pilot).model
        return {"choices": compare_choices(groups, model, self.g, self.n if model.shift else 0)}, []

    def difficulty(self, pilot: CheckpointGroups) -> PartTables:
        return audit_difficulty(pilot, seed=self.settings.seed), []

    def diversity(self, checkpoint: CheckpointGroups) -> PartTables:
        questions, seed = self._compared[checkpoint.label], self.settings.seed
        tables, notes = diversity(
            checkpoint.label,
            self.source.texts(checkpoint.label, questions),
            self._embed,
            self.g,
            self.n,
            seed=seed,
        )
        every = len({group.group_id for group in checkpoint.groups})
        if len(questions) < every:
            notes.insert(
                0,
                f"{checkpoint.label}: diversity uses the responses to {len(questions):,} of {every:,} "
                f"questions, sampled with seed {seed}",
            )
        return tables, notes

    @cached_property
    def _compared(self) -> dict[str, list[str]]:
        """The questions whose texts are compared, by checkpoint."""
        rng, drawn = np.random.default_rng(self.settings.seed), {}
        for checkpoint in self.source.checkpoints:
            ids = list(dict.fromkeys(group.group_id for group in checkpoint.groups))
            places = sorted(rng.permutation(len(ids))[:QUESTIONS].tolist())
            drawn[checkpoint.label] = [ids[place] for place in places]
        return drawn

    @cached_property
    def _embed(self) -> Embed:
        return fit_tf_idf(
            text
            for label, ids in self._compared.items()
            for _, prompts in self.source.texts(label, ids)
            for responses in prompts.values()
            for text in responses
        )

    def cost(self, pilot: CheckpointGroups) -> PartTables:
        price = token_price(self.settings.usd_per_gpu_hour, self.settings.tokens_per_second)
        tokens = TokenCosts(*mean_tokens(pilot), price)
        rows, even = cost_report(self._fit(pilot), self.g, self.n, tokens)
        notes = [f"assumed: {assumption}" for assumption in ASSUMPTIONS]
        if tokens.original is None:
            notes.append(
                "token counts are unknown, because neither the run nor the rollouts record response lengths"
            )
        return {"cost": rows, "cost_break_even": [even] if even else []}, notes

    def _fit(self, pilot: CheckpointGroups) -> Forecast:
        if pilot.label not in self.forecasts:
            counts, shift_sd = count_groups(pilot.groups), self.settings.shift_sd
            if shift_sd is not None and (counts.known[:, 1:] > 0).any():
                raise InputError("--assume-shift-sd is only for pilots without neighbors. Remove it.")
            shift = None if shift_sd is None else Shift(0.0, shift_sd, 0.0, assumed=True)
            self.forecasts[pilot.label] = forecast(counts, shift=shift, seed=self.settings.seed)
        return self.forecasts[pilot.label]
