"""`tagrpo diagnose`: what a set of rephrasings does to the training signal."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, BadParameter, Option

from ui.cli import output
from ui.cli.lazy import lazy_imports
from ui.cli.output import terminal
from ui.cli.settings import db

with lazy_imports():
    from evaluator.reports import diagnosis_layout
    from evaluator.signal import diagnosis as signal
    from rephraser.reviews import sheet as sheets
    from trainer_adapter.record import diagnosing
    from ui.cli import rephrase

BY_STEP = {"zero_gradient", "diversity"}
"""Parts that show stretches of training steps next to each other."""
WINDOWS = 5


def diagnose(
    runs: Annotated[list[str] | None, Argument(show_default=False)] = None,
    only: str | None = None,
    rollouts: Path | None = None,
    correct_above: float | None = None,
    g: Annotated[int | None, Option(min=1)] = None,
    n: int | None = None,
    assume_shift_sd: Annotated[float | None, Option(min=0)] = None,
    usd_per_gpu_hour: Annotated[float | None, Option(min=0)] = None,
    tokens_per_second: Annotated[float | None, Option(min=0.001)] = None,
    review_sheet: Path | None = None,
) -> None:
    """Show what rephrasings change in training: questions without a gradient, forecast, difficulty, cost.

    zero-gradient: share of questions whose responses all get the same reward. forecast: this share for any N
    and G, from a small pilot. choices: groups with right and wrong responses, by number of neighbors.
    difficulty: success rates of neighbors; implausible ones are flagged. diversity: how far responses to
    neighbors differ from those to the original. cost: what a group with right and wrong responses costs.

    Exit code 3: some neighbors are flagged.

    Example: tagrpo diagnose base step-100 --only forecast,cost

    Args:
        runs: Eval runs over a neighbor set, one per checkpoint; or one training run.
        only: Parts to show, separated by commas. Default: all that the responses allow.
        rollouts: Training rollouts instead of runs: a JSON Lines or parquet file, or a folder of them.
        correct_above: With --rollouts: rewards above this number are correct; not needed for 0/1 and -1/1.
        g: G, responses per prompt in a group. Default: 8, or fewer if most prompts have fewer.
        n: N, neighbors per question. Default: the number that most questions have.
        assume_shift_sd: Assumed standard deviation of the neighbors' logit shift (0.5 to 1), for a forecast
            without responses to neighbors.
        usd_per_gpu_hour: Cost: price of one GPU hour in USD.
        tokens_per_second: Cost: tokens that one GPU generates per second.
        review_sheet: Write the flagged neighbors to this new file, for tagrpo rephrase review --sheet.
    """
    if bool(runs) == (rollouts is not None):
        raise BadParameter("name eval runs or a training run, or give --rollouts PATH")
    if correct_above is not None and rollouts is None:
        raise BadParameter("--correct-above requires --rollouts")
    named = (only or ",".join(signal.PARTS)).replace("-", "_").replace(" ", "").split(",")
    if unknown := {*named} - {*signal.PARTS}:
        known = ", ".join(signal.PARTS).replace("_", "-")
        raise BadParameter(f"--only {', '.join(unknown)}: no such part. Available: {known}")
    parts = [part for part in signal.PARTS if part in named]
    cost: dict[str, Any] = {"usd_per_gpu_hour": usd_per_gpu_hour, "tokens_per_second": tokens_per_second}
    settings = signal.DiagnosisSettings(g, n, assume_shift_sd, **cost)
    windows = WINDOWS if BY_STEP & {*parts} else 1
    if rollouts is not None:
        source = diagnosing.path_source(rollouts, windows, correct_above)
        diagnosis = signal.diagnose(source, parts, settings)
    else:
        with db.open() as database:
            source = diagnosing.run_source(database, runs or [], windows)
            diagnosis = signal.diagnose(source, parts, settings)
    sheet_rows = None
    if review_sheet is not None and diagnosis.flagged:
        with db.reading() as session:
            sheet_rows, foreign = sheets.write_flagged(session, diagnosis.flagged, review_sheet)
        if foreign:
            output.note(f"{foreign:,} flagged neighbors are not candidates in this database and are left out")
    record = {**diagnosis.record(), "review_sheet_rows": sheet_rows}
    terminal.emit(
        record,
        diagnosis_layout.diagnosis_document(diagnosis),
        *rephrase.sheet_lines(review_sheet, sheet_rows),
    )
    if flagged := len(diagnosis.flagged):
        raise output.needs_attention(f"neighbors with an implausible success rate: {flagged:,}")
