"""`tagrpo eval import` and `export`: responses of other tools as an evaluation, samples for other tools."""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from typer import BadParameter, Option

from ui.cli import output
from ui.cli.output import terminal
from ui.cli.settings import AnswersTaken, BenchmarkRows, EvalRun, Overwrite, OwnGrader, db, form_of


def import_(
    files: list[Path],
    *,
    model: str | None = None,
    name: str | None = None,
    benchmark: str | None = None,
    by: Literal["text", "inside", "position"] = "text",
    kind: Literal["latex", "integer", "choice", "tolerance", "code"] = "latex",
    answers: AnswersTaken = "all",
    own_grader: OwnGrader = None,
    rows: BenchmarkRows,
    form: Annotated[Literal["rows", "inspect", "lighteval", "lm-eval"] | None, Option("--format")] = None,
    column: Annotated[list[str] | None, Option("--column")] = None,
    opened_thoughts: bool = False,
) -> None:
    """Import responses that another tool sampled as an evaluation, and grade them.

    Reads JSON Lines, CSV and parquet, logs of inspect_ai, details of lighteval and samples of
    lm-evaluation-harness. Importing a file twice adds nothing. The other tool's grades are stored too.

    Exit code 3: some responses match no problem of the benchmark, or the other tool received no response.

    Example: tagrpo eval import logs/2026-11-25_math.eval --benchmark math500

    Args:
        files: Files written by one tool, in order.
        model: Model that produced the responses; inspect_ai logs contain it.
        name: Name of the run, stored as NAME.BENCHMARK. Default: the model.
        benchmark: Benchmark, or a file of your own. Default: the questions and answers in the input file.
        by: Match problems by equal text, text inside the prompt, or ids as row numbers.
        kind: Kind of the answers, for problems from an input file that does not state it.
        form: Tool that wrote the files. Default: detected automatically.
        column: Column of a part (response, question, answer, score, ...), as in response=text.
        opened_thoughts: The prompts end with <think>, so responses without </think> were cut off.
    """
    from evaluator.exchange.files import open_responses
    from evaluator.exchange.importing import import_evaluation

    columns = {part: value for part, _, value in (word.partition("=") for word in column or ())}
    if wrong := [word for word in column or () if not word.partition("=")[0] or "=" not in word]:
        raise BadParameter(f"--column {wrong[0]}: give PART=NAME, as in response=text")
    if rows.source and benchmark is None:
        raise BadParameter("--from requires --benchmark")
    if benchmark is not None:  # which has the images itself
        columns = {"images": "", **columns}
    file = open_responses(files, form, columns)
    record, problems = import_evaluation(
        file,
        files[0],
        partial(db.open, create=True),
        model=model,
        name=name,
        benchmark=None if benchmark is None else rows.loader([benchmark])(benchmark),
        by=by,
        kind=kind,
        answers=answers,
        grader=own_grader,
        opened_thoughts=opened_thoughts,
        progress=terminal.progress,
        note=output.note,
    )
    compare = f"`tagrpo eval compare {record['run']} --tool-grades` compares both tools' grades"
    terminal.show(record, compare if record["agreement"] else None)
    if problems:
        raise output.needs_attention("; ".join(problems) + ".")


SamplesFormat = Literal["jsonl", "parquet"]
BY_SUFFIX: dict[str, SamplesFormat] = {".jsonl": "jsonl", ".parquet": "parquet"}


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
        out: File to write.
        form: Format. Default: from the suffix of --out.
    """
    from evaluator.evals.runs import find_eval_run
    from evaluator.exchange.exporting import export_samples

    form = form_of(out, form, BY_SUFFIX)
    with db.open(read_only=True) as database, terminal.progress("export") as bar:
        with database.read() as session:
            chosen = find_eval_run(session, run)
        count = export_samples(database, chosen, out, form, overwrite=overwrite, report=bar.update)
    terminal.show({"run": chosen.name, "out": out, "format": form, "samples": count})
