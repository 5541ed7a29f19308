"""What a judge will be asked and cost, before anything is sent."""

from sqlalchemy import func, select

from evaluator.config import JudgeConfig
from evaluator.evals.problems import run_problems
from evaluator.evals.runs import find_eval_run
from evaluator.grading.versions import find_grader
from evaluator.judging.asking import system_prompt
from evaluator.judging.running import KINDS, base_version, judge_spec
from evaluator.judging.samples import JUDGE, SAMPLES_AT_ONCE, read_pending, read_verdicts
from service.asks.tables import ANSWERED, AskRow
from service.database import Database, in_parts
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
        problems = {problem.id: problem for problem in run_problems(session, run.id)}
    if base_row is None:
        raise InputError(f"run {run.name} has no grades by {base}. Run `tagrpo eval grade {run.name}` first.")
    lengths = {
        sample.asked: sample.characters
        for sample in read_pending(db, problems, base_row, judge_row or -1, KINDS[spec.asked])
        if sample.asked is not None
    }
    asked = list(lengths)
    with db.read() as session:
        for part in in_parts(asked, SAMPLES_AT_ONCE):
            for replied in read_verdicts(session, spec.id, part):
                del lengths[replied]
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
