"""`tagrpo neighbors propose`: start a run of candidates and verdicts, or go on with one."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from ui.cli import exits, output
from ui.cli.eval.settings import Engine, EngineUse
from ui.cli.neighbors.judging import VerdictRule
from ui.cli.neighbors.settings import Proposer, RunRequests, Solvers, SpecParts, open_stored
from ui.cli.output import Terminal, plural
from ui.cli.requests import DryRun, cap_in_force, log_folder, print_estimates
from ui.cli.runs.resuming import keep
from ui.cli.settings import Db, RunArgument, SettingsFile

if TYPE_CHECKING:
    from rephraser.proposing.file import FileCandidates
    from rephraser.run.spec import RunSpec
    from service.answer_kinds import AnswerKind
    from service.database import Database
    from service.engines.opening import OpenModels
    from service.models.estimate import Estimate
    from service.runs.store import Run
    from ui.cli.neighbors.settings import OpenedModels


def propose(
    context: typer.Context,
    questions: Annotated[str, Argument(help="Name of an imported question set.")],
    *,
    name: Annotated[str, Option(help="Name of the run; an existing run is resumed.")],
    n: Annotated[int, Option("--n", help="Neighbors per question.")] = 3,
    rounds: Annotated[
        int, Option(help="Maximum rounds; each later round proposes for questions that still lack neighbors.")
    ] = 3,
    dry_run: DryRun = False,
    limit: Annotated[
        int | None,
        Option(min=1, help="Only the first questions. A larger limit, or none, extends the same run."),
    ] = None,
    seed: Annotated[
        str,
        Option(
            metavar="N|none", help="Random seed of the run; none sends no seed, so the run is not repeatable."
        ),
    ] = "0",
    token_limit: Annotated[int, Option(min=1, help="Maximum tokens in a candidate.")] = 512,
    tokenizer: Annotated[
        str | None,
        Option(help="tokenizer.json or Hub name of the tokenizer that counts tokens. Default: an estimate."),
    ] = None,
    premises: Annotated[
        str | None,
        Option(
            help="Model that checks whether each premise of the question is kept. Default: no premise check."
        ),
    ] = None,
    proposer: Proposer,
    solvers: Solvers,
    rule: VerdictRule,
    requests: RunRequests,
    engine: Engine,
    settings: SettingsFile,
    db: Db,
    terminal: Terminal,
) -> None:
    """Propose neighbors for questions, check them, and compare answers if a solver is named.

    Results are stored as they arrive. After an interruption or a spent budget, run the same command again, or
    `tagrpo resume NAME`, to resume; nothing is paid for twice.

    Example: tagrpo neighbors propose math --name math-gpt4 --model gpt-4-turbo --n 3
    --solver hosted_vllm/Qwen/Qwen3-4B --solver-api-base http://localhost:8000/v1 --max-usd 50
    """
    from rephraser.proposing.tokens import load_token_counter
    from rephraser.run.start import read_candidate_file
    from service.models.published import read_seed
    from service.questions.store import set_kinds

    proposer.check(requests.candidates)
    run_seed = read_seed(seed)
    verdict_rule = rule.make()
    with db.open() as database:
        with database.read() as session:
            programs = _ask_for_programs(set_kinds(session, questions), questions, proposer)
        candidates = read_candidate_file(database, requests.candidate_file(), questions, limit=limit)
        parts = SpecParts(
            questions=questions,
            proposer=proposer,
            solvers=solvers,
            premises=premises,
            engine=engine,
            requests=requests,
            seed=run_seed,
            programs=programs,
        )

        def make(models: "OpenedModels | None") -> "RunSpec":
            return parts.make(
                models,
                n=n,
                rounds=rounds,
                rule=verdict_rule,
                token_limit=token_limit,
                tokenizer=tokenizer,
                source=None if candidates is None else candidates.content,
            )

        spec = make(None)  # what cannot be used is refused before a model is reached
        count_tokens = load_token_counter(tokenizer) if tokenizer else None
        if dry_run:
            estimate = _estimate(database, spec, requests, limit)
            spread = "one round to all rounds for all questions"
            terminal.emit(
                estimate.to_json(), print_estimates, {"": estimate}, "question", spread, requests.max_usd
            )
            return
        asyncio.run(_propose(context, database, name, limit, parts, make, candidates, count_tokens, terminal))


async def _propose(
    context: typer.Context,
    database: "Database",
    name: str,
    limit: int | None,
    parts: "SpecParts",
    make: "Callable[[OpenedModels], RunSpec]",
    candidates: "FileCandidates | None",
    count_tokens: "Callable[[str], int] | None",
    terminal: Terminal,
) -> None:
    """Open the models, start the run or find it again, and carry it out."""
    from rephraser.run.start import check_start, start_run
    from service.engines.opening import OpenModels
    from service.runs.store import run_question_ids

    requests = parts.requests
    capped = requests.max_usd is not None
    async with OpenModels(log_folder(database), requests.price_table(), capped=capped) as models:
        opened = await parts.open(models)
        spec = make(opened)
        known = check_start(database, name, spec, limit=limit)
        before, max_usd = 0, requests.max_usd
        if known is not None:
            with database.read() as session:
                before = len(run_question_ids(session, known.id))
                max_usd = cap_in_force(session, known, max_usd)
        run, new = start_run(database, name, spec, limit=limit)
        if not new:
            output.note(f"resuming run {name}")
            with database.read() as session:
                now = len(run_question_ids(session, run.id))
            if now > before:
                output.note(f"run {name} grows from {before:,} to {plural(now, 'question')}")
        keep(context, database, [run])
        _note_unmatched(candidates)
        await _carry_out(database, run, spec, models, requests, max_usd, candidates, count_tokens, terminal)


def _ask_for_programs(kinds: "frozenset[AnswerKind]", questions: str, proposer: Proposer) -> bool:
    """Return whether the questions of a set ask for programs.

    Raises:
        InputError: some do and some do not, or what was chosen is for mathematics alone.
    """
    from service.answer_kinds import AnswerKind
    from service.errors import InputError

    if AnswerKind.CODE not in kinds:
        return False
    if len(kinds) > 1:
        raise InputError(
            f'some questions of "{questions}" ask for programs and some do not. Split them into two sets.'
        )
    if proposer.proposer == "rules":
        raise InputError("the rules rephrase mathematics only. For programs, name a model or a file.")
    return True


def _estimate(database: "Database", spec: "RunSpec", requests: RunRequests, limit: int | None) -> "Estimate":
    from rephraser.run.estimate import estimate_run
    from rephraser.run.start import wanted_questions

    with database.read() as session:
        questions = wanted_questions(session, spec, limit)
        return estimate_run(session, spec, questions, requests.prices_in_force())


def go_on(
    context: typer.Context,
    run: RunArgument,
    *,
    requests: RunRequests,
    engine: EngineUse,
    settings: SettingsFile,
    db: Db,
    terminal: Terminal,
) -> None:
    """Resume a run by its settings in the database: `tagrpo resume`."""
    from rephraser.proposing.tokens import load_token_counter
    from rephraser.run.spec import RunSpec
    from rephraser.run.start import find_neighbor_run, read_candidate_file
    from service.runs.store import run_question_ids

    with db.open() as database:
        with database.read() as session:
            stored = find_neighbor_run(session, run)
            count = len(run_question_ids(session, stored.id))
            max_usd = cap_in_force(session, stored, requests.max_usd)
        spec = RunSpec.from_json(stored.spec)
        count_tokens = load_token_counter(spec.tokenizer) if spec.tokenizer else None
        candidates = read_candidate_file(database, requests.candidate_file(), spec.questions, limit=count)

        async def resume() -> None:
            from service.engines.opening import OpenModels

            capped = max_usd is not None
            async with OpenModels(log_folder(database), requests.price_table(), capped=capped) as models:
                await open_stored(spec, models, requests, engine)
                keep(context, database, [stored])
                _note_unmatched(candidates)
                await _carry_out(
                    database, stored, spec, models, requests, max_usd, candidates, count_tokens, terminal
                )

        asyncio.run(resume())


def _note_unmatched(candidates: "FileCandidates | None") -> None:
    if candidates is not None and candidates.unmatched:
        output.note(
            f"{candidates.source}: {candidates.unmatched:,} of {plural(candidates.rows, 'row')} belong to "
            "no question of this run and are left out"
        )


async def _carry_out(
    database: "Database",
    run: "Run",
    spec: "RunSpec",
    models: "OpenModels",
    requests: RunRequests,
    max_usd: float | None,
    candidates: "FileCandidates | None",
    count_tokens: "Callable[[str], int] | None",
    terminal: Terminal,
) -> None:
    from rephraser.run.execution import find_source, rephrase_run
    from rephraser.views.runs import summarize
    from service.asks.ask import INTERRUPTED
    from service.models.stopping import deliver_signal
    from service.runs.spending import set_cap
    from ui.cli.neighbors.summary import print_summary, run_problems

    source = find_source(spec, candidates)
    if max_usd is not None:
        with database.write() as session:
            set_cap(session, [run.id], max_usd)
    with terminal.progress(run.name) as bar:
        outcome = await rephrase_run(
            database,
            run,
            models.models(requests.options()),
            output.stages(bar),
            source=source,
            count_tokens=count_tokens,
            stop_below=requests.stop_below,
            retry_final=requests.retry_final,
        )
    with database.read() as session:
        summary = summarize(session, run)
    output.note_new(models.notices, set())
    if outcome.stopped == INTERRUPTED:  # requests in flight are stored
        deliver_signal()
    record = {**summary.to_json(), "stopped": outcome.stopped, "message": outcome.message}
    terminal.emit(record, print_summary, summary, ended=not outcome.stopped)
    problems = run_problems(outcome, summary)
    if problems:
        reasons = {outcome.stopped} if outcome.stopped else set()
        raise exits.unfinished(reasons, "; ".join(problems) + ".")
