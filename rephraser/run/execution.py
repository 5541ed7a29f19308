"""Rephrase runs from their config: start or resume one, or estimate what it will ask and cost."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evaluator.presets import PromptConfig
from rephraser.config import FileProposer, LlmProposer, PremiseCheck, RephraseConfig, Solver, VerdictRule
from rephraser.proposing.file import FileCandidates, read_candidates
from rephraser.proposing.rules import RULES_VERSION
from rephraser.proposing.strategies import Strategy, build_messages, load_strategy
from rephraser.questions.store import load_question_set, usable_kinds
from rephraser.run.rephrase import rephrase_run
from rephraser.run.spec import (
    ANSWER,
    BOXED_INSTRUCTION,
    KIND,
    PREMISES,
    PROGRAM_INSTRUCTION,
    PROPOSE,
    PremiseSpec,
    RunSpec,
    SolverSpec,
)
from rephraser.verdict import OverlapRule
from service.answer_kinds import AnswerKind
from service.asks.ask import Outcome
from service.asks.request import prompt_request
from service.asks.store import add_tasks
from service.config import pick
from service.database import Database
from service.engines.opening import OpenModels, engine_logs, remote_model
from service.errors import InputError
from service.models.access import Model
from service.models.estimate import IMAGE_TOKENS, SHORT_ANSWER, Estimate, between, priced, scaled, tokens
from service.models.settings import PromptSpec, Sampling
from service.questions.question import Question
from service.runs.progress import hold_cap
from service.runs.store import Run, keep_config, list_runs, open_run, run_question_ids
from service.telling import TellStage

REWRITE_LENGTH = between(0.8, 1.6)  # of a rewrite, in lengths of its question
INSTRUCTIONS = 800  # tokens of the instructions about premises


async def rephrase(
    config: RephraseConfig, db: Database, report: TellStage, note: Callable[[str], None] = lambda _: None
) -> tuple[Run, Outcome]:
    """Start the run of a config, or go on with it, and return it with what this call did.

    Results are stored as they arrive; after an interruption or a spent budget, the same call goes on. `note`
    gets what the user should know: a run that is resumed or grows, models that behave oddly.

    Example:
        config = RephraseConfig(
            questions="math", name="checked", proposer=LlmProposer(model="gpt-4-turbo"), max_usd=50
        )
        with Database.open("tagrpo.db") as db:
            run, outcome = asyncio.run(rephrase(config, db, lambda *_: None))
    """
    spec, ids, candidates = plan_spec(config, db)  # refuses what cannot be used before a model is reached
    async with OpenModels(engine_logs(db), config) as models:
        spec = await _open(config, spec, models)
        with db.write() as session:
            run, before = open_run(
                session, name=config.name, kind=KIND, spec=spec.to_json(), question_ids=ids
            )
            add_tasks(session, run.id, ids[before or 0 :])
            keep_config(session, run.id, config.stored())
        if before is not None:
            note(f"resuming run {run.name}")
            if len(ids) > before:
                note(f"run {run.name} grows from {before:,} to {len(ids):,} questions")
        if candidates is not None and candidates.unmatched:
            note(
                f"{candidates.source}: {candidates.unmatched:,} of {candidates.rows:,} rows match no "
                "question of this run and are skipped"
            )
        hold_cap(db, [run], config.max_usd, note)
        outcome = await rephrase_run(
            db,
            run,
            models.models(),
            report,
            candidates=candidates,
            stop_below=config.stop_below,
            retry_final=config.retry_final,
        )
        if outcome.was_complete:
            note(f"run {run.name} was already complete")
        for notice in models.notices:
            note(notice)
    return run, outcome


def plan_spec(config: RephraseConfig, db: Database) -> tuple[RunSpec, list[str], FileCandidates | None]:
    """Return the spec as far as it is known before a model is open, the questions' ids, a file's candidates.

    The candidates are those of the whole question set, so that a trial can grow.
    """
    proposer, candidates = config.proposer, None
    with db.read() as session:
        kinds_by_id = usable_kinds(session, config.questions)
        members = load_question_set(session, config.questions) if proposer.kind == "file" else []
    if not kinds_by_id:
        raise InputError(
            f"question set {config.questions!r} has no usable questions. `tagrpo questions list "
            f"{config.questions} --held` lists the reasons."
        )
    kinds = {*kinds_by_id.values()}
    programs = AnswerKind.CODE in kinds
    if programs and len(kinds) > 1:
        raise InputError(
            f'some questions of "{config.questions}" ask for programs and some do not. Split them into two '
            "sets."
        )
    if programs and proposer.kind == "rules":
        raise InputError("the rules rephrase math questions only. For programs, use a model or a file.")
    seed = None if config.seed is None else 0  # runs of any seed share the answers of solvers
    settings: dict[str, Any] = {"model": proposer.kind}
    if isinstance(proposer, LlmProposer):
        references = proposer.strategies or (("programs",) if programs else ("perspectives",))
        strategies = tuple(load_strategy(reference) for reference in references)
        settings = {
            "model": proposer.model,
            "sampling": Sampling(**pick(proposer, Sampling)),
            "content_attempts": proposer.content_attempts,
            "output": "tags" if proposer.reply == "auto" else proposer.reply,
        }
    elif isinstance(proposer, FileProposer):
        candidates = read_candidates(proposer, members, config.limit)
        settings["source"] = candidates.content
        strategies = (Strategy(proposer.strategy, "1", "candidates from a file", ""),)
    else:
        strategies = (Strategy("rules", RULES_VERSION, "rules for English wording, no model", ""),)
    spec = RunSpec(
        questions=config.questions,
        proposer=proposer.kind,
        strategies=strategies,
        n=config.n,
        rounds=config.rounds,
        seed=config.seed,
        solvers=tuple(
            SolverSpec(
                model=solver.model,
                sampling=Sampling(**pick(solver, Sampling)),
                samples_per_request=solver.samples_per_request,
                instruction=PROGRAM_INSTRUCTION if programs else BOXED_INSTRUCTION,
                seed=seed,
                prompt=_solver_prompt(solver, programs),
            )
            for solver in config.solver
        ),
        rule=make_rule(config.verdict),
        premises=None if config.premises is None else PremiseSpec(config.premises.model, seed=seed),
        token_limit=config.token_limit,
        min_distance=proposer.min_distance,
        **settings,
    )
    return spec, [*kinds_by_id][: config.limit], candidates


def _solver_prompt(solver: Solver, programs: bool) -> PromptSpec | None:
    """Return how a text is put to a solver; None: by the run's instruction."""
    given = pick(solver, PromptConfig)
    if all(each is None for each in given.values()):
        return None
    return PromptConfig(**given | {"preset": solver.preset or "default"}).prompt(programs=programs)


