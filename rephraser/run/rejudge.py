"""Judge stored answers again by another rule: no request is sent, and earlier verdicts stay."""

from collections import Counter, defaultdict
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import select
from sqlalchemy.orm import Session

from rephraser.candidates import add_verdicts, read_candidates
from rephraser.run.judge import judge_counts
from rephraser.run.spec import RunSpec
from rephraser.tables import VerdictRow
from rephraser.verdict import AnswerCounts, OverlapRule, Verdict
from rephraser.verdict.judge import rule_for_programs
from service.answer_kinds import AnswerKind
from service.database import Database, in_parts
from service.errors import InputError
from service.questions.store import load_questions
from service.runs.store import Run

_COUNTS = TypeAdapter(AnswerCounts)


def judge_again(db: Database, run: Run, rule: OverlapRule, *, dry_run: bool = False) -> dict[str, Any]:
    """Judge a run's counts of answers by `rule`, look by look, as far as looks were taken.

    Verdicts are added, none is replaced; published sets keep theirs. What the run decides later it decides by
    its own rule. Return one JSON object: candidates that were `judged`; those `waiting` for the run's own
    decision, `without_answers` and with `too_few` for the rule's first look, which stay as they are;
    candidates by status `before` and `after`; the `changes`; and the number of verdicts `stored`.
    """
    spec = RunSpec.from_json(run.spec)
    if not spec.solvers:
        raise InputError(
            f"run {run.name!r} has no solver, so no answers are stored. Start a run with --solver."
        )
    own = spec.rule
    if rule.original_samples != own.original_samples or not {*rule.looks} <= {*own.looks}:
        raise InputError(
            f"run {run.name!r} counted its answers with question_samples={own.original_samples} and "
            f"looks={list(own.looks)}. Choose among these looks, or start a run with other numbers."
        )
    with db.read() as session:
        candidates, looks = read_candidates(session, run.id), _read_looks(session, run.id)
        questions = load_questions(session, [each.question_id for each in candidates[:1]])
    if any(question.kind is AnswerKind.CODE for question in questions.values()):
        rule = rule_for_programs(rule)
    final = [each for each in candidates if each.verdict_final]
    compared = [each for each in final if "counts" in each.evidence]
    before = {each.candidate_id: each.verdict for each in candidates if each.verdict is not None}
    after: dict[str, str] = {}
    changes, fresh = list[dict[str, Any]](), list[dict[str, Any]]()
    for each in compared:
        verdict = None
        for samples, evidence in zip(own.looks, looks[each.candidate_id], strict=False):
            if samples in rule.looks and (verdict is None or verdict["status"] == Verdict.UNDECIDED):
                counts = _COUNTS.validate_python(evidence["counts"])
                verdict = judge_counts(counts, evidence, rule)
        if verdict is None:
            continue
        after[each.candidate_id] = status = verdict["status"]
        if status != each.verdict:
            change = {"candidate_id": each.candidate_id, "question_id": each.question_id}
            change |= {"before": each.verdict, "after": status, "reason": verdict["reason"]}
            changes.append(change | {"reviewed": each.reviewed})  # which overrides both
        if status != each.verdict or each.evidence.get("rule") != verdict["evidence"]["rule"]:
            fresh.append({"run_id": run.id, "candidate_id": each.candidate_id, **verdict})
    for part in in_parts([] if dry_run else fresh):
        with db.write() as session:
            add_verdicts(session, part)
    return {
        "judged": len(after),
        "waiting": len(candidates) - len(final),
        "without_answers": len(final) - len(compared),
        "too_few": len(compared) - len(after),
        "before": dict(sorted(Counter(before.values()).items())),
        "after": dict(sorted(Counter((before | after).values()).items())),
        "changes": changes,
        "stored": 0 if dry_run else len(fresh),
    }


def _read_looks(session: Session, run_id: str) -> dict[str, list[dict[str, Any]]]:
    """Return the evidence of each look at a run's candidates, in order; judging again repeats a look."""
    looks = defaultdict[str, list[dict[str, Any]]](list)
    verdicts = select(VerdictRow.candidate_id, VerdictRow.evidence).where(VerdictRow.run_id == run_id)
    for candidate_id, evidence in session.execute(verdicts.order_by(VerdictRow.id)):
        taken = looks[candidate_id]
        if "counts" in evidence and evidence["counts"] not in [each["counts"] for each in taken]:
            taken.append(evidence)
    return looks
