"""`tagrpo rephrase audit`: the sample, the error rates, the agreement of reviewers."""

from pathlib import Path
from typing import Annotated

from typer import Option

from ui.cli import exits
from ui.cli.output import terminal
from ui.cli.rephrase.reviewing import sheet_lines
from ui.cli.settings import OnlyRun, db


def audit(
    run: OnlyRun = None,
    sample: Annotated[int, Option(min=4)] = 50,
    groups: bool = False,
    seed: int = 0,
    out: Path | None = None,
) -> None:
    """Draw a stratified random sample for blind review, and report the verdict's error rates.

    The first call draws the sample; the same run, sample size and seed always give the same audit. Accepted,
    rejected and unverified candidates get equal shares; undecided ones get half. If a group is too small, the
    others fill its places. Review the sample in `tagrpo ui --review` or in a sheet (--out), then run this
    command again.

    False accepts: accepted by the verdict but rejected by reviewers, as a share of the reviewed accepted
    candidates. False rejects: the reverse. Intervals are exact (Clopper-Pearson, 95%).

    --groups samples questions, each with all its accepted neighbors. The share of questions with a broken
    neighbor is what training encounters in its groups.

    Exit code 3: some candidates of the audit have no decision yet.

    Example: tagrpo rephrase audit math-gpt4 --sample 50 --seed 7

    Example: tagrpo rephrase audit math-gpt4 --groups --seed 7 --out sheet.jsonl

    Args:
        sample: Number of candidates to sample; with --groups, of questions.
        groups: Sample questions with all their accepted neighbors.
        seed: Random seed of the sample.
        out: Write a blind sheet to this new JSON Lines file, to fill in and record with review --sheet.
    """
    from rephraser.reviews.audit import audit_groups, audit_rates, audit_record, open_audit
    from rephraser.reviews.sheet import write_sheet
    from rephraser.run.start import choose_run

    with db.open() as database:
        with database.read() as session:
            chosen = choose_run(session, run)
        kind = "groups" if groups else "candidates"
        drawn, new = open_audit(database, chosen, kind=kind, size=sample, seed=seed)  # type: ignore[arg-type]
        with database.read() as session:
            rates, of_groups = audit_rates(session, drawn), audit_groups(session, drawn)
            exported = None if out is None else write_sheet(session, drawn, out)
    record = {**audit_record(drawn, rates, of_groups, new=new), "exported": exported}
    terminal.show(record, *sheet_lines(out, exported), hidden=("members",))
    if not rates.complete:
        raise exits.needs_attention(
            f"audit {drawn.id} has {rates.open:,} of {rates.drawn:,} candidates without a decision. Review "
            "them in `tagrpo ui --review`, or in a sheet (--out FILE)."
        )