async def _open(config: RephraseConfig, spec: RunSpec, models: OpenModels) -> RunSpec:
    """Open the models and return the spec with what they say of themselves."""
    if isinstance(config.proposer, LlmProposer):
        endpoint = await models.open(config.proposer, "proposer.")
        as_json = config.proposer.reply == "auto" and endpoint.enforces_schema
        output: Any = "json" if as_json else spec.output
        spec = replace(spec, engine=endpoint.engine and endpoint.description, output=output)
    solvers = []
    for solver, model in zip(spec.solvers, config.solver, strict=True):
        endpoint = await models.open(model, "solver.")
        opened = replace(solver, engine=endpoint.engine and endpoint.description)
        endpoint.check(
            prompt_request(opened.model_identity, opened.prompt_spec, opened.sampling, "1 + 1 = ?")
        )
        solvers.append(opened)
    if config.premises is not None:
        await models.open(premise_model(config, config.premises), "premises.")
    return replace(spec, solvers=tuple(solvers))


def premise_model(config: RephraseConfig, premises: PremiseCheck) -> Model:
    """Return how the model for premises is asked: the proposer at its server if no other is named."""
    proposer = config.proposer
    if isinstance(proposer, LlmProposer) and (proposer.model, premises.base_url) == (premises.model, ()):
        return remote_model(proposer, premises.model)
    return remote_model(premises, premises.model)


def make_rule(verdict: VerdictRule, base: OverlapRule = OverlapRule()) -> OverlapRule:
    """Return the rule that the thresholds give; thresholds that were not given are those of `base`.

    Other numbers of answers scale the thresholds in proportion.
    """
    given = verdict.model_fields_set
    samples = verdict.question_samples if "question_samples" in given else base.original_samples
    looks = verdict.looks if "looks" in given else base.looks
    rule = base
    if (samples, looks) != (base.original_samples, base.looks):
        rule = OverlapRule.scaled(samples, looks)
    accept, reject = verdict.accept or rule.accept_overlap, verdict.reject or rule.reject_new
    return replace(rule, accept_overlap=accept, reject_new=reject)


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
    return _from_questions(config, spec, questions)


def _from_questions(config: RephraseConfig, spec: RunSpec, questions: Sequence[Question]) -> Estimate:
    count = len(questions)
    images = sum(len(question.images) for question in questions)
    asked = tokens(sum(len(question.text) for question in questions))
    rounds = between(1, spec.rounds)
    stages = []
    if isinstance(config.proposer, LlmProposer):
        around = sum(  # the questions; the spec has no more strategies than slots
            len(message.content)
            for strategy, slots in zip(spec.strategies, spec.slots(), strict=True)
            for message in build_messages(strategy, "", slots, structured=spec.output == "json")
        )
        rewritten = asked * REWRITE_LENGTH * spec.n * rounds
        requests = count * len(spec.strategies) * rounds
        asking = (asked + images * IMAGE_TOKENS) * len(spec.strategies)
        prompts = (tokens(around) * count + asking) * rounds
        stages.append(priced(PROPOSE, config.proposer, requests, prompts, rewritten))
    look = (spec.rule.looks[0] * spec.n, spec.rule.looks[-1] * spec.n * spec.rounds)
    for place, (solver, model) in enumerate(zip(spec.solvers, config.solver, strict=True)):
        shares = [spec.shares(spec.rule.original_samples + drawn)[place] for drawn in look]
        samples = count * between(*shares)
        requests = np.ceil(samples / solver.samples_per_request)
        prompts = (asked + images * IMAGE_TOKENS) * requests / count
        longest = solver.sampling.max_tokens
        drawn_tokens = samples * between(min(SHORT_ANSWER, longest), longest)
        stages.append(priced(ANSWER, model, requests, prompts, drawn_tokens))
    if spec.premises is not None and config.premises is not None:
        requests = count * spec.n * rounds
        prompts = 2 * asked * spec.n * rounds + requests * INSTRUCTIONS
        kept = requests * between(SHORT_ANSWER, spec.premises.sampling.max_tokens)
        stages.append(priced(PREMISES, premise_model(config, config.premises), requests, prompts, kept))
    return Estimate(count, stages, images=images)
