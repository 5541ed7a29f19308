"""`tagrpo rephrase audit`: the sample, the error rates, the agreement of reviewers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from ui.cli import exits, output
from ui.cli.output import Terminal
from ui.cli.rephrase.reviewing import say_sheet
from ui.cli.settings import Db, OnlyRun

if TYPE_CHECKING:
    from rephraser.reviews.audit import Audit
    from rephraser.reviews.rates import BrokenShare, ErrorRates, GroupRate, Rate

IDS_SHOWN = 10


def audit(
    run: OnlyRun = None,
    sample: Annotated[
        int, Option(min=4, help="Number of candidates to sample; with --groups, of questions.")
    ] = 50,
    groups: Annotated[bool, Option(help="Sample questions with all their accepted neighbors.")] = False,
    seed: Annotated[int, Option(help="Random seed of the sample.")] = 0,
    out: Annotated[
        Path | None,
        Option(
            help="Write a blind sheet to this new JSON Lines file, to fill in and record with review --sheet."
        ),
    ] = None,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Draw a stratified random sample for blind review, and report the verdict's error rates.

    The first call draws the sample; the same run, sample size and seed always give the same audit. Accepted,
    rejected and unverified candidates get equal shares, undecided ones half as many. Places that a small
    group cannot fill go to the others. Review the sample with `tagrpo rephrase review --audit NUMBER
    --interactive`, then run this command again.

    False accepts: accepted by the verdict but rejected by reviewers, as a share of the reviewed accepted
    candidates. False rejects: the reverse. Intervals are exact (Clopper-Pearson, 95%).

    --groups draws questions, each with all its accepted neighbors. The share of questions with a broken
    neighbor is what training encounters in its groups.

    Exit code 3: some candidates of the audit have no decision yet.

    Example: tagrpo rephrase audit math-gpt4 --sample 50 --seed 7

    Example: tagrpo rephrase audit math-gpt4 --groups --seed 7 --out sheet.jsonl
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
    terminal.emit(record, _print, drawn, rates, of_groups, new=new)
    if out is not None and exported is not None and not terminal.as_json:
        say_sheet(out, exported)
    if not rates.complete:
        raise exits.needs_attention(
            f"audit {drawn.id} has {rates.open:,} of {rates.drawn:,} candidates without a decision"
        )


def _print(audit: "Audit", rates: "ErrorRates", groups: "GroupRate | None", *, new: bool) -> None:
    made = "drawn" if new else f"drawn on {audit.created_at}"
    size = (
        f"sample {audit.size}"
        if groups is None
        else f"{audit.size} questions with all their accepted neighbors"
    )
    output.say(f"audit {audit.id} of run {audit.run_name}, {size}, seed {audit.seed}: {made}")
    if groups is None:
        _print_candidates(audit, rates)
    else:
        _print_groups(rates, groups)
    if len(rates.reviewers) > 1:
        output.say("", "if reviewers disagree, the rates above use the newest decision. By reviewer:")
        for each in rates.reviewers:
            output.say(
                f"  {each.reviewer}, {each.reviewed:,} reviewed: false accepts {_rate(each.false_accept)}; "
                f"false rejects {_rate(each.false_reject)}"
            )
    for pair in rates.agreements:
        kappa = (
            "kappa is undefined, since both reviewers always made the same decision"
            if pair.kappa is None
            else f"Cohen's kappa {pair.kappa:.2f}"
        )
        output.say(f"{pair.first} and {pair.second} agree on {pair.agreed} of {pair.shared}; {kappa}")
    done = rates.complete
    for name, ids in (
        ("disputed", rates.disputed),
        ("false accepts", rates.false_accepts if done and groups is None else ()),
        ("false rejects", rates.false_rejects if done and groups is None else ()),
        ("groups with a broken neighbor", groups.broken_groups if done and groups is not None else ()),
    ):
        if ids:
            more = ", ... (--json lists all)" if len(ids) > IDS_SHOWN else ""
            output.say(f"{name}: {', '.join(ids[:IDS_SHOWN])}{more}")
    if not done:
        output.say("", "review it blind with", f"  tagrpo rephrase review --audit {audit.id} --interactive")


def _print_groups(rates: "ErrorRates", groups: "GroupRate") -> None:
    output.say(
        f"{groups.drawn:,} of the run's {groups.size:,} questions with accepted neighbors",
        f"{rates.drawn:,} neighbors, {rates.reviewed:,} reviewed; {groups.complete:,} of {groups.drawn:,} "
        "groups fully reviewed",
    )
    if groups.complete:
        output.say(f"groups with a broken neighbor: {_rate(groups.broken)}")
    if groups.complete < groups.drawn:
        output.say(f"among all groups, {groups.bounds}")
    if rates.reviewed:
        output.say(
            f"broken neighbors: {rates.false_accept.count:,} of {rates.false_accept.reviewed:,} reviewed. "
            "Errors within a question may be correlated, so rely on the group rate"
        )


def _print_candidates(audit: "Audit", rates: "ErrorRates") -> None:
    if rates.drawn < audit.size:
        output.say(
            f"the run has only {rates.drawn:,} candidates with a final verdict; the audit contains all of "
            "them"
        )
    output.table(
        ["verdict", "in the run", "in the audit", "reviewed", "rejected by reviewers"],
        [
            [
                s.status,
                s.size,
                s.drawn,
                s.rejected.reviewed,
                s.rejected.count if s.rejected.reviewed else None,
            ]
            for s in rates.strata
        ],
    )
    if not rates.reviewed:
        return
    output.say()
    if not rates.complete:
        output.say(f"provisional: {rates.open:,} of {rates.drawn:,} candidates have no decision yet")
    output.say(
        f"false accepts (accepted by the verdict, rejected by reviewers): {_rate(rates.false_accept)}",
        f"false rejects (rejected by the verdict, accepted by reviewers): {_rate(rates.false_reject)}",
        f"broken among publishable candidates{_broken(rates.broken)}",
    )


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
