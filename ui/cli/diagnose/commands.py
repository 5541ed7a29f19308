"""`tagrpo diagnose`: what a set of rephrasings does to the training signal."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ui.cli import output
from ui.cli.diagnose import input as given_by
from ui.cli.diagnose import records as records
from ui.cli.diagnose import reports as reports
from ui.cli.diagnose import work as work
from ui.cli.output import DbOption, JsonOption

if TYPE_CHECKING:
    from evaluator.signal.difficulty import DifficultyAudit
    from evaluator.signal.diversity import Diversity

app = typer.Typer(
    no_args_is_help=True,
    help="Equal rewards, difficulty, diversity and cost of groups with and without neighbors.",
    epilog="Example: tagrpo diagnose zero-gradient base step-100 --g 8",
)

EmbeddingOption = Annotated[
    str | None,
    typer.Option(
        "--embedding",
        help="sentence-transformers model, by name or folder; without one TF-IDF over words and formulas.",
        show_default=False,
    ),
]
QuestionsOption = Annotated[
    int, typer.Option("--questions", min=2, help="Questions whose texts are embedded, drawn by the seed.")
]
UsdOption = Annotated[
    float | None, typer.Option("--usd-per-gpu-hour", help="Price of a GPU hour.", show_default=False)
]
SpeedOption = Annotated[
    float | None,
    typer.Option(
        "--tokens-per-second", help="Response tokens a GPU generates in a second.", show_default=False
    ),
]
LimitOption = Annotated[int, typer.Option("--limit", min=1, help="Neighbors shown.")]


@app.command("zero-gradient")
def zero_gradient(
    runs: given_by.RunsArgument = None,
    rollouts: given_by.RolloutsOption = None,
    g: given_by.GOption = 8,
    neighbors: given_by.NeighborsOption = None,
    windows: given_by.WindowsOption = 5,
    correct_above: given_by.ThresholdOption = None,
    grader: given_by.GraderOption = None,
    published: Annotated[
        bool, typer.Option("--published", help="Show the published shares beside them.")
    ] = False,
    csv: given_by.CsvOption = None,
    overwrite: given_by.OverwriteOption = False,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the share of questions whose responses all get one reward, by checkpoint.

    Groups: G responses to the original, to each neighbor, to N neighbors (N*G), jointly ((N+1)*G), and for
    fairness (N+1)*G to the original. Where more than G were drawn, the share is exact over all subsets of G.

    Example: [bold]tagrpo diagnose zero-gradient base step-100 --g 8 --csv figures[/bold]
    """
    given = given_by.load(runs, rollouts, db=db, windows=windows, threshold=correct_above, grader=grader)
    results = work.shares(given, g, neighbors)
    work.deliver(
        records.zero_gradient_tables(results),
        given,
        csv=csv,
        overwrite=overwrite,
        as_json=as_json,
        more={"notes": {result.checkpoint: list(result.notes) for result in results}},
    )
    if not as_json:
        reports.print_zero_gradient(results)
        if published:
            reports.print_published()


