"""What the commands of `tagrpo diagnose` have in common: computing a part, delivering its rows."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ui.cli import output
from ui.cli.diagnose import input as given_by
from ui.cli.diagnose import records as records
from ui.cli.diagnose import reports as reports

if TYPE_CHECKING:
    from evaluator.signal.cost import ChoiceRow, CostReport
    from evaluator.signal.difficulty import DifficultyAudit
    from evaluator.signal.diversity import Diversity
    from evaluator.signal.forecast import Forecast, ForecastRow
    from evaluator.signal.groups import Checkpoint
    from evaluator.signal.zero_gradient import ZeroGradient


def shares(given: given_by.Given, g: int, neighbors: int | None) -> "list[ZeroGradient]":
    """Return the shares of each checkpoint."""
    from evaluator.signal.zero_gradient import zero_gradient as compute

    n = given.neighbors(neighbors)
    return [compute(checkpoint, g, n) for checkpoint in given.checkpoints]


def forecasts(
    given: given_by.Given, g: int, neighbors: int | None, shift_sd: float | None, seed: int
) -> "list[tuple[str, Forecast, list[ForecastRow]]]":
    """Return the forecast of each checkpoint with the rows of the paper's groups."""
    from evaluator.signal.forecast import paper_shapes

    shapes = paper_shapes(g, _planned(given, neighbors, shift_sd))
    found = []
    for checkpoint in given.checkpoints:
        fitted = _fit(checkpoint, shift_sd, seed)
        found.append((checkpoint.label, fitted, [fitted.row(shape) for shape in shapes]))
    return found


def _planned(given: given_by.Given, neighbors: int | None, shift_sd: float | None) -> int:
    """Return N: where a shift is assumed, the pilot's number of neighbors (0) says nothing."""
    if shift_sd is not None and neighbors is None:
        raise typer.BadParameter("--assume-shift-sd needs --neighbors N: how many do you plan?")
    return given.neighbors(neighbors)


def _fit(checkpoint: "Checkpoint", shift_sd: float | None, seed: int) -> "Forecast":
    from evaluator.signal.forecast import forecast as compute
    from evaluator.signal.groups import count_groups
    from evaluator.signal.rates import Shift

    counts = count_groups(checkpoint.groups)
    if shift_sd is not None and (counts.known[:, 1:] > 0).any():
        raise typer.BadParameter("--assume-shift-sd is for pilots without neighbors; this one has some")
    shift = None if shift_sd is None else Shift(0.0, shift_sd, 0.0, assumed=True)
    return compute(counts, shift=shift, seed=seed)


def validate(path: Path, g: int, seed: int, *, csv: Path | None, overwrite: bool, as_json: bool) -> None:
    """Check the forecast on a file of visits and print the result."""
    from evaluator.signal.forecast import check_halves
    from evaluator.signal.sources.rollouts import read_visits

    visits = read_visits(path)
    smallest = min(size for row in visits for _, size in row)
    pilots = [None, *(m for m in (4, 2) if m < smallest)]
    checks = [
        check_halves(visits, g, m=m, at_random=at_random, seed=seed)
        for at_random in (False, True)
        for m in pilots
    ]
    tables = {"forecast_checks": [records.check_record(check) for check in checks]}
    if csv is not None:
        records.write_csv(csv, tables, overwrite=overwrite)
    if as_json:
        output.print_json({"source": str(path), **tables})
    else:
        reports.print_checks(checks)


def choices(
    given: given_by.Given, g: int, neighbors: int | None, fitted: "Sequence[Forecast]"
) -> "list[tuple[str, list[ChoiceRow], int]]":
    """Return what numbers of neighbors yield, of each checkpoint by its own forecast; and its questions."""
    from evaluator.signal.cost import compare_choices
    from evaluator.signal.groups import pool_visits

    n = given.neighbors(neighbors)
    found = []
    for checkpoint, one in zip(given.checkpoints, fitted, strict=True):
        groups = pool_visits(checkpoint.groups)
        rows = compare_choices(groups, one.model, g, n if one.model.shift else 0)
        found.append((checkpoint.label, rows, len(groups)))
    return found


def audits(given: given_by.Given, fdr: float, seed: int) -> "list[DifficultyAudit]":
    """Return the difficulty audit of each checkpoint."""
    from evaluator.signal.difficulty import audit_difficulty

    return [audit_difficulty(checkpoint, fdr=fdr, seed=seed) for checkpoint in given.checkpoints]


def diversities(
    given: given_by.Given, embedding: str | None, g: int, neighbors: int | None, questions: int, seed: int
) -> "tuple[list[Diversity], str | None]":
    """Return the diversity of each checkpoint, and a remark on the embedding."""
    import numpy as np

    from evaluator.signal.diversity import diversity as compute
    from evaluator.signal.embeddings import make_embedder

    n = given.neighbors(neighbors)
    rng = np.random.default_rng(seed)
    readers = []
    for checkpoint in given.checkpoints:
        ids = list(dict.fromkeys(group.group_id for group in checkpoint.groups))
        chosen = sorted(rng.permutation(len(ids))[:questions].tolist())
        readers.append((checkpoint.label, given.texts(checkpoint, [ids[place] for place in chosen])))
        if len(chosen) < len(ids):
            output.note(
                f"{checkpoint.label}: {len(chosen):,} of {len(ids):,} questions, drawn by seed {seed}"
            )
    embedder = make_embedder(
        embedding,
        lambda: (
            text
            for _, read in readers
            for group in read()
            for responses in group.prompts.values()
            for text in responses
        ),
    )
    return [compute(label, read(), embedder, g, n, seed=seed) for label, read in readers], embedder.remark


def costs(
    given: given_by.Given,
    g: int,
    neighbors: int | None,
    usd_per_gpu_hour: float | None,
    tokens_per_second: float | None,
    seed: int,
    fitted: "Sequence[Forecast] | None" = None,
) -> "list[tuple[str, CostReport]]":
    """Return the costs of each checkpoint, by its own forecast: one fitted before, or a new one."""
    from evaluator.signal.cost import TokenCosts, cost_report, mean_tokens, usd_per_token

    price = usd_per_token(usd_per_gpu_hour, tokens_per_second)
    n = given.neighbors(neighbors)
    found = fitted or [_fit(checkpoint, None, seed) for checkpoint in given.checkpoints]
    return [
        (checkpoint.label, cost_report(one, g, n, TokenCosts(*mean_tokens(checkpoint), price)))
        for checkpoint, one in zip(given.checkpoints, found, strict=True)
    ]


def deliver(
    tables: records.Tables,
    given: given_by.Given,
    *,
    csv: Path | None,
    overwrite: bool,
    as_json: bool,
    more: Mapping[str, Any],
) -> None:
    """Write the CSV files, print the JSON object, and say what was odd about the input."""
    written: Sequence[Path] = [] if csv is None else records.write_csv(csv, tables, overwrite=overwrite)
    if as_json:
        output.print_json({"source": given.source, "notes": list(given.notes), **tables, **more})
        return
    for remark in given.notes:
        output.note(remark)
    if written:
        output.note(f"{len(written)} files written to {csv}")
