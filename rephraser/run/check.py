"""What stands next to the answers: structural checks and premises, and what both mean for the verdict."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rephraser.checks import (
    CHECKS_VERSION,
    CheckOptions,
    Finding,
    Severity,
    check_candidate,
    groups_of,
)
from rephraser.checks.premises import Premises
from rephraser.checks.programs import check_program
from rephraser.run.spec import PREMISES, PremiseSpec, RunSpec
from rephraser.run.store import Subject
from rephraser.verdict import Structure, Verdict
from service.answer_kinds import AnswerKind
from service.database import utc_now
from service.program_gold import read_gold

PREMISE_CHANGED, PREMISE_DROPPED = "premise_changed", "premise_dropped"

WEIGHING = frozenset({"numbers", "words", "examples", PREMISES})
"""Groups that make a verdict ask for more: more frequent on broken candidates than on honest ones.

`benchmarks/studies/gate.py` prints how often each group is met on either; `examples`, of programs, was
not measured.
"""


def structure_of(names: Iterable[str]) -> Structure:
    """Return what findings of these names mean for the verdict."""
    unique = set(names)
    premises = {PREMISES} if unique & {PREMISE_CHANGED, PREMISE_DROPPED} else set()
    return Structure((groups_of(unique) | premises) & WEIGHING, PREMISE_DROPPED in unique)


def premise_findings(premises: Premises) -> list[dict[str, str]]:
    """Return what was changed or dropped, in the form of findings of the structural checks."""
    pairs = ((PREMISE_DROPPED, premises.dropped), (PREMISE_CHANGED, premises.changed))
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
    without one for good, and undecided if evidence speaks against them that answers would have to outweigh.

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
    return _structural_verdict(run_id, spec, candidate_id, findings)


def _structural_verdict(
    run_id: str, spec: RunSpec, candidate_id: str, findings: Sequence[Finding]
) -> dict[str, Any]:
    fatal = [finding for finding in findings if finding.severity is Severity.FATAL]
    weighing = [finding for finding in findings if structure_of([finding.name]).flagged]
    if fatal:
        status, final, reason = Verdict.REJECTED, True, "; ".join(finding.detail for finding in fatal)
    elif spec.solvers:
        status, final, reason = Verdict.UNVERIFIED, False, "passed the structural checks; answers are awaited"
    elif weighing:
        status, final = Verdict.UNDECIDED, True
        reason = "no solver compared answers, and " + "; ".join(finding.detail for finding in weighing)
    else:
        status, final = Verdict.UNVERIFIED, True
        reason = "passed the structural checks; no solver, so answers were not compared"
    evidence = {
        "findings": [
            {"name": finding.name, "severity": finding.severity.value, "detail": finding.detail}
            for finding in findings
        ],
        "versions": {"checks": CHECKS_VERSION},
    }
    return verdict_row(run_id, candidate_id, status, reason, final=final, evidence=evidence)
