"""`tagrpo neighbors propose`: start a run of candidates and verdicts, or go on with one."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from ui.cli import exits, output
from ui.cli.eval.settings import Engine, EngineUse
from ui.cli.neighbors.judging import NewVerdictRule
from ui.cli.neighbors.settings import Proposer, RunRequests, Solvers
from ui.cli.output import Terminal, plural
from ui.cli.requests import DryRun, cap_in_force, print_estimates
from ui.cli.runs.resuming import keep
from ui.cli.settings import Db, RunArgument, SettingsFile

if TYPE_CHECKING:
    from rephraser.proposing.file import FileCandidates
    from rephraser.run.execution import Execution, Prepared
    from rephraser.run.spec import RunSpec
    from rephraser.verdict.judge import Rule
    from service.answer_kinds import AnswerKind
    from service.database import Database
    from service.models.estimate import Estimate
    from service.runs.store import Run


def propose(
    context: typer.Context,
    questions: Annotated[str, Argument(help="Name of an imported question set.")],
    *,
    name: Annotated[str, Option(help="Name of the run; an existing run is resumed.")],
    n: Annotated[int, Option("--n", help="Neighbors per question.")] = 3,
    rounds: Annotated[
        int, Option(help="Maximum rounds; each later round proposes for questions that still lack neighbors.")
    ] = 3,
    tops_up: Annotated[
        list[str] | None,
        Option(
            help="Earlier run whose neighbors count towards --n, so that only missing ones are proposed. "
            "Repeat the option for several."
        ),
    ] = None,
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
    rule: NewVerdictRule,
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
    from rephraser.run.engine import PROPOSER
    from rephraser.run.execution import prepare
    from rephraser.run.plan import runs_to_top_up
    from rephraser.run.spec import PremiseSpec, RunSpec
    from rephraser.run.start import (
        NothingLacksError,
        check_start,
        choose_output,
        read_candidate_file,
        start_run,
    )
    from service.models.published import read_seed
    from service.questions.store import set_kinds
    from service.runs.store import run_question_ids

    proposer.check(requests.candidates)
    run_seed = read_seed(seed)
    shared_seed = None if run_seed is None else 0  # runs of any seed share the answers of solvers
    verdict_rule, execution = rule.make(), requests.execution(engine)
    with db.open() as database:
        with database.read() as session:
            programs = _ask_for_programs(set_kinds(session, questions), questions, proposer, verdict_rule)
        strategies = proposer.strategies(programs=programs)
        candidates = read_candidate_file(database, execution.candidates, questions, limit=limit)
        specs, samplers = solvers.open(requests, seed=shared_seed, programs=programs)
        drawn_by = proposer.open(engine, requests)
        with database.read() as session:
            topped_up = runs_to_top_up(session, tops_up or (), questions)
        spec = RunSpec(
            questions=questions,
            proposer=proposer.proposer,
            model=proposer.model or proposer.proposer,
            strategies=strategies,
            n=n,
            rounds=rounds,
            content_attempts=proposer.content_attempts,
            seed=run_seed,
            sampling=proposer.drawing(),
            output=choose_output(
                proposer.reply,
                proposer.model if drawn_by is None else None,
                next(iter(requests.api_base), None),
            ),
            solvers=specs,
            rule=verdict_rule,
            premises=None if premises is None else PremiseSpec(premises, seed=shared_seed),
            token_limit=token_limit,
            tokenizer=tokenizer,
            source=None if candidates is None else candidates.content,
            min_distance=proposer.least_distance(),
            tops_up=topped_up,
            engine=None if drawn_by is None else dict(drawn_by.describe()),
        )
        if drawn_by is not None:
            drawn_by.check(spec.drawing)
            samplers[PROPOSER] = drawn_by
        try:
            known = check_start(database, name, spec, limit=limit)
        except NothingLacksError as nothing:
            output.note(str(nothing))
            if terminal.as_json:
                output.print_json({"run": None, "message": str(nothing)})
            return
        if dry_run:
            estimate = _estimate(database, name, spec, requests, limit)
            spread = "one round to all rounds for all questions"
            terminal.emit(
                estimate.to_json(), print_estimates, {"": estimate}, "question", spread, requests.max_usd
            )
            return
        before = 0
        if known is not None:
            with database.read() as session:
                before = len(run_question_ids(session, known.id))
                execution = replace(execution, max_usd=cap_in_force(session, known, execution.max_usd))
        # Prepared before the name is taken by a run that cannot begin.
        prepared = prepare(spec, execution, candidates, samplers)
        run, new = start_run(database, name, spec, limit=limit)
        if not new:
            output.note(f"resuming run {name}")
            with database.read() as session:
                now = len(run_question_ids(session, run.id))
            if now > before:
                output.note(f"run {name} grows from {before:,} to {plural(now, 'question')}")
        keep(context, database, [run])
        _note_unmatched(candidates)
        _carry_out(database, run, prepared, execution, terminal)


def _ask_for_programs(
    kinds: "frozenset[AnswerKind]", questions: str, proposer: Proposer, rule: "Rule"
) -> bool:
    """Return whether the questions of a set ask for programs.

    Raises:
        InputError: some do and some do not, or what was chosen is for mathematics alone.
    """
    from rephraser.verdict.overlap import OverlapRule
    from service.answer_kinds import AnswerKind
    from service.errors import InputError

    if AnswerKind.CODE not in kinds:
        return False
    if len(kinds) > 1:
        raise InputError(
            f'some questions of "{questions}" ask for programs and some do not. Split them into two sets.'
        )
    if proposer.proposer == "rules":
        raise InputError(
            "the rules rephrase mathematics only. For programs, name a model or a file of candidates."
        )
    if not isinstance(rule, OverlapRule):
        raise InputError("programs can be judged by the overlap rule only.")
    return True


def _estimate(
    database: "Database", name: str, spec: "RunSpec", requests: RunRequests, limit: int | None
) -> "Estimate":
    from rephraser.run.estimate import estimate_run
    from rephraser.run.start import wanted_questions

    with database.read() as session:
        questions = wanted_questions(session, name, spec, limit)
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
    """Go on with a run where it stopped, by its settings in the database: `tagrpo resume`."""
    from rephraser.run.execution import prepare
    from rephraser.run.spec import RunSpec
    from rephraser.run.start import find_neighbor_run, read_candidate_file
    from service.runs.store import run_question_ids

    execution = requests.execution(engine)
    with db.open() as database:
        with database.read() as session:
            stored = find_neighbor_run(session, run)
            count = len(run_question_ids(session, stored.id))
            execution = replace(execution, max_usd=cap_in_force(session, stored, execution.max_usd))
        spec = RunSpec.from_json(stored.spec)
        candidates = read_candidate_file(database, execution.candidates, spec.questions, limit=count)
        prepared = prepare(spec, execution, candidates)
        keep(context, database, [stored])
        _note_unmatched(candidates)
        _carry_out(database, stored, prepared, execution, terminal)


def _note_unmatched(candidates: "FileCandidates | None") -> None:
    if candidates is not None and candidates.unmatched:
        output.note(
            f"{candidates.source}: {candidates.unmatched:,} of {plural(candidates.rows, 'row')} belong to "
            "no question of this run and are left out"
        )


def _carry_out(
    database: "Database", run: "Run", prepared: "Prepared", execution: "Execution", terminal: Terminal
) -> None:
    from rephraser.run.execution import carry_out
    from rephraser.views.runs import summarize
    from service.models.stopping import INTERRUPTED, deliver_signal
    from ui.cli.neighbors.summary import print_summary, run_problems

    with terminal.progress(run.name) as bar:
        outcome = carry_out(database, run, prepared, execution, output.stages(bar))
    with database.read() as session:
        summary = summarize(session, run)
    for notice in outcome.notices:
        output.note(notice)
    if outcome.stopped == INTERRUPTED:  # what was in flight is stored
        deliver_signal()
    record = {**summary.to_json(), "stopped": outcome.stopped, "message": outcome.message}
    terminal.emit(record, print_summary, summary, ended=not outcome.stopped)
    problems = run_problems(outcome, summary)
    if problems:
        reasons = {outcome.stopped} if outcome.stopped else set()
        raise exits.unfinished(reasons, "; ".join(problems) + ".")
