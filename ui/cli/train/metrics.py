"""`tagrpo train metrics`: what trainings logged, step by step."""

from dataclasses import asdict
from fnmatch import filter as matching
from pathlib import Path
from typing import Annotated, Any

from typer import Argument

from service.errors import InputError
from ui.cli import output
from ui.cli.files import Overwrite, check_chart
from ui.cli.output import Table, terminal
from ui.cli.settings import db

MAIN_METRICS = (
    "tagrpo/correct/mean",
    "tagrpo/zero/joint/share",
    "tagrpo/entropy/mean",
    "tagrpo/tokens/mean",
)


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
    from trainer_adapter.record.series import metric_names, metric_points, over_seeds, seed_groups

    if chart is not None:
        check_chart(chart, overwrite=overwrite)
    with db.reading() as session:
        references: list[str | None] = [*runs] if runs else [None]
        chosen = [choose_train_run(session, reference) for reference in references]
        records = {run.id: open_record(session, run) for run in chosen}
    for record in records.values():
        if unread := record.unread_metrics():
            output.note(
                f"{output.plural(unread, 'line')} of metrics.jsonl cannot be read. A kill leaves one."
            )
    chosen = list({run.id: run for run in chosen}.values())
    names = _chosen_metrics(
        sorted({name for each in records.values() for name in metric_names(each)}), metric
    )
    if chart is not None and len(names) != 1:
        raise InputError(f"--chart plots one metric, but {len(names)} match: {', '.join(names)}.")
    groups = seed_groups(chosen) if seeds else [(run,) for run in chosen]
    rows: list[dict[str, Any]] = []
    for group in groups:
        label = " + ".join(run.name for run in group)
        of_group = [
            {"label": label, "metric": name, **asdict(point), "step": int(point.step)}
            for name in names
            for point in over_seeds(
                list(filter(None, (metric_points(records[run.id], name) for run in group)))
            )
        ]
        rows += sorted(of_group, key=lambda row: row["step"])
    if chart is not None:
        from ui.charts.saving import save_chart
        from ui.charts.training_steps import step_chart

        most = max(map(len, groups))
        drawn = (
            rows if most > 1 else [{name: row[name] for name in ("label", "step", "value")} for row in rows]
        )
        save_chart(step_chart(drawn, title=names[0], y_title="as logged", seeds=most), chart)
        output.note(f"chart written to {chart}")
    cells: dict[tuple[str, int], dict[str, object]] = {}
    for row in rows:
        spread = f"{row['value']:.4g} ({row['low']:.4g} to {row['high']:.4g})"
        value = spread if row["n"] > 1 else row["value"]
        cells.setdefault((row["label"], row["step"]), {})[row["metric"]] = value
    lines = [[*key, *map(of_step.get, names)] for key, of_step in cells.items()]
    empty = "no step has logged these metrics; --metric '*' shows all"
    terminal.emit({"metrics": rows}, Table(["run", "step", *names], lines, empty))


def _chosen_metrics(logged: list[str], patterns: list[str] | None) -> list[str]:
    """Return the logged names that match the patterns, in their order; without patterns the main ones."""
    names: dict[str, None] = {}
    for pattern in MAIN_METRICS if patterns is None else patterns:
        matches = matching(logged, pattern)
        if not matches and patterns is not None:
            from difflib import get_close_matches

            near = ", ".join(get_close_matches(pattern, logged, n=3, cutoff=0.3)) or "none at all"
            raise InputError(f"the run has no metric {pattern!r}. Similar: {near}.")
        names |= dict.fromkeys(matches)
    return list(names)
