"""The results of a diagnosis as flat rows: for JSON, CSV and charts alike."""

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from evaluator.signal.cost import ChoiceRow
from evaluator.signal.diagnosis import Diagnosis
from evaluator.signal.difficulty import NeighborRow
from evaluator.signal.diversity import EMBEDDING, ORIGINAL_PAIRS, REMARK, densities

Record = dict[str, Any]
Tables = dict[str, list[Record]]


def diagnosis_record(diagnosis: Diagnosis) -> Record:
    """Return all of a diagnosis as one JSON object: what was asked, what has to be said, and its tables."""
    made: Record = {
        "source": diagnosis.source,
        "g": diagnosis.g,
        "neighbors": diagnosis.n,
        "seed": diagnosis.seed,
        "notes": list(diagnosis.remarks),
        "left_out": dict(diagnosis.left_out),
        **tables(diagnosis),
    }
    if "difficulty" in diagnosis.parts:
        made["flagged"] = [neighbor_record(row) for row in diagnosis.flagged]
    if diagnosis.diversities:
        made |= {"embedding": EMBEDDING, "remark": REMARK}
    if diagnosis.costs:
        made["assumptions"] = list(diagnosis.costs[0].assumptions)
    return made


def tables(diagnosis: Diagnosis) -> Tables:
    """Return the results by the name of their table, those of every part that was asked for."""
    made: Tables = {}
    parts, audits, diversities = diagnosis.parts, diagnosis.audits, diagnosis.diversities
    if "zero_gradient" in parts:
        made["zero_gradient"] = _labelled(diagnosis.shares, lambda result: result.shares)
        made["zero_gradient_gaps"] = _labelled(diagnosis.shares, lambda result: result.gaps)
    if "forecast" in parts:
        made["forecast"] = _labelled(diagnosis.predictions, lambda prediction: prediction.rows)
        made["forecast_models"] = [
            {
                "checkpoint": prediction.checkpoint,
                "family": prediction.forecast.model.mixture.family,
                "questions": prediction.forecast.questions,
                "fewest_samples": prediction.forecast.samples[0],
                "most_samples": prediction.forecast.samples[1],
                "shift_mean": None if shift is None else shift.mean,
                "shift_sd": None if shift is None else shift.sd,
                "shift_assumed": shift is not None and shift.assumed,
                "stray_share": None if shift is None else shift.stray,
                "at_bound": shift is not None and bool(shift.at_bound),
            }
            for prediction in diagnosis.predictions
            for shift in (prediction.forecast.model.shift,)
        ]
    if "choices" in parts:
        made["choices"] = _labelled(diagnosis.choices, lambda result: map(choice_record, result.rows))
    if "difficulty" in parts:
        made["difficulty_tests"] = _labelled(
            audits,
            lambda audit: [
                {"prompts": "neighbors", **asdict(audit.between_neighbors)},
                {"prompts": "original and neighbors", **asdict(audit.with_original)},
            ],
        )
        made["difficulty_spread"] = [
            {
                "checkpoint": audit.checkpoint,
                "mean": audit.spread.shift.mean,
                "mean_low": audit.spread.mean_low,
                "mean_high": audit.spread.mean_high,
                "sd": audit.spread.shift.sd,
                "sd_low": audit.spread.sd_low,
                "sd_high": audit.spread.sd_high,
                "stray_share": audit.spread.shift.stray,
                "at_bound": bool(audit.spread.shift.at_bound),
                "questions": audit.questions,
            }
            for audit in audits
        ]
        made["difficulty_strategies"] = _labelled(audits, lambda audit: audit.strategies)
        for row in made["difficulty_strategies"]:
            row |= {f"rate_{key}": value for key, value in row.pop("rate").items()}
        made["difficulty_neighbors"] = _labelled(audits, lambda audit: map(neighbor_record, audit.neighbors))
    if "diversity" in parts:
        made["diversity"] = _labelled(diversities, lambda result: result.rows)
        made["diversity_means"] = _labelled(
            diversities,
            lambda result: [
                {"series": name, "minus": minus, **asdict(estimate)}
                for minus, estimates in ((None, result.means), (ORIGINAL_PAIRS, result.differences))
                for name, estimate in estimates.items()
            ],
        )
        made["diversity_densities"] = _labelled(diversities, densities)
    if "cost" in parts:
        made["cost"] = _labelled(diagnosis.costs, lambda report: report.rows)
        made["cost_break_even"] = _labelled(
            diagnosis.costs, lambda report: [report.break_even] if report.break_even else []
        )
    return made


def _labelled(results: Iterable[Any], rows: Callable[[Any], Iterable[Any]]) -> list[Record]:
    """Return the rows of all results, records or dataclasses, each with its checkpoint first."""
    return [
        {"checkpoint": result.checkpoint, **(row if isinstance(row, dict) else asdict(row))}
        for result in results
        for row in rows(result)
    ]


def choice_record(row: ChoiceRow) -> Record:
    """Return what a number of neighbors yields as a row."""
    return {
        **vars(row),
        "per_hundred_responses": row.per_hundred,
        "equal_per_hundred_responses": row.equal_per_hundred,
    }


def neighbor_record(row: NeighborRow) -> Record:
    """Return a neighbor of an audit as a row."""
    return {**asdict(row), "rate": row.rate, "original_rate": row.original_correct / row.original_known}
