"""Evidence about a candidate without answers: structural checks and premises."""

from collections.abc import Callable, Sequence
from typing import Any

from rephraser.checks import CHECKS_VERSION, CheckOptions, Severity, check_candidate
from rephraser.checks.premises import Premises
from rephraser.checks.programs import check_program
from rephraser.run.spec import PremiseSpec, RunSpec
from rephraser.run.store import Subject
from rephraser.verdict import Verdict
from service.answer_kinds import AnswerKind
from service.database import utc_now
from service.program_gold import read_gold


def premise_findings(premises: Premises) -> list[dict[str, str]]:
    """Return what was changed or dropped, in the form of findings of the structural checks."""
    pairs = (("premise_dropped", premises.dropped), ("premise_changed", premises.changed))
    return [
        {"name": name, "severity": Severity.EVIDENCE.value, "detail": "; ".join(differing)}
        for name, differing in pairs
        if differing
    ]


def premise_evidence(spec: PremiseSpec, premises: Premises) -> dict[str, Any]:
    """Return what is kept with the verdict: the model, its settings and the premises by state."""
    return {"id": spec.id, "model": spec.model, "outcome": premises.outcome, **vars(premises)}


def verdict_row(
    run_id: str,
    candidate_id: str,
    status: Verdict,
    reason: str,
    *,
    final: bool,
    evidence: dict[str, Any],
) -> dict[str, Any]:
    """Return a row of the verdict table."""
    return {
        "run_id": run_id,
        "candidate_id": candidate_id,
        "status": status.value,
        "reason": reason,
        "final": final,
        "evidence": evidence,
        "created_at": utc_now(),
    }


def check_structure(
    run_id: str,
    spec: RunSpec,
    question: Subject,
    candidate_id: str,
    text: str,
    siblings: Sequence[str],
    *,
    count_tokens: Callable[[str], int] | None,
) -> dict[str, Any]:
    """Check a candidate against its question and its siblings; return the row of its first verdict.

    A fatal finding rejects. Other candidates are unverified: with a solver, until their answers are compared;
    without one for good. Without a solver, a candidate with any finding is undecided.

    Args:
        siblings: Earlier candidates that passed these checks.
    """
    options = CheckOptions(
        token_limit=spec.token_limit, count_tokens=count_tokens, min_distance=spec.min_distance
    )
    if question.kind is AnswerKind.CODE:
        names = read_gold(question.answer).names
        findings = check_program(question.text, text, names=names, siblings=siblings, options=options)
    else:
        findings = check_candidate(
            question.text, text, answer=question.answer, siblings=siblings, options=options
        )
    fatal = [finding for finding in findings if finding.severity is Severity.FATAL]
    if fatal:
        status, final, reason = Verdict.REJECTED, True, "; ".join(finding.detail for finding in fatal)
    elif spec.solvers:
        status, final, reason = Verdict.UNVERIFIED, False, "passed the structural checks; waiting for answers"
    elif findings:
        status, final = Verdict.UNDECIDED, True
        reason = "no solver compared answers, and " + "; ".join(finding.detail for finding in findings)
    else:
        status, final = Verdict.UNVERIFIED, True
        reason = "passed the structural checks; answers were not compared, as the run has no solver"
    evidence = {
        "findings": [
            {"name": finding.name, "severity": finding.severity.value, "detail": finding.detail}
            for finding in findings
        ],
        "versions": {"checks": CHECKS_VERSION},
    }
    return verdict_row(run_id, candidate_id, status, reason, final=final, evidence=evidence)
