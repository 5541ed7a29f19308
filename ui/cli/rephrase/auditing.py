"""`tagrpo rephrase audit`: the sample, the error rates, the agreement of reviewers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from ui.cli import exits
from ui.cli.output import Part, Table, Terminal
from ui.cli.rephrase.reviewing import sheet_lines
from ui.cli.settings import Db, OnlyRun

if TYPE_CHECKING:
    from rephraser.reviews.audit import Audit
    from rephraser.reviews.rates import BrokenShare, ErrorRates, GroupRate, Rate

IDS_SHOWN = 10


def audit(
    run: OnlyRun = None,
    sample: Annotated[int, Option(min=4)] = 50,
    groups: bool = False,
    seed: int = 0,
    out: Path | None = None,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Draw a stratified random sample for blind review, and report the verdict's error rates.

    The first call draws the sample; the same run, sample size and seed always give the same audit. Accepted,
    rejected and unverified candidates get equal shares; undecided ones get half. If a group is too small, the
    others fill its places. Review the sample with `tagrpo rephrase review --audit NUMBER --interactive`, then
    run this command again.

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
    terminal.emit(record, *_parts(drawn, rates, of_groups, new=new), *sheet_lines(out, exported))
    if not rates.complete:
        raise exits.needs_attention(
            f"audit {drawn.id} has {rates.open:,} of {rates.drawn:,} candidates without a decision"
        )


def _parts(audit: "Audit", rates: "ErrorRates", groups: "GroupRate | None", *, new: bool) -> list[Part]:
    made = "drawn" if new else f"drawn on {audit.created_at}"
    size = f"{audit.size} questions with all their accepted neighbors" if groups else f"sample {audit.size}"
    parts: list[Part] = [f"audit {audit.id} of run {audit.run_name}, {size}, seed {audit.seed}: {made}"]
    parts += _candidate_parts(audit, rates) if groups is None else _group_parts(rates, groups)
    if len(rates.reviewers) > 1:
        parts += ["", "if reviewers disagree, the rates above use the newest decision. By reviewer:"]
        for each in rates.reviewers:
            parts.append(
                f"  {each.reviewer}, {each.reviewed:,} reviewed: false accepts {_rate(each.false_accept)}; "
                f"false rejects {_rate(each.false_reject)}"
            )
    for pair in rates.agreements:
        kappa = "kappa is undefined, since both reviewers always made the same decision"
        kappa = kappa if pair.kappa is None else f"Cohen's kappa {pair.kappa:.2f}"
        parts.append(f"{pair.first} and {pair.second} agree on {pair.agreed} of {pair.shared}; {kappa}")
    done = rates.complete
    for name, ids in (
        ("disputed", rates.disputed),
        ("false accepts", rates.false_accepts if done and groups is None else ()),
        ("false rejects", rates.false_rejects if done and groups is None else ()),
        ("groups with a broken neighbor", groups.broken_groups if done and groups is not None else ()),
    ):
        if ids:
            more = ", ... (--json lists all)" if len(ids) > IDS_SHOWN else ""
            parts.append(f"{name}: {', '.join(ids[:IDS_SHOWN])}{more}")
    if not done:
        parts += ["", "review it blind with", f"  tagrpo rephrase review --audit {audit.id} --interactive"]
    return parts


def _group_parts(rates: "ErrorRates", groups: "GroupRate") -> list[Part]:
    reviewed = f"{groups.complete:,} of {groups.drawn:,} groups fully reviewed"
    parts: list[Part] = [
        f"{groups.drawn:,} of the run's {groups.size:,} questions with accepted neighbors",
        f"{rates.drawn:,} neighbors, {rates.reviewed:,} reviewed; {reviewed}",
        f"groups with a broken neighbor: {_rate(groups.broken)}" if groups.complete else None,
        f"among all groups, {groups.bounds}" if groups.complete < groups.drawn else None,
    ]
    if rates.reviewed:
        parts.append(
            f"broken neighbors: {rates.false_accept.count:,} of {rates.false_accept.reviewed:,} reviewed. "
            "Errors within a question may be correlated, so rely on the group rate"
        )
    return parts


def _candidate_parts(audit: "Audit", rates: "ErrorRates") -> list[Part]:
    all_of_them = (
        f"the run has only {rates.drawn:,} candidates with a final verdict; the audit contains all of them"
    )
    rows = [
        [s.status, s.size, s.drawn, s.rejected.reviewed, s.rejected.count if s.rejected.reviewed else None]
        for s in rates.strata
    ]
    parts: list[Part] = [
        all_of_them if rates.drawn < audit.size else None,
        Table(["verdict", "in the run", "in the audit", "reviewed", "rejected by reviewers"], rows),
    ]
    if not rates.reviewed:
        return parts
    provisional = f"provisional: {rates.open:,} of {rates.drawn:,} candidates have no decision yet"
    return [
        *parts,
        "",
        None if rates.complete else provisional,
        f"false accepts (accepted by the verdict, rejected by reviewers): {_rate(rates.false_accept)}",
        f"false rejects (rejected by the verdict, accepted by reviewers): {_rate(rates.false_reject)}",
        f"broken among publishable candidates{_broken(rates.broken)}",
    ]


def _rate(rate: "Rate") -> str:
    if rate.share is None:
        return "none reviewed"
    interval = f"exact 95% interval {rate.low:.1%} to {rate.high:.1%}"
    return f"{rate.count} of {rate.reviewed}, {rate.share:.1%} ({interval})"


def _broken(broken: "BrokenShare") -> str:
    if not broken.statuses:
        return ": unknown, since the audit has no accepted or unverified candidates"
    over = " and ".join(f"{size:,} {status}" for status, size in broken.statuses.items())
    if broken.share is None:
        return f" ({over}): unknown until each kind has a review"
    kind = "conservative 95% interval" if len(broken.statuses) > 1 else "exact 95% interval"
    return f" ({over}): {broken.share:.1%} ({kind} {broken.low:.1%} to {broken.high:.1%})"
