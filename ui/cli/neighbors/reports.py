"""What `tagrpo neighbors list` and `show` print: a page of candidates, all about one."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ui.cli import output

if TYPE_CHECKING:
    from rephraser.reviews.store import Review
    from rephraser.views.candidates import Cost, Detail, Listed, Page, Proposal, StoredVerdict
    from rephraser.views.exchanges import Exchange

TEXT_SHOWN = 90
ID_SHOWN = 12  # long enough for `show`
CLASS_SHOWN = 60

# Model output may hold terminal commands and marks that turn the reading direction around.
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""Return text with control characters and marks of reading direction spelled out (`\x1b`)."""
    return _INVISIBLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def short(text: str, length: int = TEXT_SHOWN) -> str:
    """Return text on one line, cut to `length` characters."""
    line = " ".join(visible(text).split())
    return line if len(line) <= length else line[: length - 3] + "..."


def listed_json(listed: "Listed") -> dict[str, Any]:
    """Return a candidate of a page as JSON."""
    values = asdict(listed.standing)
    return {"candidate": values.pop("candidate_id"), **values, "text": listed.text}


def print_page(run_name: str, page: "Page") -> None:
    """Print candidates as a table, and how to go on."""
    if not page.candidates:
        output.say(f"no {'more ' if page.total else ''}candidate of {run_name} matches")
        return
    rows = []
    for listed in page.candidates:
        standing = listed.standing
        status = standing.status or "pending"
        rows.append(
            [
                standing.candidate_id[:ID_SHOWN],
                standing.question_id[:ID_SHOWN],
                f"{status} (review)" if standing.reviewed else status,
                standing.posterior,
                standing.strategy,
                short(listed.text),
            ]
        )
    output.table(["candidate", "question", "status", "posterior", "strategy", "text"], rows)
    if page.after is not None:
        output.say(f"{page.total:,} in all; go on with --after {page.after}")


def detail_json(detail: "Detail", exchanges: Sequence["Exchange | None"]) -> dict[str, Any]:
    """Return all about a candidate as one JSON object; exchanges stand beside the proposals, if wanted."""
    from rephraser.checks.wording import likeness

    question = detail.question
    runs = []
    for index, proposal in enumerate(detail.proposals):
        standing = asdict(proposal.standing)
        del standing["question_id"], standing["candidate_id"]
        entry = {
            "run": proposal.run.name,
            "run_id": proposal.run.id,
            **standing,
            "cost": None if proposal.cost is None else asdict(proposal.cost),
            "candidates_of_request": proposal.siblings,
            "verdicts": [asdict(verdict) for verdict in proposal.verdicts],
        }
        exchange = exchanges[index] if exchanges else None
        if exchange is not None:
            messages = [{"role": role, "content": text} for role, text in exchange.prompt]
            entry["exchange"] = {"prompt": messages, "text": exchange.text, "body": exchange.body}
        runs.append(entry)
    return {
        "candidate": detail.candidate.id,
        "text": detail.candidate.text,
        "created_at": detail.created_at,
        "likeness": likeness(question.text, detail.candidate.text),
        "question": {
            "id": question.id,
            "text": question.text,
            "answer": question.answer,
            "level": question.level,
            "subject": question.subject,
        },
        "runs": runs,
        "answers_cost": asdict(detail.answering),
        "reviews": [asdict(review) for review in detail.reviews],
    }


def print_detail(detail: "Detail", exchanges: Sequence["Exchange | None"]) -> None:
    """Print all about a candidate."""
    from rephraser.checks.wording import likeness

    output.say(f"candidate {detail.candidate.id}")
    output.say(f"of question {detail.question.id}, gold answer: {visible(detail.question.answer) or '-'}")
    _print_text("original", detail.question.text)
    _print_text("candidate", detail.candidate.text)
    output.say()
    output.say(f"likeness of the wordings: {likeness(detail.question.text, detail.candidate.text):.2f}")
    for index, proposal in enumerate(detail.proposals):
        _print_proposal(proposal)
        if exchanges:
            _print_exchange(exchanges[index])
    if detail.answering.requests:
        output.say()
        output.say(f"answers drawn to the candidate, in all runs: {_cost(detail.answering)}")
    if detail.reviews:
        output.say()
        output.say("reviews, oldest first; the last one that was not withdrawn counts")
        for review in detail.reviews:
            output.say(f"  {_review(review)}")


