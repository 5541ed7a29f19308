"""Results of the reviews: error rates of an audit, and agreement of reviewers and verdict."""

from collections.abc import Sequence
from typing import Any

import streamlit as st
from sqlalchemy.orm import Session

from rephraser.reviews.audit import audit_progress, audit_rates, get_audit, list_audits, run_agreement
from rephraser.reviews.store import ReviewProgress, read_items, read_reviews, run_progress
from rephraser.tables import ReviewRow
from service.database import in_parts
from ui.pages.review.choosing import QueueChoice, describe
from ui.pages.state import links, settings
from ui.pages.state.database import cached, fetch
from ui.pages.widgets import layout
from ui.pages.widgets.tables import Column, download, page_table, pick_row

LISTED = 25

_PAIRS = [
    Column("first", "reviewer"),
    Column("second", "and"),
    Column("shared", "both decided", "whole"),
    Column("agreed", "agreed", "whole"),
    Column("share", "agreement", "share"),
    Column("kappa", "Cohen's kappa", "fixed", "1: perfect, 0: chance level; empty if undefined"),
]


@cached
def _audit_results(session: Session, audit_id: int, reviewer: str) -> tuple[dict[str, Any], ReviewProgress]:
    audit = get_audit(session, audit_id)
    return audit_rates(session, audit), audit_progress(session, audit, reviewer)


def show_results(choice: QueueChoice) -> None:
    st.caption("These numbers reveal the verdicts. If you review blind, look at them afterwards.")
    if choice.audit_id is None:
        _run(choice)
    else:
        _audit(choice, choice.audit_id)


def _audit(choice: QueueChoice, audit_id: int) -> None:
    rates, progress = _audit_results(audit_id, choice.reviewer)
    groups = rates["groups"]
    numbers = [
        ("reviewed", f"{rates['reviewed']:,} of {rates['drawn']:,}", "by any reviewer"),
        _rate("false accepts", rates["false_accept"], "verdict: accepted"),
        _rate("false rejects", rates["false_reject"], "rejected by the verdict"),
    ]
    if groups is not None:
        numbers[1:] = [
            ("groups reviewed", f"{groups['complete']:,} of {groups['drawn']:,}", "all neighbors reviewed"),
            ("groups open", f"{groups['open']:,}", "none rejected, but some undecided"),
            _rate("groups with a broken neighbor", groups["broken"], "among fully reviewed groups"),
            (
                "broken neighbors",
                "{count:,} of {reviewed:,}".format(**rates["false_accept"]),
                "errors within a question may be correlated, so rely on the group rate",
            ),
        ]
    elif (broken := rates["broken"])["share"] is not None:
        hint = f"95% interval {broken['low']:.1%} to {broken['high']:.1%}, strata weighted by size"
        numbers.append(("broken in a published set", f"{broken['share']:.1%}", hint))
    if choice.reviewer:
        numbers.insert(1, (f"by {choice.reviewer}", f"{progress.decided:,}", ""))
    layout.numbers(*numbers)
    if groups is None:
        _verdicts(rates, audit_id)
    elif groups["complete"] < groups["drawn"]:
        layout.caption(_bounds(groups))
    if rates["complete"]:
        words = "Verdict errors in this sample, according to the newest decision on each candidate."
        for name, ids in (("accepts", rates["false_accepts"]), ("rejects", rates["false_rejects"])):
            _candidates(f"False {name}", words, ids, f"audit-{audit_id}-false-{name}-list", audit_id)
    elif rates["false_accepts"] or rates["false_rejects"]:
        st.caption("The lists of false accepts and false rejects appear after all candidates are reviewed.")
    _agreements("Agreement between reviewers", rates["agreements"], f"audit-{audit_id}-reviewers")
    name = f"audit-{audit_id}-disputed"
    _candidates("Disagreements", "The newest decision counts.", rates["disputed"], name, audit_id)


def _bounds(groups: dict[str, Any]) -> str:
    broken, drawn, still_open = len(groups["broken_groups"]), groups["drawn"], groups["open"]
    return (
        f"Of all groups, {broken:,} have a broken neighbor so far and {still_open:,} are not yet decided: "
        f"{broken / drawn:.1%} to {(broken + still_open) / drawn:.1%} are broken (exact 95% interval "
        f"{groups['low']:.1%} to {groups['high']:.1%}, whatever the undecided ones turn out to be)."
    )