@app.command()
def forecast(
    runs: given_by.RunsArgument = None,
    rollouts: given_by.RolloutsOption = None,
    g: given_by.GOption = 8,
    neighbors: given_by.NeighborsOption = None,
    assume_shift_sd: Annotated[
        float | None,
        typer.Option(
            "--assume-shift-sd",
            min=0,
            help="For a pilot without neighbors: standard deviation of their logit shift; 0.5 to 1 is usual.",
            show_default=False,
        ),
    ] = None,
    validate: Annotated[
        bool,
        typer.Option(
            "--validate",
            help="Rollouts with counts of visits: forecast from one half, compare with the other.",
        ),
    ] = False,
    correct_above: given_by.ThresholdOption = None,
    grader: given_by.GraderOption = None,
    seed: given_by.SeedOption = 0,
    csv: given_by.CsvOption = None,
    overwrite: given_by.OverwriteOption = False,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Predict from a small pilot what share of questions will give no gradient, for any N and G.

    A distribution of success rates over questions, and how far neighbors depart from their question, are
    fitted to the pilot. Run it before training: 8 responses a prompt on some hundred questions are enough.

    Example: [bold]tagrpo diagnose forecast pilot --g 8 --neighbors 3[/bold]
    """
    if validate:
        if rollouts is None or runs or neighbors is not None or assume_shift_sd is not None:
            raise typer.BadParameter("--validate needs --rollouts with counts of visits, and --g only")
        work.validate(rollouts, g, seed, csv=csv, overwrite=overwrite, as_json=as_json)
        return
    given = given_by.load(runs, rollouts, db=db, windows=1, threshold=correct_above, grader=grader)
    found = work.forecasts(given, g, neighbors, assume_shift_sd, seed)
    work.deliver(
        records.forecast_tables(found),
        given,
        csv=csv,
        overwrite=overwrite,
        as_json=as_json,
        more={"seed": seed},
    )
    if not as_json:
        for label, fitted, rows in found:
            reports.print_forecast(label, fitted, rows)


@app.command()
def difficulty(
    runs: given_by.RunsArgument = None,
    rollouts: given_by.RolloutsOption = None,
    fdr: Annotated[
        float, typer.Option("--fdr", help="Largest share of false alarms among the flagged neighbors.")
    ] = 0.05,
    limit: LimitOption = 20,
    review_sheet: Annotated[
        Path | None,
        typer.Option(
            "--review-sheet",
            help="Write the flagged neighbors to this new file, for tagrpo neighbors review --from.",
            show_default=False,
        ),
    ] = None,
    correct_above: given_by.ThresholdOption = None,
    grader: given_by.GraderOption = None,
    seed: given_by.SeedOption = 0,
    csv: given_by.CsvOption = None,
    overwrite: given_by.OverwriteOption = False,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the success rates of neighbors with their originals; name neighbors to look at again.

    A neighbor whose rate is implausibly high may give its answer away; one that is never solved may ask
    something else.

    Exit code 1: some neighbors are flagged.

    Example: [bold]tagrpo diagnose difficulty base --review-sheet sheet.jsonl[/bold]
    """
    given = given_by.load(runs, rollouts, db=db, windows=1, threshold=correct_above, grader=grader)
    audits = work.audits(given, fdr, seed)
    flagged = [row for audit in audits for row in audit.flagged]
    sheet = None
    if review_sheet is not None and flagged:
        from ui.cli.diagnose.sheet import write_review_sheet

        sheet = write_review_sheet(review_sheet, flagged, db)
    work.deliver(
        records.difficulty_tables(audits),
        given,
        csv=csv,
        overwrite=overwrite,
        as_json=as_json,
        more={"flagged": [records.neighbor_record(row) for row in flagged], "review_sheet_rows": sheet},
    )
    if not as_json:
        for audit in audits:
            reports.print_difficulty(audit, limit)
        if sheet is not None:
            output.say(f"{sheet:,} rows written to {review_sheet}; fill in decision and reason, then")
            output.say(f"  tagrpo neighbors review --from {review_sheet}")
    if flagged:
        raise output.needs_attention(f"neighbors with an implausible success rate: {len(flagged):,}")


@app.command()
def diversity(
    runs: given_by.RunsArgument = None,
    rollouts: given_by.RolloutsOption = None,
    embedding: EmbeddingOption = None,
    g: given_by.GOption = 8,
    neighbors: given_by.NeighborsOption = None,
    windows: given_by.WindowsOption = 5,
    questions: QuestionsOption = 500,
    correct_above: given_by.ThresholdOption = None,
    grader: given_by.GraderOption = None,
    seed: given_by.SeedOption = 0,
    csv: given_by.CsvOption = None,
    overwrite: given_by.OverwriteOption = False,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare how far apart responses are: to the original, to neighbors, and between the two.

    Mean cosine distances of embeddings for each question; the densities over questions are among the rows of
    --csv and --json.

    Example: [bold]tagrpo diagnose diversity base step-100 --embedding BAAI/bge-small-en-v1.5[/bold]
    """
    given = given_by.load(runs, rollouts, db=db, windows=windows, threshold=correct_above, grader=grader)
    results, remark = work.diversities(given, embedding, g, neighbors, questions, seed)
    work.deliver(
        records.diversity_tables(results),
        given,
        csv=csv,
        overwrite=overwrite,
        as_json=as_json,
        more={"embedding": results[0].embedding, "remark": remark, "seed": seed},
    )
    if not as_json:
        reports.print_diversity(results)
    if remark:
        output.note(remark)


@app.command()
def cost(
    runs: given_by.RunsArgument = None,
    rollouts: given_by.RolloutsOption = None,
    g: given_by.GOption = 8,
    neighbors: given_by.NeighborsOption = None,
    usd_per_gpu_hour: UsdOption = None,
    tokens_per_second: SpeedOption = None,
    correct_above: given_by.ThresholdOption = None,
    grader: given_by.GraderOption = None,
    seed: given_by.SeedOption = 0,
    csv: given_by.CsvOption = None,
    overwrite: given_by.OverwriteOption = False,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a mixed-reward group costs: GRPO, larger G, dynamic sampling, TA-GRPO; and the break-even.

    Shares are those of `forecast`, from the same pilot.

    Example: [bold]tagrpo diagnose cost pilot --usd-per-gpu-hour 2.5 --tokens-per-second 2500[/bold]
    """
    given = given_by.load(runs, rollouts, db=db, windows=1, threshold=correct_above, grader=grader)
    found = work.costs(given, g, neighbors, usd_per_gpu_hour, tokens_per_second, seed)
    assumptions = list(found[0][1].assumptions)
    work.deliver(
        records.cost_tables(found),
        given,
        csv=csv,
        overwrite=overwrite,
        as_json=as_json,
        more={"assumptions": assumptions},
    )
    if not as_json:
        for label, report in found:
            reports.print_cost(label, report)


@app.command("report")
def report_(
    runs: given_by.RunsArgument = None,
    rollouts: given_by.RolloutsOption = None,
    g: given_by.GOption = 8,
    neighbors: given_by.NeighborsOption = None,
    windows: given_by.WindowsOption = 5,
    embedding: EmbeddingOption = None,
    questions: QuestionsOption = 500,
    usd_per_gpu_hour: UsdOption = None,
    tokens_per_second: SpeedOption = None,
    limit: LimitOption = 20,
    correct_above: given_by.ThresholdOption = None,
    grader: given_by.GraderOption = None,
    seed: given_by.SeedOption = 0,
    csv: given_by.CsvOption = None,
    overwrite: given_by.OverwriteOption = False,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show all of it: equal rewards, forecast, numbers of neighbors, difficulty, diversity, cost.

    Of several checkpoints the forecast, the difficulty and the cost are those of the first one. What the
    responses do not allow (no neighbors, no texts) is named and left out.

    Example: [bold]tagrpo diagnose report base step-100 --csv figures[/bold]
    """
    from dataclasses import replace

    from service.errors import InputError

    given = given_by.load(runs, rollouts, db=db, windows=windows, threshold=correct_above, grader=grader)
    pilot = replace(given, checkpoints=given.checkpoints[:1])
    shares = work.shares(given, g, neighbors)
    predicted = work.forecasts(pilot, g, neighbors, None, seed)
    fitted = [one for _, one, _ in predicted]
    choices = work.choices(pilot, g, neighbors, fitted)
    costs = work.costs(pilot, g, neighbors, usd_per_gpu_hour, tokens_per_second, seed, fitted)
    left_out: dict[str, str] = {}
    audits: list[DifficultyAudit] = []
    results: list[Diversity] = []
    remark: str | None = None
    try:
        audits = work.audits(pilot, 0.05, seed)
    except InputError as error:
        left_out["difficulty"] = str(error)
    try:
        results, remark = work.diversities(given, embedding, g, neighbors, questions, seed)
    except InputError as error:
        left_out["diversity"] = str(error)
    tables = {
        **records.zero_gradient_tables(shares),
        **records.forecast_tables(predicted),
        **records.choice_tables([(label, rows) for label, rows, _ in choices]),
        **records.difficulty_tables(audits),
        **records.diversity_tables(results),
        **records.cost_tables(costs),
    }
    work.deliver(tables, given, csv=csv, overwrite=overwrite, as_json=as_json, more={"left_out": left_out})
    if not as_json:
        reports.print_zero_gradient(shares)
        for label, one, rows in predicted:
            output.say()
            reports.print_forecast(label, one, rows)
        for _, found, questions_of in choices:
            output.say()
            reports.print_choices(found, g, questions_of)
        for audit in audits:
            output.say()
            reports.print_difficulty(audit, limit)
        if results:
            output.say()
            reports.print_diversity(results)
        for label, costs_of in costs:
            output.say()
            reports.print_cost(label, costs_of)
    if remark:
        output.note(remark)
    for part, reason in left_out.items():
        output.note(f"{part} is left out: {reason}")
