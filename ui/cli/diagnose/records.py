"""Results of `tagrpo diagnose` as flat records, for JSON and CSV alike."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evaluator.signal.cost import ChoiceRow, CostReport
    from evaluator.signal.difficulty import DifficultyAudit, NeighborRow
    from evaluator.signal.diversity import Diversity
    from evaluator.signal.forecast import Check, Forecast, ForecastRow
    from evaluator.signal.zero_gradient import ZeroGradient

Record = dict[str, Any]
Tables = dict[str, list[Record]]


def zero_gradient_tables(results: "Sequence[ZeroGradient]") -> Tables:
    return {
        "zero_gradient": [asdict(row) for result in results for row in result.shares],
        "zero_gradient_gaps": [asdict(row) for result in results for row in result.gaps],
    }


def forecast_tables(rows: "Sequence[tuple[str, Forecast, Sequence[ForecastRow]]]") -> Tables:
    return {
        "forecast": [
            {"checkpoint": label, **forecast_record(row)} for label, _, found in rows for row in found
        ],
        "forecast_models": [
            {
                "checkpoint": label,
                "family": fitted.model.mixture.family,
                "questions": fitted.questions,
                "fewest_samples": fitted.samples[0],
                "most_samples": fitted.samples[1],
                "shift_mean": None if fitted.model.shift is None else fitted.model.shift.mean,
                "shift_sd": None if fitted.model.shift is None else fitted.model.shift.sd,
                "shift_assumed": fitted.model.shift is not None and fitted.model.shift.assumed,
                "stray_share": None if fitted.model.shift is None else fitted.model.shift.stray,
                "at_bound": fitted.model.shift is not None and bool(fitted.model.shift.at_bound),
            }
            for label, fitted, _ in rows
        ],
    }


def choice_tables(rows: "Sequence[tuple[str, Sequence[ChoiceRow]]]") -> Tables:
    return {
        "choices": [{"checkpoint": label, **choice_record(row)} for label, found in rows for row in found]
    }


def choice_record(row: "ChoiceRow") -> Record:
    return {
        **vars(row),
        "per_hundred_responses": row.per_hundred,
        "equal_per_hundred_responses": row.equal_per_hundred,
    }


def forecast_record(row: "ForecastRow") -> Record:
    return {
        "group": row.shape.name,
        "n": row.shape.n,
        "g": row.shape.g,
        "responses": row.shape.responses,
        "share": row.share,
        "low": row.low,
        "high": row.high,
        "questions": row.questions,
    }


def check_record(check: "Check") -> Record:
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


def difficulty_tables(audits: "Sequence[DifficultyAudit]") -> Tables:
    return {
        "difficulty_tests": [record for audit in audits for record in _tests(audit)],
        "difficulty_spread": [
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
        ],
        "difficulty_strategies": [
            {"checkpoint": audit.checkpoint, **_flat(asdict(row), "rate")}
            for audit in audits
            for row in audit.strategies
        ],
        "difficulty_neighbors": [
            {"checkpoint": audit.checkpoint, **neighbor_record(row)}
            for audit in audits
            for row in audit.neighbors
        ],
    }


def neighbor_record(row: "NeighborRow") -> Record:
    return {**asdict(row), "rate": row.rate}


def diversity_tables(results: "Sequence[Diversity]") -> Tables:
    from evaluator.signal.diversity import densities

    return {
        "diversity": [asdict(row) for result in results for row in result.rows],
        "diversity_means": [
            {"checkpoint": result.checkpoint, "series": name, "minus": minus, **asdict(estimate)}
            for result in results
            for minus, estimates in ((None, result.means), ("original, G", result.differences))
            for name, estimate in estimates.items()
        ],
        "diversity_densities": [asdict(row) for result in results for row in densities(result)],
    }


def cost_tables(reports: "Sequence[tuple[str, CostReport]]") -> Tables:
    return {
        "cost": [{"checkpoint": label, **asdict(row)} for label, report in reports for row in report.rows],
        "cost_break_even": [
            {"checkpoint": label, **asdict(report.break_even)}
            for label, report in reports
            if report.break_even is not None
        ],
    }


def write_csv(folder: Path, tables: Mapping[str, Sequence[Record]], *, overwrite: bool) -> list[Path]:
    """Write each table with rows to `folder/NAME.csv` and return the files.

    Raises:
        InputError: a file exists and `overwrite` is off, or the disk does not take it.
    """
    from service.writing import check_file_target, write_file

    targets = {folder / f"{name}.csv": rows for name, rows in tables.items() if rows}
    for target in targets:  # all or none
        check_file_target(target, overwrite=overwrite)
    for target, rows in targets.items():

        def write(path: Path, rows: Sequence[Record] = rows) -> None:
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)

        write_file(target, write, overwrite=overwrite)
    return list(targets)


def _tests(audit: "DifficultyAudit") -> list[Record]:
    return [
        {"checkpoint": audit.checkpoint, "prompts": prompts, **asdict(test)}
        for prompts, test in (
            ("neighbors", audit.between_neighbors),
            ("original and neighbors", audit.with_original),
        )
    ]


def _flat(record: Record, name: str) -> Record:
    inner = record.pop(name)
    return {**record, **{f"{name}_{key}": value for key, value in inner.items()}}