def _verdicts(rates: dict[str, Any], audit_id: int) -> None:
    if not rates["false_accept"]["reviewed"]:
        layout.empty_state(
            "No candidate that the verdict accepted has been reviewed yet.",
            "The false-accept rate appears after the first one. Review in the Queue tab.",
        )
    layout.section("By verdict", "Share of reviewed candidates that reviewers reject.")
    page_table(
        [{**stratum, **stratum["rejected"]} for stratum in rates["strata"]],
        [
            Column("status", "verdict"),
            Column("size", "in the run", "whole"),
            Column("drawn", "drawn", "whole"),
            Column("reviewed", "reviewed", "whole"),
            Column("count", "rejected", "whole"),
            Column("share", "share rejected", "share"),
            Column("low", "95% from", "share"),
            Column("high", "to", "share"),
        ],
        "strata",
        name=f"audit-{audit_id}-strata",
    )


def _run(choice: QueueChoice) -> None:
    agreement = fetch(run_agreement, choice.run_id)
    progress = fetch(run_progress, choice.run_id, choice.reviewer)
    if choice.reviewer:
        layout.numbers(
            (f"decided by {choice.reviewer}", f"{progress.decided:,} of {progress.total:,}"),
            ("accepted", f"{progress.accepted:,}"),
            ("rejected", f"{progress.rejected:,}"),
        )
    audits = fetch(list_audits, choice.run_id)
    layout.section("Error rates", "Error rates need a random sample from an audit.")
    for audit in audits:
        links.link(
            f"audit {audit.id}: {describe(audit)}",
            "review",
            icon=":material/fact_check:",
            run=choice.run,
            audit=audit.id,
            reviewer=choice.reviewer,
            view="Results",
        )
    if not audits:
        layout.empty_state(
            "This run has no audit yet.",
            "Create an audit and choose it as the queue:",
            commands=(settings.command(f"rephrase audit {choice.run} --sample 50 --seed 1"),),
        )
    _agreements("Agreement between reviewers and the verdict", agreement["pairs"], f"{choice.run}-reviewers")
    _candidates(
        "Decisions that differ from the verdict",
        "By any reviewer.",
        agreement["against_verdict"],
        f"{choice.run}-against-verdict",
    )
    _candidates(
        "Disagreements", "The newest decision counts.", agreement["disputed"], f"{choice.run}-disputed"
    )


def _rate(name: str, rate: dict[str, Any], of: str) -> tuple[str, str, str]:
    if rate["share"] is None:
        return name, "no data yet", f"no candidate {of} has been reviewed"
    interval = f"95% interval {rate['low']:.1%} to {rate['high']:.1%}"
    return name, f"{rate['share']:.1%}", f"{rate['count']:,} of {rate['reviewed']:,} {of}; {interval}"


def _agreements(heading: str, pairs: Sequence[dict[str, Any]], name: str) -> None:
    layout.section(heading)
    if not pairs:
        st.caption("No candidate has decisions of two reviewers.")
        return
    rows = [{**pair, "share": pair["agreed"] / pair["shared"]} for pair in pairs]
    page_table(rows, _PAIRS, name, name=name)


def _candidates(heading: str, words: str, ids: Sequence[str], name: str, audit_id: int | None = None) -> None:
    if not ids:
        return
    many = f"{len(ids):,} candidate{'s' * (len(ids) > 1)}"
    layout.section(heading, f"{many}. {words} Choose one to read its decisions and open its question.")
    decisions = _decisions(tuple(ids), audit_id)
    items = fetch(read_items, tuple(ids[:LISTED]))
    chosen = pick_row(
        [{**vars(item), "decided": decisions[item.candidate_id]} for item in items],
        [
            Column("question", "question", wide=True),
            Column("candidate", "neighbor", wide=True),
            Column("decided", "decided"),
        ],
        name,
        parameter="candidate",
        value="candidate_id",
    )
    if chosen in ids:
        layout.caption(decisions[chosen])
        words = f"Candidate {chosen} next to its question"
        links.link(words, "questions", icon=":material/arrow_forward:", candidate=chosen)
    if len(ids) > LISTED:
        st.caption(f"The list shows the first {LISTED:d}; the file contains all.")
    download(name, [{"candidate": id, "decided": decisions[id]} for id in ids], key=f"{name}-csv")


@cached
def _decisions(session: Session, ids: tuple[str, ...], audit_id: int | None) -> dict[str, str]:
    """Return in words each reviewer's newest decision on these candidates, for an audit if one is given."""
    newest: dict[str, dict[str, str]] = {id: {} for id in ids}
    of_audit = () if audit_id is None else (ReviewRow.audit_id == audit_id,)
    for part in in_parts(ids):
        for made in read_reviews(session, ReviewRow.candidate_id.in_(part), *of_audit):
            words = f"{made.reviewer}: {made.decision}" + (f" ({made.reason})" if made.reason else "")
            newest[made.candidate_id][made.reviewer] = words
    return {id: "; ".join(words for _, words in sorted(each.items())) for id, each in newest.items()}
