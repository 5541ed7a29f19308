"""What stands beside the answers: structural checks and premises, and what both mean for the verdict."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session

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
from rephraser.reviews.status import CandidateStatus, statuses_by_question
from rephraser.run.ask import earlier_texts
from rephraser.run.spec import PREMISES, PremiseSpec, RunSpec
from rephraser.tables import CandidateFindingRow, CandidateRow, VerdictRow
from rephraser.verdict import Structure, Verdict
from service.answer_kinds import AnswerKind
from service.database import Database, in_parts, utc_now
from service.program_gold import read_gold
from service.questions.tables import QuestionRow
from service.runs.tables import CellRow
from service.telling import TellProgress

QUESTIONS_PER_BATCH = 200

PREMISE_CHANGED, PREMISE_DROPPED = "premise_changed", "premise_dropped"

WEIGHING = frozenset({"numbers", "words", "examples", PREMISES})
"""Groups that make a verdict ask for more: more frequent on broken candidates than on honest ones.

`benchmarks/studies/gate.py` prints how often each group is met on either; `examples`, of programs, was
not measured.
"""


def check_structure(
    db: Database,
    run_id: str,
    spec: RunSpec,
    *,
    count_tokens: Callable[[str], int] | None,
    report: TellProgress,
) -> int:
    """Run the structural checks on all candidates that had none; return how many.

    A fatal finding rejects. What is left is unverified: with a solver, until its answers are compared.
    Without one for good, and undecided where evidence speaks against it that answers would have to outweigh.
    """
    with db.read() as session:
        unchecked = [
            statuses
            for statuses in statuses_by_question(session, run_id).values()
            if any(status.status is None for status in statuses)
        ]
        taken = looks_taken(session, run_id)
    total = sum(status.status is None for statuses in unchecked for status in statuses)
    done = 0
    for batch in in_parts(unchecked, QUESTIONS_PER_BATCH):
        with db.read() as session:
            texts = _texts(session, batch)
            questions = {statuses[0].question_id for statuses in batch}
            elsewhere = earlier_texts(session, spec, questions, standing=True)
        rows = [
            row
            for statuses in batch
            for row in _check_question(
                run_id,
                spec,
                statuses,
                texts,
                taken,
                elsewhere[statuses[0].question_id],
                count_tokens=count_tokens,
            )
        ]
        _store_first_verdicts(db, run_id, rows)
        done += len(rows)
        report(done, total)
    return done


def looks_taken(session: Session, run_id: str, candidate_ids: Sequence[str] | None = None) -> dict[str, int]:
    """Return for candidates of the run, these or all, how often their answers were judged.

    A candidate's first verdict is the one of the structural checks, which judges no answers.
    """
    query = (
        select(VerdictRow.candidate_id, func.count() - 1)
        .where(VerdictRow.run_id == run_id)
        .group_by(VerdictRow.candidate_id)
    )
    if candidate_ids is not None:
        query = query.where(VerdictRow.candidate_id.in_(candidate_ids))
    return dict(session.execute(query).all())


def structure_of(names: Iterable[str]) -> Structure:
    """Return what findings of these names mean for the verdict."""
    unique = set(names)
    premises = {PREMISES} if unique & {PREMISE_CHANGED, PREMISE_DROPPED} else set()
    return Structure((groups_of(unique) | premises) & WEIGHING, PREMISE_DROPPED in unique)


def read_structures(
    session: Session, run_id: str, spec: RunSpec, candidate_ids: Collection[str]
) -> dict[str, Structure]:
    """Return what is known about each of these candidates of a run beside their answers."""
    names: dict[str, set[str]] = defaultdict(set)
    query = select(CandidateFindingRow.candidate_id, CandidateFindingRow.name).where(
        CandidateFindingRow.run_id == run_id
    )
    for candidate_id, name in session.execute(query):
        names[candidate_id].add(name)
    for candidate_id, outcome in _premise_outcomes(session, spec):
        names[candidate_id].add(f"premise_{outcome}")
    return {candidate_id: structure_of(names[candidate_id]) for candidate_id in candidate_ids}


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
    posterior: float | None,
    evidence: dict[str, Any],
) -> dict[str, Any]:
    """Return a row of the verdict table."""
    return {
        "run_id": run_id,
        "candidate_id": candidate_id,
        "status": status.value,
        "posterior": posterior,
        "reason": reason,
        "final": final,
        "evidence": evidence,
        "created_at": utc_now(),
    }


def _check_question(
    run_id: str,
    spec: RunSpec,
    statuses: Sequence[CandidateStatus],
    texts: dict[str, tuple[str, str, AnswerKind]],
    taken: dict[str, int],
    elsewhere: Sequence[str],
    *,
    count_tokens: Callable[[str], int] | None,
) -> list[dict[str, Any]]:
    """Check the candidates that had no verdict against the question and what passed these checks before.

    Siblings whose answers were judged count whatever came out: how far that is must not matter here. So do
    those of runs that this one tops up (`elsewhere`). A mended text may be like the one that it mends.
    """
    options = CheckOptions(
        token_limit=spec.token_limit, count_tokens=count_tokens, min_distance=spec.min_distance
    )
    question, answer, kind = texts[statuses[0].question_id]
    names = read_gold(answer).names if kind is AnswerKind.CODE else ()
    siblings = [("", text) for text in elsewhere]
    rows = []
    for status in sorted(statuses, key=lambda s: s.ordinal):
        text = texts[status.candidate_id][0]
        if status.status is None:
            others = [other for identity, other in siblings if identity != status.mended_from]
            if kind is AnswerKind.CODE:
                findings = check_program(question, text, names=names, siblings=others, options=options)
            else:
                findings = check_candidate(question, text, answer=answer, siblings=others, options=options)
            row = _structural_verdict(run_id, spec, status.candidate_id, findings)
            rows.append(row)
            rejected = row["status"] == Verdict.REJECTED
        else:
            rejected = status.status == Verdict.REJECTED and not taken.get(status.candidate_id)
        if not rejected:
            siblings.append((status.candidate_id, text))
    return rows


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
    return verdict_row(run_id, candidate_id, status, reason, final=final, posterior=None, evidence=evidence)


def _store_first_verdicts(db: Database, run_id: str, rows: Sequence[dict[str, Any]]) -> None:
    with db.write() as session:
        # Another process of the same run may have checked them meanwhile.
        judged = set(
            session.scalars(
                select(VerdictRow.candidate_id).where(
                    VerdictRow.run_id == run_id,
                    VerdictRow.candidate_id.in_([row["candidate_id"] for row in rows]),
                )
            )
        )
        fresh = [row for row in rows if row["candidate_id"] not in judged]
        if fresh:
            session.execute(insert(VerdictRow), fresh)


def _premise_outcomes(session: Session, spec: RunSpec) -> list[tuple[str, str]]:
    if spec.premises is None:
        return []
    query = select(CellRow.subject_id, CellRow.outcome).where(
        CellRow.scope == spec.premises.id,
        CellRow.kind == PREMISES,
        CellRow.outcome.in_(("changed", "dropped")),
    )
    return [(subject_id, str(outcome)) for subject_id, outcome in session.execute(query)]


def _texts(
    session: Session, batch: Sequence[Sequence[CandidateStatus]]
) -> dict[str, tuple[str, str, AnswerKind]]:
    """Return text, gold answer and kind by id of the batch's questions, and of its candidates the text."""
    questions = {status.question_id for statuses in batch for status in statuses}
    candidates = {status.candidate_id for statuses in batch for status in statuses}
    texts = {
        identity: (text, answer, kind)
        for identity, text, answer, kind in session.execute(
            select(QuestionRow.id, QuestionRow.text, QuestionRow.answer, QuestionRow.kind).where(
                QuestionRow.id.in_(questions)
            )
        )
    }
    for identity, text in session.execute(
        select(CandidateRow.id, CandidateRow.text).where(CandidateRow.id.in_(candidates))
    ):
        texts[identity] = (text, "", AnswerKind.LATEX)
    return texts
