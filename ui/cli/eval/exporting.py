"""`tagrpo eval export`: samples for other tools."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from ui.cli.eval.settings import EvalRun
from ui.cli.files import Overwrite, form_of
from ui.cli.output import terminal
from ui.cli.settings import db

SamplesFormat = Literal["jsonl", "parquet", "hf"]
_BY_SUFFIX: dict[str, SamplesFormat] = {".jsonl": "jsonl", ".parquet": "parquet"}


def export(
    run: EvalRun,
    *,
    out: Annotated[Path, Option()],
    form: Annotated[SamplesFormat | None, Option("--format")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write the samples of a run, one per row, with problem, response, tokens and grades.

    `tagrpo eval import` reads them back. Gated benchmarks are not exported.

    Example: tagrpo eval export Qwen3-4B.math500 --out samples.parquet

    Args:
        out: File to write, or folder for hf.
        form: Format; hf: a dataset for the Hub. Default: from the suffix of --out.
    """
    from evaluator.evals.runs import find_eval_run
    from evaluator.exchange.exporting import export_samples

    form = form_of(out, form, _BY_SUFFIX)
    with db.open(read_only=True) as database, terminal.progress("export") as bar:
        with database.read() as session:
            chosen = find_eval_run(session, run)
        count = export_samples(database, chosen, out, form, overwrite=overwrite, report=bar.update)
    record = {"run": chosen.name, "out": out, "format": form, "samples": count}
    terminal.show(record)
