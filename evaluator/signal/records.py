"""The results of a diagnosis as flat rows: for JSON, CSV and charts alike."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from evaluator.signal.cost import ChoiceRow
from evaluator.signal.diagnosis import Diagnosis, Part
from evaluator.signal.difficulty import NeighborRow
from evaluator.signal.diversity import EMBEDDING, ORIGINAL_PAIRS, REMARK, densities
from evaluator.signal.forecast import ForecastCheck

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
    for part in diagnosis.parts:
        made |= _TABLES[part](diagnosis)
    return made


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


def check_record(check: ForecastCheck) -> Record:
    """Return a check of the forecast as a row."""
    return {
        "pilot": check.pilot,
        "m": check.m,
        "g": check.g,
        "family": check.family,
        "predicted": check.predicted.share,
        "predicted_low": check.predicted.low,
        "predicted_high": check.predicted.high,
        "observed": check.observed.value,
        "observed_low": check.observed.low,
        "observed_high": check.observed.high,
        "questions": check.observed.questions,
        "error_points": 100 * check.error,
    }


def _zero_gradient_tables(diagnosis: Diagnosis) -> Tables:
    return {
        "zero_gradient": [asdict(row) for result in diagnosis.shares for row in result.shares],
        "zero_gradient_gaps": [asdict(row) for result in diagnosis.shares for row in result.gaps],
    }


def _forecast_tables(diagnosis: Diagnosis) -> Tables:
    return {
        "forecast": [
            {
                "checkpoint": prediction.checkpoint,
                "group": row.shape.name,
                "n": row.shape.n,
                "g": row.shape.g,
                "responses": row.shape.responses,
                "share": row.share,
                "low": row.low,
                "high": row.high,
                "questions": row.questions,
            }
            for prediction in diagnosis.predictions
            for row in prediction.rows
        ],
        "forecast_models": [
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
        ],
    }


def _choice_tables(diagnosis: Diagnosis) -> Tables:
    return {
        "choices": [
            {"checkpoint": choices.checkpoint, **choice_record(row)}
            for choices in diagnosis.choices
            for row in choices.rows
        ]
    }


def _difficulty_tables(diagnosis: Diagnosis) -> Tables:
    made: Tables = {f"difficulty_{name}": [] for name in ("tests", "spread", "strategies", "neighbors")}
    for audit in diagnosis.audits:
        label, spread = {"checkpoint": audit.checkpoint}, audit.spread
        made["difficulty_tests"] += [
            {**label, "prompts": "neighbors", **asdict(audit.between_neighbors)},
            {**label, "prompts": "original and neighbors", **asdict(audit.with_original)},
        ]
        made["difficulty_spread"].append(
            {
                **label,
                "mean": spread.shift.mean,
                "mean_low": spread.mean_low,
                "mean_high": spread.mean_high,
                "sd": spread.shift.sd,
                "sd_low": spread.sd_low,
                "sd_high": spread.sd_high,
                "stray_share": spread.shift.stray,
                "at_bound": bool(spread.shift.at_bound),
                "questions": audit.questions,
            }
        )
        for row in audit.strategies:
            record = asdict(row)
            rate = {f"rate_{key}": value for key, value in record.pop("rate").items()}
            made["difficulty_strategies"].append({**label, **record, **rate})
        made["difficulty_neighbors"] += [{**label, **neighbor_record(row)} for row in audit.neighbors]
    return made


def _diversity_tables(diagnosis: Diagnosis) -> Tables:
    results = diagnosis.diversities
    return {
        "diversity": [row for result in results for row in result.rows],
        "diversity_means": [
            {"checkpoint": result.checkpoint, "series": name, "minus": minus, **asdict(estimate)}
            for result in results
            for minus, estimates in ((None, result.means), (ORIGINAL_PAIRS, result.differences))
            for name, estimate in estimates.items()
        ],
        "diversity_densities": [row for result in results for row in densities(result)],
    }


def _cost_tables(diagnosis: Diagnosis) -> Tables:
    return {
        "cost": [
            {"checkpoint": report.checkpoint, **asdict(row)}
            for report in diagnosis.costs
            for row in report.rows
        ],
        "cost_break_even": [
            {"checkpoint": report.checkpoint, **asdict(report.break_even)}
            for report in diagnosis.costs
            if report.break_even is not None
        ],
    }


_TABLES: Mapping[Part, Callable[[Diagnosis], Tables]] = {
    "zero_gradient": _zero_gradient_tables,
    "forecast": _forecast_tables,
    "choices": _choice_tables,
    "difficulty": _difficulty_tables,
    "diversity": _diversity_tables,
    "cost": _cost_tables,
}
