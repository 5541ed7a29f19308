"""Why earlier candidates of a question failed, as a proposer is told: one line each, and never an answer."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from rephraser.checks import Severity
from rephraser.reviews.status import CandidateStatus
from rephraser.tables import VerdictRow

EARLIER_SHOWN = 6  # earlier candidates a model is told to keep away from
REASON_LENGTH = 240  # characters
HINTS = 3
_IDS_PER_READ = 500

# Not which answers: the next rewrite would give them away, or be bent to them.
_BY_ANSWERS = {
    "rejected": "solved, it gives other answers than the problem, so something in it changes the problem",
    "undecided": "solved, it does not clearly give the problem's answers, so it may not say the same",
}
_BY_REVIEW = "a reader found that it is not the same problem"  # the reader's words may hold the answer
# Of these the details tell the answer once more, or number candidates that the proposer does not see.
_WITHOUT_DETAIL = {
    "answer_leaked": "it states the answer",
    "same_as_sibling": "it repeats another rewrite",
    "too_like_sibling": "its words are nearly those of another rewrite",
}


def read_reasons(session: Session, run_id: str, candidates: Sequence[CandidateStatus]) -> dict[str, str]:
    """Return by id why those of these candidates failed that did, from the run's newest verdicts."""
    failed = {c.candidate_id: c for c in candidates if c.status in _BY_ANSWERS}
    evidence: dict[str, dict[str, Any]] = {}
    ids = list(failed)
    for start in range(0, len(ids), _IDS_PER_READ):
        query = select(VerdictRow.candidate_id, VerdictRow.evidence).where(
            VerdictRow.run_id == run_id, VerdictRow.candidate_id.in_(ids[start : start + _IDS_PER_READ])
        )
        evidence.update(dict(session.execute(query.order_by(VerdictRow.id)).all()))
    return {key: _reason(one, evidence.get(key, {})) for key, one in failed.items()}


def latest_reasons(candidates: Sequence[CandidateStatus], reasons: Mapping[str, str]) -> dict[str, str]:
    """Return what a new cell tells of these candidates, all of one question, by their ordinal."""
    latest = sorted(candidates, key=lambda candidate: candidate.ordinal)[-EARLIER_SHOWN:]
    return {str(c.ordinal): reasons[c.candidate_id] for c in latest if c.candidate_id in reasons}


def _reason(candidate: CandidateStatus, evidence: Mapping[str, Any]) -> str:
    fatal: list[str] = []
    hints: list[str] = []
    for finding in evidence.get("findings", ()):
        said = _WITHOUT_DETAIL.get(finding["name"], finding["detail"])
        (fatal if finding["severity"] == Severity.FATAL else hints).append(said)
    if candidate.reviewed:
        reason = _BY_REVIEW
    else:
        reason = "; ".join(fatal) or _BY_ANSWERS[str(candidate.status)]
    if hints:
        reason += f". Check: {'; '.join(hints[:HINTS])}"
    return textwrap.shorten(reason, REASON_LENGTH, placeholder=" ...")
