"""Judge stored answers again by another rule: no request is sent, and earlier verdicts stay."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Row, insert

from evaluator.grading import Grader
from rephraser.reviews.status import update_standings
from rephraser.run.judge import CheckedCandidate
from rephraser.run.rephrase import QuestionWork, Rephrasing
from rephraser.run.spec import RunSpec
from rephraser.run.store import candidates_query, read_questions
from rephraser.tables import VerdictRow
from rephraser.verdict import OverlapRule, rule_spec
from service.asks.ask import Asker, Models
from service.asks.store import Store
from service.database import Database, in_parts
from service.errors import InputError
from service.runs.store import Run
from service.telling import TellProgress

CANDIDATES_PER_BATCH = 100


def judge_again(
    db: Database, run: Run, rule: OverlapRule, grader: Grader, *, dry_run: bool = False, report: TellProgress
) -> dict[str, Any]:
    """Judge the stored answers of a run by `rule`, look by look, as far as answers are stored.

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
    spec = replace(spec, rule=rule)
    with db.read() as session:
        candidates = session.execute(candidates_query(run.id)).all()
    final = [each for each in candidates if each.verdict_final]
    compared = [each for each in final if "counts" in each.evidence]
    before = {each.candidate_id: each.verdict for each in candidates if each.verdict is not None}
    after: dict[str, str] = {}
    changes: list[dict[str, Any]] = []
    stored = looked_at = 0
    for batch in in_parts(compared, CANDIDATES_PER_BATCH):
        verdicts = asyncio.run(_judge(db, run.id, spec, batch, grader))
        fresh = []
        for each, verdict in zip(batch, verdicts, strict=True):
            if verdict is None:
                continue
            after[each.candidate_id] = status = verdict["status"]
            if status != each.verdict:
                change = {"candidate_id": each.candidate_id, "question_id": each.question_id}
                change |= {"before": each.verdict, "after": status, "reason": verdict["reason"]}
                changes.append(change | {"reviewed": each.reviewed})  # which overrides both
            if status != each.verdict or each.evidence.get("rule") != rule_spec(rule):
                fresh.append(verdict | {"final": True})
        if fresh and not dry_run:
            with db.write() as session:
                session.execute(insert(VerdictRow), fresh)
                update_standings(session, [verdict["candidate_id"] for verdict in fresh])
            stored += len(fresh)
        looked_at += len(batch)
        report(looked_at, len(compared))
    return {
        "judged": len(after),
        "waiting": len(candidates) - len(final),
        "without_answers": len(final) - len(compared),
        "too_few": len(compared) - len(after),
        "before": dict(sorted(Counter(before.values()).items())),
        "after": dict(sorted(Counter((before | after).values()).items())),
        "changes": changes,
        "stored": stored,
    }


async def _judge(
    db: Database, run_id: str, spec: RunSpec, batch: Sequence[Row[Any]], grader: Grader
) -> list[dict[str, Any] | None]:
    """Return the last verdict that the stored answers of each candidate allow; None without any."""
    with db.read() as session:
        asked = {each[0].id: each for each in read_questions(session, [row.question_id for row in batch])}
    store = Store(db)
    rephrasing, replay = Rephrasing(run_id, spec, grader), Asker(store, run_id, 0, Models({}))
    questions = {id: QuestionWork(rephrasing, replay, *question) for id, question in asked.items()}
    try:
        return await asyncio.gather(
            *(questions[row.question_id].last_verdict(CheckedCandidate.stored(row)) for row in batch)
        )
    finally:
        rephrasing.judging.close()
        store.close()
