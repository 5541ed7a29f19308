"""Estimate a judge's requests and cost before anything is sent."""

from sqlalchemy import func, select

from evaluator.config import JudgeConfig
from evaluator.evals.runs import find_eval_run
from evaluator.grading.versions import find_grader
from evaluator.judging.asking import system_prompt
from evaluator.judging.running import JUDGE, base_version, judge_spec, read_pending
from service.asks.tables import ANSWERED, FINAL, AskRow
from service.database import Database
from service.engines.opening import price_of, remote_settings
from service.errors import InputError
from service.models.estimate import Estimate, priced, scaled, times, tokens
from service.runs.store import find_run

SHORTEST_REPLY = 4  # tokens: the verdict alone


def estimate_judging(config: JudgeConfig, db: Database) -> Estimate:
    """Estimate what asking a judge about an eval run takes, beyond what it has replied to.

    Scaled by what this judge's largest run took; else from the lengths of what is asked, with replies of the
    verdict alone to ones as long as `max_tokens` allows. Nothing is written. Samples without a grade by
    `base` are not counted.

    Raises:
        InputError: nothing of the run is graded by `base`.
    """
    spec, prices = judge_spec(config), price_of([remote_settings(config, config.model)])
    with db.read() as session:
        run = find_eval_run(session, config.run)
        base = base_version(config, run)
        base_row, judge_row = find_grader(session, base), find_grader(session, spec.version(base))
    if base_row is None:
        raise InputError(f"run {run.name} has no grades by {base}. Run `tagrpo eval grade {run.name}` first.")
    lengths = {
        pending.asked: pending.characters
        for pending, _ in read_pending(db, run, base_row, judge_row or -1, spec.asked)
        if pending.asked is not None
    }
    with db.read() as session:
        replied = select(AskRow.about).where(
            AskRow.scope == spec.id, AskRow.kind == JUDGE, AskRow.state.in_((ANSWERED, FINAL))
        )
        for question in session.scalars(replied):
            lengths.pop(question, None)
        replies = func.count()
        largest = session.execute(
            select(AskRow.run_id, replies)
            .where(AskRow.scope == spec.id, AskRow.state == ANSWERED, AskRow.run_id.is_not(None))
            .group_by(AskRow.run_id)
            .order_by(replies.desc())
        ).first()
        if largest is not None and lengths:
            trial, count = largest
            assert trial is not None
            return scaled(session, find_run(session, trial), count, len(lengths), len(lengths) / count)
    characters = sum(lengths.values()) + len(lengths) * len(system_prompt())
    completions = times(len(lengths), (min(SHORTEST_REPLY, spec.max_tokens), spec.max_tokens))
    requests = (float(len(lengths)), float(len(lengths)))
    stage = priced(JUDGE, spec.model, requests, tokens(characters), completions, prices)
    return Estimate(len(lengths), (stage,))
