"""`tagrpo eval agreement` and `export`: grades beside those of another tool, samples for other tools."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from service.errors import NotFoundError
from ui.cli import output
from ui.cli.eval.grading import changes_json
from ui.cli.eval.settings import EvalRun
from ui.cli.files import HubExport, Overwrite, RowsFile, form_of
from ui.cli.output import Terminal, plural
from ui.cli.settings import Db

if TYPE_CHECKING:
    from evaluator.exchange.agreement import GraderAgreement

SamplesFormat = Literal["jsonl", "parquet", "hf"]
_BY_SUFFIX: dict[str, SamplesFormat] = {".jsonl": "jsonl", ".parquet": "parquet"}


def agreement(
    run: Annotated[str, Argument(help="Name or id of an imported evaluation.")],
    judge: Annotated[
        str | None,
        Option(help="Compare the grades of this judge model of `eval judge` instead of the grader's."),
    ] = None,
    *,
    file: RowsFile,
    db: Db,
    terminal: Terminal,
) -> None:
    """Compare our grades with those of the tool that drew the responses, and list the differences.

    Example: tagrpo eval agreement Qwen3-4B.math500 --out unlike.jsonl
    """
    from evaluator.benchmarks.catalogue import is_secret
    from evaluator.evals.grading import grade_changes
    from evaluator.evals.runs import find_eval_run
    from evaluator.exchange.agreement import read_agreement
    from evaluator.grading.versions import JUDGE_REASON

    file.check()
    with db.reading() as session:
        chosen = find_eval_run(session, run)
        agrees = read_agreement(session, chosen.id, judge=judge)
        if agrees is None:
            ours = "ours" if judge is None else f"those of the judge {judge}"
            raise NotFoundError(f"run {chosen.name} has no grades of another tool to compare with {ours}.")
        changes = grade_changes(session, chosen.id, agrees.theirs, agrees.ours)
    names = {"old": "theirs", "old_reason": "their_score", "old_extracted": "their_answer"}
    names |= {
        "new": "ours",
        "new_reason": "our_reason",
        "new_extracted": "our_answer",
        "new_source": "answer_place",
    }
    if judge is not None:
        changes = [each for each in changes if each.new_reason.startswith(f"{JUDGE_REASON} {judge}, ")]
    rows = [
        {names.get(field, field): value for field, value in change.items() if field != "old_source"}
        for change in changes_json(changes, secret=is_secret(chosen.spec["problems"]))
    ]
    file.write(rows)
    record = {"run": chosen.name, **agrees.to_json(), "unlike": rows}
    terminal.emit(record, _print_unlike, agrees, rows)


def print_agreement(agrees: "GraderAgreement") -> None:
    """Print the table of both grades."""
    from evaluator.grading import GradeValue
    from evaluator.reports.documents.document import hundredths

    output.say()
    share = hundredths(agrees.alike / agrees.samples, 1) if agrees.samples else "0"
    output.say(f"{plural(agrees.samples, 'response')} graded by both, {agrees.alike:,} alike ({share}%)")
    output.table(
        [f"graded by {agrees.theirs.partition(': ')[2]}", *(f"here {value}" for value in GradeValue)],
        [
            [theirs.value, *(agrees.counts.get((theirs.value, ours.value), 0) for ours in GradeValue)]
            for theirs in GradeValue
        ],
    )
    if {theirs for theirs, _ in agrees.counts} == {"unknown"}:
        output.say(
            "none of the other tool's scores means right or wrong; if they are points, leave them out with "
            "`tagrpo eval import` and --column score="
        )
    for label in ("correct", "wrong"):
        alike, trials, interval = agrees.share(label)
        if interval is not None:
            low, high = (hundredths(end, 1) for end in interval)
            output.say(
                f"of {trials:,} samples that the other tool calls {label} and tagrpo graded, {alike:,} are "
                f"{label} here: {hundredths(alike / trials, 1)}% (95%: {low} to {high})"
            )


def _print_unlike(agrees: "GraderAgreement", rows: Sequence[dict[str, Any]]) -> None:
    print_agreement(agrees)
    output.say()
    output.table(
        ["problem", "sample", "gold", "theirs", "extracted answer", "ours", "extracted answer here"],
        [
            [
                row["position"],
                row["ordinal"],
                row["gold"],
                f"{row['theirs']} ({row['their_score']})",
                row["their_answer"],
                f"{row['ours']} ({row['our_reason']})",
                row["our_answer"],
            ]
            for row in rows
        ],
        empty="all grades agree",
    )


def export(
    run: EvalRun,
    *,
    out: Annotated[Path, Option(help="File to write, or folder for hf.")],
    form: Annotated[
        SamplesFormat | None,
        Option("--format", help="Format; hf: a dataset for the Hub. Default: from the ending of --out."),
    ] = None,
    overwrite: Overwrite = False,
    hub: HubExport,
    db: Db,
    terminal: Terminal,
) -> None:
    """Write the samples of a run, one per row, with problem, response, tokens and grades.

    `tagrpo eval import` reads them back. Gated benchmarks are not exported.

    Example: tagrpo eval export Qwen3-4B.math500 --out samples.parquet
    """
    from evaluator.evals.runs import find_eval_run
    from evaluator.exchange.exporting import export_samples
    from service.pushing import check_push, push_folder

    form = form_of(out, form, _BY_SUFFIX)
    if form != "hf" and hub != HubExport():
        raise typer.BadParameter("--push and --public require --format hf")
    if hub.push is not None:
        check_push(hub.push)
    with db.open(read_only=True) as database, terminal.progress("export") as bar:
        with database.read() as session:
            chosen = find_eval_run(session, run)
        count = export_samples(database, chosen, out, form, overwrite=overwrite, report=bar.update)
    pushed = None
    if hub.push is not None:
        message = f"{chosen.name}, {count:,} samples"
        pushed = push_folder(out, hub.push, message=message, private=not hub.public)
    record = {
        "run": chosen.name,
        "out": str(out),
        "format": form,
        "samples": count,
        "pushed_to": pushed,
    }
    words = f"{chosen.name}: {plural(count, 'sample')} written to {out}"
    terminal.emit(record, output.say, words + (f", pushed to {pushed}" if pushed else ""))
