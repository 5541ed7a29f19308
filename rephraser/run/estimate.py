"""Estimate a run's requests and cost from its questions or a finished trial."""

from collections.abc import Sequence

import numpy as np

from rephraser.config import RephraseConfig
from rephraser.proposing.strategies import build_messages
from rephraser.questions.store import load_question_set
from rephraser.run.execution import plan_spec, premise_model
from rephraser.run.spec import ANSWER, PREMISES, PROPOSE, RunSpec
from rephraser.run.store import KIND
from service.database import Database
from service.engines.opening import price_of
from service.models.access import Model
from service.models.estimate import IMAGE_TOKENS, SHORT_ANSWER, Estimate, between, priced, scaled, tokens
from service.questions.question import Question
from service.runs.store import list_runs, run_question_ids

REWRITE_LENGTH = between(0.8, 1.6)  # of a rewrite, in lengths of its question
INSTRUCTIONS = 800  # tokens of the instructions about premises


def estimate(config: RephraseConfig, db: Database) -> Estimate:
    """Return what the run of a config will ask and cost; nothing is sent or stored.

    The estimate is made from the largest finished run with the same settings, else from the questions alone:
    then the least is one round, the most all rounds for all of them.
    """
    spec, ids, _ = plan_spec(config, db)
    with db.read() as session:
        trials = [
            (len(run_question_ids(session, run.id)), run.name, run)
            for run in list_runs(session, KIND)
            if run.finished_at and run.spec == spec.to_json()
        ]
        if trials:
            count, _, trial = max(trials, key=lambda sized: sized[:2])
            return scaled(session, trial, count, len(ids), len(ids) / count)
        questions = load_question_set(session, spec.questions)[: config.limit]
    models: list[Model] = [each for each in (config.proposer, *config.solver) if isinstance(each, Model)]
    if config.premises is not None:
        models.append(premise_model(config, config.premises))
    return _from_questions(spec, questions, models)


def _from_questions(spec: RunSpec, questions: Sequence[Question], models: Sequence[Model]) -> Estimate:
    count, prices = len(questions), price_of(models)
    images = sum(len(question.images) for question in questions)
    asked = tokens(sum(len(question.text) for question in questions))
    rounds = between(1, spec.rounds)
    stages = []
    if spec.proposer == "llm":
        wanted = [
            (strategy, slots) for strategy, slots in zip(spec.strategies, spec.slots(), strict=True) if slots
        ]
        sent = sum(
            len(message.content)
            for question in questions
            for strategy, slots in wanted
            for message in build_messages(strategy, question.text, slots, structured=spec.output == "json")
        )
        rewritten = asked * REWRITE_LENGTH * spec.n * rounds
        requests = count * len(wanted) * rounds
        prompts = (tokens(sent) + images * len(wanted) * IMAGE_TOKENS) * rounds
        stages.append(priced(PROPOSE, spec.model, requests, prompts, rewritten, prices))
    look = (spec.rule.looks[0] * spec.n, spec.rule.looks[-1] * spec.n * spec.rounds)
    for place, solver in enumerate(spec.solvers):
        shares = [spec.shares(spec.rule.original_samples + drawn)[place] for drawn in look]
        samples = count * between(*shares)
        requests = np.ceil(samples / solver.samples_per_request)
        prompts = (asked + images * IMAGE_TOKENS) * requests / count
        longest = solver.sampling.max_tokens
        drawn_tokens = samples * between(min(SHORT_ANSWER, longest), longest)
        stages.append(priced(ANSWER, solver.model, requests, prompts, drawn_tokens, prices))
    if spec.premises is not None:
        requests = count * spec.n * rounds
        prompts = 2 * asked * spec.n * rounds + requests * INSTRUCTIONS
        kept = requests * between(SHORT_ANSWER, spec.premises.sampling.max_tokens)
        stages.append(priced(PREMISES, spec.premises.model, requests, prompts, kept, prices))
    return Estimate(count, stages, images=images)
