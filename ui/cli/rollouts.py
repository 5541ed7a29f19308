"""`tagrpo train metrics` and `rollouts`: what trainings logged and sampled."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from service.errors import InputError
from ui.cli import output
from ui.cli.output import Table, terminal
from ui.cli.settings import Limit, Overwrite, db

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from service.runs.store import Run
    from trainer_adapter.record.reading import Record


def metrics(
    runs: Annotated[list[str] | None, Argument(metavar="[RUN]...")] = None,
    metric: list[str] | None = None,
    seeds: bool = False,
    chart: Path | None = None,
    overwrite: Overwrite = False,
) -> None:
    """Show the logged metrics of training runs step by step.

    Example: tagrpo train metrics ta --metric "tagrpo/zero/*"

    Args:
        runs: Training runs; optional if there is only one.
        metric: Logged metric; * matches any characters. Default: four main ones.
        seeds: Combine runs that differ only in the seed: mean, lowest and highest value of common steps.
        chart: Plot one metric to a .png, .svg or .json file.
    """
    from trainer_adapter.record.runs import choose_train_run, open_record
    from trainer_adapter.record.series import match_metrics, metric_names, metric_rows, seed_groups
    from ui.charts.saving import check_chart

    if chart is not None:
        check_chart(chart, overwrite=overwrite)
    with db.reading() as session:
        asked: list[str | None] = [*runs] if runs else [None]
        chosen = list({run.id: run for run in (choose_train_run(session, each) for each in asked)}.values())
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
        line = lines.setdefault((row["label"], row["step"]), {})
        line[row["metric"]] = spread if row["n"] > 1 else row["value"]
    table = Table(["run", "step", *names], [[*place, *map(line.get, names)] for place, line in lines.items()])
    terminal.emit(
        {"metrics": rows}, table if rows else "no step has logged these metrics; --metric '*' shows all"
    )


ROLLOUT_ID = re.compile(r"(?:(.+):)?(\d+:\d+)")


def rollouts(
    target: Annotated[str | None, Argument(metavar="[RUN|RUN:STEP:ROW|FOLDER|RUN=FOLDER]")] = None,
    *,
    step: Annotated[str | None, Option(metavar="N or N:M")] = None,
    question: Annotated[str | None, Option(metavar="ID")] = None,
    variant: Annotated[int | None, Option(min=0)] = None,
    grade: str | None = None,
    text: str | None = None,
    rescued: Literal["all", "yes", "never"] | None = None,
    after: str | None = None,
    limit: Limit = 25,
    add: bool = False,
    prune: Annotated[str | None, Option(metavar="N or N:LAST")] = None,
    yes: bool = False,
) -> None:
    """List the responses of a training run, even while it trains; with an id, show one response.

    Example: tagrpo train rollouts ta --step 1 --variant 0 --grade wrong

    Args:
        target: Run (optional if there is only one), one rollout to show, or a folder to --add.
        step: Only this step, or only steps N to M.
        question: Only this question: its id or first characters.
        variant: 0: the question's own prompt; k: its k-th neighbor.
        grade: Only this grade: correct, wrong or unknown.
        text: Only rollouts whose response contains this text.
        rescued: List questions whose own responses were all wrong (all, rescued or never rescued), and the
            neighbors that rescued them. Needs a recipe such as ta_rescue.
        after: Continue after this rollout or question.
        add: Register the folder of a training run that started elsewhere or was moved.
        prune: Remove responses, except those of every N-th and the last LAST steps (10). Metrics stay.
        yes: With --prune: remove the files. Default: only list the steps.
    """
    from trainer_adapter.record.listing import RolloutFilters, list_rollouts
    from trainer_adapter.record.runs import choose_train_run, open_record

    if add:
        _add(target)
        return
    single = ROLLOUT_ID.fullmatch(target or "")
    with db.reading() as session:
        run = choose_train_run(session, single[1] if single else target)
        name, record = run.name, open_record(session, run)
    for problem in record.problems():
        output.note(problem)
    if rescued is not None:
        _list_rescued(name, record, rescued, after, limit)
    elif single:
        _show(name, record, single[2])
    elif prune is not None:
        _prune(name, record, prune, yes)
    else:
        first, last = _range(step)
        if first is not None and last is None:
            last = max(record.steps(), default=first)
        wanted = RolloutFilters(first, last, question, variant, grade, text)
        page = list_rollouts(record, wanted, after=after and after.rpartition(f"{name}:")[2], limit=limit)
        for problem in set(page.problems) - set(record.problems()):
            output.note(problem)
        terminal.rows(
            "rollouts",
            [{**asdict(each), "id": f"{name}:{each.id}", "grade": each.grade} for each in page.rollouts],
            "rollout=id step question=question_id variant session grade reward advantage tokens "
            "answer=extracted",
            empty="no such rollouts",
            run=name,
            after=page.after and f"{name}:{page.after}",
        )


def _range(text: str | None) -> tuple[int | None, int | None]:
    """Return the ends of N, N:M, N: or :M; None where it is open."""
    low, colon, high = (text or ":").partition(":")
    try:
        ends = [int(end) if end else None for end in (low, high if colon else low)]
    except ValueError:
        raise InputError(f"{text!r} is not a range. Give a number, or two as in 1:5.") from None
    return ends[0], ends[1]


def _show(run: str, record: "Record", place: str) -> None:
    from trainer_adapter.record.rollout import TokenRatios

    rollout = record.rollout(place)
    values = {"run": run, **asdict(rollout), "id": f"{run}:{place}", "grade": rollout.grade}
    ratios = values.pop("token_ratios")
    pieces = None if ratios is None else TokenRatios.from_text(ratios).pieces(rollout.response)
    terminal.show({**values, "token_log_ratios": pieces}, hidden=("token_log_ratios",))


def _list_rescued(run: str, record: "Record", rescued: str, after: str | None, limit: int) -> None:
    from service.questions.store import question_texts
    from trainer_adapter.record.rescues import NEVER, RESCUED, page_rescues, rescue_totals

    counts, spec = record.counts(), record.run.spec
    totals = rescue_totals(counts, spec)
    outcome = {"yes": RESCUED, "never": NEVER}.get(rescued)
    page = page_rescues(counts, spec, outcome=outcome, after=after, limit=limit + 1)
    with db.reading() as session:
        texts = question_texts(session, [question.question_id for question in page])
    shares = {"dead_share": totals.dead_share, "revived_share": totals.revived_share}
    questions = [
        {**asdict(each), "text": texts.get(each.question_id), "outcome": each.outcome}
        for each in page[:limit]
    ]
    report: dict[str, Any] = {"run": run, "totals": {**asdict(totals), **shares}, "questions": questions}
    report["after"] = page[limit - 1].question_id if len(page) > limit else None
    terminal.show(report, "", *totals.sentences(), hidden=("totals",))


def _add(target: str | None) -> None:
    from trainer_adapter.record.reading import Record
    from trainer_adapter.record.runs import read_train_run, register

    if target is None:
        raise InputError("--add needs the folder in which a training run records its rollouts.")
    name, _, folder = ("", "", target) if Path(target).is_dir() else target.rpartition("=")
    recorded = Record(Path(folder))  # a wrong folder leaves no new database
    with db.open(create=True) as database, database.write() as session:
        run = register(session, recorded, name or None)
        training = read_train_run(session, run)
    terminal.show({"run": run.name, "folder": str(Path(folder).resolve()), **training.to_json()})


def _prune(name: str, record: "Record", keep: str, remove: bool) -> None:
    every, last = _range(keep if ":" in keep else f"{keep}:10")
    if not every or every < 1 or last is None or last < 0:
        raise InputError(f"--prune {keep}: give N, at least 1, or N:LAST.")
    prunable = record.files_to_prune(keep_every=every, keep_last=last)
    paths = [path for files in prunable.values() for path in files]
    done = {
        "run": name,
        "removed": remove,
        "steps": list(prunable),
        "rollouts": sum(s.responses for s in record.counts().page_steps() if s.step in prunable),
        "files": list(map(str, paths)),
        "bytes": sum(path.stat().st_size for path in paths),
    }
    for path in paths if remove else ():
        path.unlink(missing_ok=True)
    terminal.show(done, None if remove else "Nothing was removed. Add --yes to remove these files.")


def training_state(session: "Session", run: "Run") -> dict[str, Any]:
    """Return what a training run is, and how far it has come, for `runs show`."""
    from trainer_adapter.record.runs import open_record, read_train_run
    from trainer_adapter.verl.alarms import alarms_of

    training = read_train_run(session, run)
    alarms = alarms_of(open_record(session, run).metrics().items()) if not training.problem else []
    return {**training.to_json(), "alarms": [alarm._asdict() for alarm in alarms]}
