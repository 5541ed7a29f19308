"""`tagrpo rollouts curves`: any logged metric of trainings over their steps, seeds as mean and band."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from service.errors import InputError
from ui.cli import output
from ui.cli.files import RowsFile, check_chart
from ui.cli.output import Terminal
from ui.cli.settings import Db
from ui.cli.train.rollouts import chosen_metrics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.runs.store import Run
    from trainer_adapter.record.reading import Record


def curves(
    runs: Annotated[list[str], Argument(help="Names or ids of training runs.")],
    metric: Annotated[
        list[str],
        Option(help="Logged metric; a final * matches any ending. Repeat the option for several."),
    ],
    seeds: Annotated[
        bool,
        Option(help="Combine runs that differ only in the seed: mean, lowest and highest."),
    ] = False,
    chart: Annotated[Path | None, Option(help="Draw one metric to a .png, .svg or .html file.")] = None,
    *,
    file: RowsFile,
    db: Db,
    terminal: Terminal,
) -> None:
    """Show logged metrics of several trainings over their steps.

    With --seeds, each value is the mean over seeds at the steps that all of them logged; low and high are the
    lowest and highest value, n is the number of seeds.

    Example: tagrpo rollouts curves ta-s0 ta-s1 --metric actor/lr --seeds --out lr.csv
    """
    from trainer_adapter.record.runs import choose_train_run, open_record
    from trainer_adapter.record.series import metric_names, seed_groups

    file.check()
    if chart is not None:
        check_chart(chart, overwrite=file.overwrite)
    with db.reading() as session:
        chosen = list({run.id: run for run in (choose_train_run(session, name) for name in runs)}.values())
        records = {run.id: open_record(session, run) for run in chosen}
    logged = sorted({name for record in records.values() for name in metric_names(record)})
    names = chosen_metrics(logged, metric)
    if chart is not None and len(names) != 1:
        raise InputError(f"--chart draws one metric, but {len(names)} match: {', '.join(names)}.")
    groups = seed_groups(chosen) if seeds else [(run,) for run in chosen]
    rows = [row for name in names for group in groups for row in _rows(group, records, name)]
    file.write(rows)
    if chart is not None:
        _draw(rows, names[0], max(map(len, groups)), chart)
    terminal.emit({"curves": rows}, _print, rows)


def _rows(group: "Sequence[Run]", records: "dict[str, Record]", name: str) -> list[dict[str, Any]]:
    from trainer_adapter.record.series import metric_points, over_seeds

    of_runs = [points for run in group if (points := metric_points(records[run.id], name))]
    label = " + ".join(run.name for run in group)
    return [
        {"label": label, "metric": name, **asdict(point), "step": int(point.step)}
        for point in over_seeds(of_runs)
    ]


def _print(rows: "Sequence[dict[str, Any]]") -> None:
    columns = ["label", "metric", "step", "value", "low", "high", "n"]
    output.table(columns, [[row[name] for name in columns] for row in rows], empty="no step has logged it")


def _draw(rows: "Sequence[dict[str, Any]]", metric: str, seeds: int, chart: Path) -> None:
    from ui.charts.saving import save_chart
    from ui.charts.training_steps import step_chart

    if seeds == 1:
        rows = [{name: row[name] for name in ("label", "step", "value")} for row in rows]
    save_chart(step_chart(rows, title=metric, y_title="as logged", seeds=seeds), chart)
    output.note(f"curves drawn in {chart}")
