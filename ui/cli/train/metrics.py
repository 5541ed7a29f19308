"""`tagrpo train metrics`: what trainings logged, step by step."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from service.errors import InputError
from ui.cli import output
from ui.cli.files import Overwrite, check_chart
from ui.cli.output import Table, terminal
from ui.cli.settings import db


def metrics(
    runs: Annotated[list[str] | None, Argument(metavar="[RUN]...")] = None,
    metric: list[str] | None = None,
    seeds: bool = False,
    chart: Path | None = None,
    overwrite: Overwrite = False,
) -> None:
    """Show the logged metrics of training runs step by step.

    With --seeds, each value is the mean over seeds at the steps that all of them logged; low and high are the
    lowest and highest value, n is the number of seeds.

    Example: tagrpo train metrics ta --metric "tagrpo/zero/*"

    Example: tagrpo train metrics ta-s0 ta-s1 --metric actor/lr --seeds --chart lr.svg

    Args:
        runs: Training runs; optional if there is only one.
        metric: Logged metric; * matches any characters. Repeat the option for several. Default: four main
            ones.
        seeds: Combine runs that differ only in the seed: mean, lowest and highest.
        chart: Plot one metric to a .png, .svg or .json file.
    """
    from trainer_adapter.record.runs import choose_train_run, open_record
    from trainer_adapter.record.series import match_metrics, metric_names, metric_rows, seed_groups

    if chart is not None:
        check_chart(chart, overwrite=overwrite)
    with db.reading() as session:
        chosen = list(
            {run.id: run for run in (choose_train_run(session, each) for each in runs or [None])}.values()
        )
        records = {run.id: open_record(session, run) for run in chosen}
    for record in records.values():
        if unread := record.unread_metrics():
            output.note(
                f"{output.plural(unread, 'line')} of metrics.jsonl cannot be read. A kill leaves one."
            )
    logged = sorted({name for each in records.values() for name in metric_names(each)})
    names = match_metrics(logged, metric)
    if chart is not None and len(names) != 1:
        raise InputError(f"--chart plots one metric, but {len(names)} match: {', '.join(names)}.")
    groups = seed_groups(chosen) if seeds else [(run,) for run in chosen]
    rows = metric_rows(records, groups, names)
    if chart is not None:
        from ui.charts.saving import save_chart
        from ui.charts.training_steps import step_chart

        most = max(map(len, groups))
        drawn = ("label", "step", "value", *(("low", "high", "n") if most > 1 else ()))
        points = [{name: row[name] for name in drawn} for row in rows]
        save_chart(step_chart(points, title=names[0], y_title="as logged", seeds=most), chart)
        output.note(f"chart written to {chart}")
    lines: dict[tuple[str, int], dict[str, object]] = {}
    for row in rows:
        spread = f"{row['value']:.4g} ({row['low']:.4g} to {row['high']:.4g})"
        line = lines.setdefault((row["label"], row["step"]), {"run": row["label"], "step": row["step"]})
        line[row["metric"]] = spread if row["n"] > 1 else row["value"]
    table = Table(
        ["run", "step", *names], [[*map(line.get, ("run", "step", *names))] for line in lines.values()]
    )
    terminal.emit(
        {"metrics": rows}, table if rows else "no step has logged these metrics; --metric '*' shows all"
    )