def _review(review: "Review") -> str:
    audit = f", audit {review.audit_id}" if review.audit_id is not None else ""
    reason = f": {visible(review.reason)}" if review.reason else ""
    taken = f" (withdrawn {review.withdrawn_at})" if review.withdrawn_at is not None else ""
    return f"{review.created_at}  {review.decision} by {visible(review.reviewer)}{audit}{reason}{taken}"


def _print_text(title: str, text: str) -> None:
    output.say()
    output.say(f"--- {title} ---")
    output.say(visible(text))


def _print_proposal(proposal: "Proposal") -> None:
    standing = proposal.standing
    output.say()
    output.say(f"--- run {proposal.run.name} ---")
    by_review = " by review" if standing.reviewed else ""
    output.say(f"status: {standing.status or 'pending'}{by_review}")
    version = next(
        (s["version"] for s in proposal.run.spec["strategies"] if s["name"] == standing.strategy), None
    )
    output.say(
        f"proposed by: {standing.model}, strategy {standing.strategy}"
        f"{f' v{version}' if version else ''} ({standing.strategy_hash or 'no hash'}), round {standing.round}"
    )
    if proposal.cost is not None:
        shared = f", for {proposal.siblings} candidates" if proposal.siblings > 1 else ""
        output.say(f"cost of proposing: {_cost(proposal.cost)}{shared}")
    for number, verdict in enumerate(proposal.verdicts, start=1):
        _print_verdict(number, verdict)


def _cost(cost: "Cost") -> str:
    unpriced = f" and {cost.unpriced} without a known price" if cost.unpriced else ""
    return (
        f"{cost.requests:,} requests, {cost.prompt_tokens:,} + {cost.completion_tokens:,} tokens, "
        f"${cost.usd:.4f}{unpriced}"
    )


def _print_verdict(number: int, verdict: "StoredVerdict") -> None:
    evidence = verdict.evidence
    output.say()
    more = "" if verdict.final else ", not final"
    output.say(f"verdict {number}: {verdict.status}{more}, {verdict.created_at}")
    output.say(f"  {visible(verdict.reason)}")
    for finding in evidence.get("findings", []):
        output.say(f"  finding: {finding['name']} ({finding['severity']}): {visible(finding['detail'])}")
    if (premises := evidence.get("premises")) is not None:
        output.say(
            f"  premises, as {premises['model']} sees them: {len(premises['kept'])} kept, "
            f"{len(premises['changed'])} changed, {len(premises['dropped'])} dropped"
        )
    if "rule" in evidence:
        groups = ", ".join(evidence.get("asks_for_more", ()))
        more = f", asking for more because of {groups}" if groups else ""
        output.say(f"  rule: {evidence['rule']['rule']}{more}")
    if "counts" in evidence:
        _print_answers(evidence["counts"])
        parts = [
            f"overlap {evidence['overlap']}",
            f"largest new answer {evidence['new_top']}",
            f"original's largest {evidence['original_top']}",
            f"log Bayes factor {evidence['log_bayes_factor']:.2f}",
        ]
        if verdict.posterior is not None:
            parts.append(f"posterior {verdict.posterior:.4f}")
        output.say("  " + ", ".join(parts))
        for solver, drawn in evidence.get("by_solver", {}).items():
            output.say(
                f"  solver {solver}: {drawn['original']} answers to the original, "
                f"{drawn['candidate']} to the candidate"
            )


def _print_answers(counts: dict[str, Any]) -> None:
    gold = counts["gold"]
    rows: list[list[object]] = [
        [short(answer, CLASS_SHOWN), original, candidate, "gold" if index == gold else ""]
        for index, (answer, original, candidate) in enumerate(
            zip(counts["classes"], counts["original"], counts["candidate"], strict=True)
        )
    ]
    if counts["original_unparsed"] or counts["candidate_unparsed"]:
        rows.append(["no answer found", counts["original_unparsed"], counts["candidate_unparsed"], ""])
    if counts.get("original_unsettled") or counts.get("candidate_unsettled"):
        rows.append(["not compared in time", counts["original_unsettled"], counts["candidate_unsettled"], ""])
    output.table(["  answer", "original", "candidate", ""], [[f"  {row[0]}", *row[1:]] for row in rows])
    if counts.get("unknown_pairs"):
        output.say(f"  {counts['unknown_pairs']} pairs of answers could not be compared")


def _print_exchange(exchange: "Exchange | None") -> None:
    if exchange is None:
        output.say()
        output.say("no request to a model stands behind it")
        return
    for role, text in exchange.prompt:
        _print_text(f"prompt, {role}", text)
    _print_text("answer", "(none yet)" if exchange.text is None else exchange.text)
    if exchange.body is not None:
        _print_text("answer as sent", exchange.body)
