"""`tagrpo diagnose`: what a set of rephrasings does to the training signal."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import BadParameter, Option

from service.errors import InputError
from ui.cli import exits, output
from ui.cli.diagnose.options import Group, Limit, Price, Responses, Texts, Windows
from ui.cli.files import RowsFolder
from ui.cli.neighbors.reviews import say_sheet
from ui.cli.output import Terminal
from ui.cli.settings import Db, Seed

if TYPE_CHECKING:
    from evaluator.signal.diagnosis import Diagnosis, Part
    from evaluator.signal.difficulty import NeighborRow


def zero_gradient(
    windows: Windows = 5,
    published: Annotated[bool, Option(help="Also show the published shares.")] = False,
    *,
    responses: Responses,
    group: Group,
    rows: RowsFolder,
    db: Db,
    terminal: Terminal,
) -> None:
    """Show the share of questions whose responses all get the same reward, by checkpoint.

    Groups: G responses to the original, to each neighbor, to N neighbors (N*G), to all jointly ((N+1)*G), and
    as a fair baseline (N+1)*G to the original. If more than G responses were drawn, the share is exact over
    all subsets of G.

    Example: tagrpo diagnose zero-gradient base step-100 --g 8 --out figures
    """
    diagnosis = _diagnose(responses, db, ["zero_gradient"], vars(group), windows)
    _deliver(diagnosis, rows, terminal, published=published)


def forecast(
    assume_shift_sd: Annotated[
        float | None,
        Option(
            min=0,
            help="Assumed standard deviation of the neighbors' logit shift, for a pilot without neighbors; "
            "0.5 to 1 is usual.",
        ),
    ] = None,
    validate: Annotated[
        bool,
        Option(help="Rollouts with visit counts: forecast from one half, compare with the other half."),
    ] = False,
    seed: Seed = 0,
    *,
    responses: Responses,
    group: Group,
    rows: RowsFolder,
    db: Db,
    terminal: Terminal,
) -> None:
    """Predict from a small pilot what share of questions will give no gradient, for any N and G.

    The model fits the distribution of success rates over questions, and how far neighbors differ from their
    question. Run it before training: 8 responses per prompt on a few hundred questions are enough.

    Example: tagrpo diagnose forecast pilot --g 8 --n 3
    """
    if validate:
        if responses.runs or group.n is not None or assume_shift_sd is not None:
            raise BadParameter("--validate needs --rollouts with visit counts, and --g only")
        _validate(responses.rollouts, group.g, seed, rows, terminal)
        return
    wanted = {**vars(group), "shift_sd": assume_shift_sd, "seed": seed}
    _deliver(_diagnose(responses, db, ["forecast"], wanted), rows, terminal)


def _validate(visits: Path | None, g: int | None, seed: int, rows: RowsFolder, terminal: Terminal) -> None:
    """Check the forecast on a file of visits."""
    from evaluator.reports.diagnosis_layout import checks_document
    from evaluator.signal.diagnosis import USUAL_G, check_forecast
    from evaluator.signal.records import check_record
    from evaluator.signal.sources.rollouts import read_visits

    if visits is None:
        raise BadParameter("--validate needs --rollouts with visit counts, and --g only")
    checks = check_forecast(read_visits(visits), USUAL_G if g is None else g, seed)
    tables = {"forecast_checks": [check_record(check) for check in checks]}
    rows.write(tables)
    terminal.emit({"source": str(visits), **tables}, output.show, checks_document(checks))


def difficulty(
    fdr: Annotated[
        float, Option(help="Maximum expected share of false alarms among flagged neighbors.")
    ] = 0.05,
    limit: Limit = 20,
    review_sheet: Annotated[
        Path | None,
        Option(help="Write the flagged neighbors to this new file, for tagrpo rephrase review --sheet."),
    ] = None,
    seed: Seed = 0,
    *,
    responses: Responses,
    rows: RowsFolder,
    db: Db,
    terminal: Terminal,
) -> None:
    """Compare the success rates of neighbors with their originals, and flag neighbors to review.

    A neighbor with an implausibly high rate may give its answer away; one that is never solved may ask
    something else.

    Exit code 3: some neighbors are flagged.

    Example: tagrpo diagnose difficulty base --review-sheet sheet.jsonl
    """
    diagnosis = _diagnose(responses, db, ["difficulty"], {"fdr": fdr, "seed": seed})
    flagged, written = diagnosis.flagged, None
    if review_sheet is not None and flagged:
        written = _write_sheet(review_sheet, flagged, db)
    _deliver(diagnosis, rows, terminal, limit=limit, review_sheet_rows=written)
    if review_sheet is not None and written is not None and not terminal.as_json:
        say_sheet(review_sheet, written)
    if flagged:
        raise exits.needs_attention(f"neighbors with an implausible success rate: {len(flagged):,}")


def _write_sheet(path: Path, flagged: "Sequence[NeighborRow]", db: Db) -> int:
    """Write a row for each flagged neighbor that is a candidate of the database; return their number.

    `candidate`, the texts, what was seen of it, and `decision` and `reason` to be filled in.

    Raises:
        InputError: the file exists (it may be filled in), or none of them is a candidate.
    """
    from rephraser.reviews.queue import read_item
    from rephraser.reviews.sheet import blank_row, write_rows
    from rephraser.tables import CandidateRow

    rows, foreign = {}, 0
    with db.reading() as session:
        for row in flagged:
            if row.source_id is None or session.get(CandidateRow, row.source_id) is None:
                foreign += 1
                continue
            rows[row.source_id] = {
                **blank_row(read_item(session, row.source_id)),
                "flag": row.flag,
                "correct": f"{row.correct} of {row.known}",
                "original_correct": f"{row.original_correct} of {row.original_known}",
                "p_value": row.p_value,
            }
    if not rows:
        raise InputError(
            f"none of the {len(flagged)} flagged neighbors is a candidate in this database, so none can be "
            "reviewed here. Give the database in which they were proposed with --db."
        )
    if foreign:
        output.note(f"{foreign:,} flagged neighbors are not candidates in this database and are left out")
    write_rows(path, list(rows.values()))
    return len(rows)


def diversity(
    windows: Windows = 5,
    seed: Seed = 0,
    *,
    responses: Responses,
    group: Group,
    texts: Texts,
    rows: RowsFolder,
    db: Db,
    terminal: Terminal,
) -> None:
    """Compare the diversity of responses: to the original, to neighbors, and between the two.

    The measure is the mean cosine distance of TF-IDF vectors per question. --out and --json include the
    densities over questions.

    Example: tagrpo diagnose diversity base step-100
    """
    wanted = {**vars(group), **vars(texts), "seed": seed}
    _deliver(_diagnose(responses, db, ["diversity"], wanted, windows), rows, terminal)


def cost(
    seed: Seed = 0,
    *,
    responses: Responses,
    group: Group,
    price: Price,
    rows: RowsFolder,
    db: Db,
    terminal: Terminal,
) -> None:
    """Show the cost of a mixed-reward group: GRPO, larger G, dynamic sampling, TA-GRPO; and the break-even.

    The shares come from the same pilot as in `forecast`.

    Example: tagrpo diagnose cost pilot --usd-per-gpu-hour 2.5 --tokens-per-second 2500
    """
    wanted = {**vars(group), **vars(price), "seed": seed}
    _deliver(_diagnose(responses, db, ["cost"], wanted), rows, terminal)


def report(
    windows: Windows = 5,
    limit: Limit = 20,
    seed: Seed = 0,
    *,
    responses: Responses,
    group: Group,
    texts: Texts,
    price: Price,
    rows: RowsFolder,
    db: Db,
    terminal: Terminal,
) -> None:
    """Show all diagnoses: equal rewards, forecast, number of neighbors, difficulty, diversity, cost.

    With several checkpoints, forecast, difficulty and cost use the first one. Parts whose data is missing
    (no neighbors, no texts) are listed and left out.

    Example: tagrpo diagnose report base step-100 --out figures
    """
    wanted = {**vars(group), **vars(texts), **vars(price), "seed": seed}
    _deliver(_diagnose(responses, db, [], wanted, windows), rows, terminal, limit=limit)


def _diagnose(
    responses: Responses,
    db: Db,
    parts: "Sequence[Part]",
    settings: Mapping[str, Any],
    windows: int = 1,
) -> "Diagnosis":
    """Return these parts of a diagnosis, without any all; settings as `DiagnosisSettings` takes them."""
    from evaluator.signal.diagnosis import PARTS, DiagnosisSettings, diagnose

    with responses.opened(db, windows) as source:
        return diagnose(source, parts or PARTS, DiagnosisSettings(**settings))


def _deliver(
    diagnosis: "Diagnosis",
    rows: RowsFolder,
    terminal: Terminal,
    *,
    limit: int = 20,
    published: bool = False,
    **more: object,
) -> None:
    """Write the CSV files, and print the diagnosis; `more` stands in the JSON object alone."""
    from evaluator.reports.diagnosis_layout import diagnosis_document
    from evaluator.signal.records import diagnosis_record, tables

    rows.write(tables(diagnosis))
    document = diagnosis_document(diagnosis, limit=limit, published=published)
    terminal.emit({**diagnosis_record(diagnosis), **more}, output.show, document)
